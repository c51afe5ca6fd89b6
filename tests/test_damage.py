"""Every file of a token folder and of a run, cut short and with bits turned at many places: what is asked of it then is
answered as before, or refused in two lines.
"""

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

CONFIG = """\
data: {sources: [tokens]}
model: {dim: 4, min_count: 1, positions: learned, context_length: 6}
train: {epochs: 2, seed: 4}
"""
PLACES = int(os.environ.get("PLACES", "1"))  # in each file; `make faults` takes more
LOST = 64  # bytes
QUESTIONS = {
    "tokens": [
        ["info", "tokens", "--json"],
        ["tokenize", "tokens", "--json"],
        ["train", "c.yaml", "-o", "runs/other", "-q"],
    ],
    "runs/c": [
        ["neighbors", "dog", "cat", "--json", "--model", "runs/c"],
        ["similarity", "dog", "cat", "--json", "--vectors", "sum", "--model", "runs/c"],
        ["embed", "the dog", "--json", "--model", "runs/c"],
        ["info", "runs/c", "--json"],
        ["plot", "--loss", "--json", "-o", "losses.png", "--model", "runs/c"],
        ["train", "c.yaml", "--resume", "-q"],
        ["train", "c.yaml", "--init-from", "runs/c", "-o", "runs/other", "--set", "train.epochs=0", "-q"],
    ],
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A token folder and a run of each kind of tokenizer."""
    from sgns_cli.cli import main

    here = tmp_path_factory.mktemp("whole")
    for kind, options in {
        "words": ["--encoding", "whitespace"],
        "bpe": ["--train-vocab", "270", "--pattern", "words"],
    }.items():
        folder = here / kind
        folder.mkdir()
        (folder / "text.txt").write_text("the dog saw the cat\nthe cat saw a dog\n" * 60)
        (folder / "c.yaml").write_text(CONFIG)
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            assert main(["tokenize", "text.txt", "-o", "tokens", "-q", *options]) == 0
            assert main(["train", "c.yaml", "-q"]) == 0
    return here


def damages(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Places spread over a file: cut there, a bit turned there, some bytes lost there; and cut by a byte."""
    yield "a byte short", data[:-1]
    for place in (np.arange(0.5, PLACES) / PLACES * len(data)).astype(int).tolist():
        yield f"cut to {place} bytes", data[:place]
        turned = bytearray(data)
        turned[place] ^= 1 << place % 8
        yield f"bit {place % 8} of byte {place}", bytes(turned)
        yield (
            f"zeros from byte {place} on",
            data[:place] + bytes(len(data[place : place + LOST])) + data[place + LOST :],
        )


@pytest.mark.parametrize("kind", ["words", "bpe"])
@pytest.mark.parametrize("folder", QUESTIONS)
def test_damage_is_told_or_does_no_harm(sgns, folders, tmp_path, kind, folder):
    shutil.copytree(folders / kind, tmp_path, dirs_exist_ok=True)

    def asked(question: list[str]):
        shutil.rmtree(tmp_path / "runs/other", ignore_errors=True)
        result = sgns(*question)
        others = sorted((tmp_path / "runs/other").rglob("*.safetensors"))
        out = re.sub(r'"disk_bytes": \d+|"written": "[^"]*"', "", result.out)  # which the damage itself changes
        return result, [out, *(path.read_bytes() for path in others)]

    slow = kind == "words" and PLACES == 1  # and the same for both kinds
    questions = [question for question in QUESTIONS[folder] if not slow or question[0] not in ("train", "plot")]
    whole = {tuple(question): asked(question) for question in questions}
    assert {result.code for result, _ in whole.values()} == {0}, whole
    files = sorted(path for path in (tmp_path / folder).rglob("*") if path.is_file())
    assert len(files) >= 6
    refused = 0
    for file in files:
        data = file.read_bytes()
        for damage, spoilt in damages(data):
            for question, (_, answer) in whole.items():
                file.write_bytes(spoilt)
                result, found = asked(list(question))
                where = f"{file.relative_to(tmp_path)}, {damage}: {question} -> {result}"
                if result.code == 0:
                    assert found == answer, where
                else:
                    refused += 1
                    assert result.code in (1, 2), where
                    kinds = [line.split(":")[0] for line in result.err.splitlines() if not line.startswith("note:")]
                    assert kinds == ["error", "hint"], where
                    assert "this is a bug" not in result.err, where
                assert file.read_bytes() == spoilt or result.code == 0, where  # nothing is made worse
        file.write_bytes(data)
    assert refused > len(files) * PLACES
    assert [asked(list(question))[1] for question in whole] == [answer for _, answer in whole.values()]
