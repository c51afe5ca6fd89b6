"""embed, as people run it."""

import errno
import json
import os
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import safetensors.numpy
from conftest import WORDS, Result, Written

from sgns_cli import tensors
from sgns_cli.cli import embed as command
from sgns_cli.npy import RowWriter
from sgns_cli.vectors import embed as embed_module

Sgns = Callable[..., Result]


def test_each_token_with_its_position_and_vector(sgns: Sgns, learned_run: Written) -> None:
    result = sgns("embed", "the dog fetched the ball", "cat", "--json")
    records = [json.loads(line) for line in result.out.splitlines()]
    assert list(records[0]) == ["text", "position", "token", "id", "vector"]
    assert [record["text"] for record in records] == [0] * 5 + [1]
    assert [record["position"] for record in records] == [0, 1, 2, 3, 4, 0]
    assert [record["token"] for record in records] == ["the", "dog", "fetched", "the", "ball", "cat"]
    assert learned_run.positions is not None
    expected = learned_run.embeddings[[0, 1, 2, 0, 3]] + learned_run.positions[:5]
    vectors = np.array([record["vector"] for record in records], dtype=np.float32)
    assert np.array_equal(vectors[:5], expected)
    assert "note: using runs/learned/step-00000010" in result.err


def test_without_positions(sgns: Sgns, learned_run: Written) -> None:
    result = sgns("embed", "the dog the", "--no-positions", "--json")
    vectors = [json.loads(line)["vector"] for line in result.out.splitlines()]
    assert vectors[0] == vectors[2]
    assert np.array_equal(np.array(vectors, np.float32), learned_run.embeddings[[0, 1, 0]])
    contexts = sgns("embed", "dog", "--vectors", "context", "--json", "-q")
    assert np.array_equal(np.float32(json.loads(contexts.out)["vector"]), learned_run.contexts[1])


def test_asking_for_positions_that_are_not_there(sgns: Sgns, word_run: Written) -> None:
    assert "has no positions" in sgns("embed", "dog", "--positions").err


def test_tsv(sgns: Sgns, word_run: Written) -> None:
    lines = sgns("embed", "dog cat").out.splitlines()
    assert lines[0] == "text\tposition\ttoken\tid\tvector"
    row = lines[2].split("\t")
    assert row[:4] == ["0", "1", "cat", "4"]
    assert np.array_equal(np.array(row[4].split(), np.float32), word_run.embeddings[4])


def test_pooled(sgns: Sgns, word_run: Written) -> None:
    record = json.loads(sgns("embed", "dog cat", "--pool", "mean", "--json").out)
    assert list(record) == ["text", "tokens", "vector"]
    assert record["tokens"] == 2
    np.testing.assert_allclose(record["vector"], word_run.embeddings[[1, 4]].mean(axis=0), rtol=1e-6)


def test_untrained_tokens_are_noted(sgns: Sgns, word_run: Written) -> None:
    result = sgns("embed", "the rare dog", "--json")
    assert not any(json.loads(result.out.splitlines()[1])["vector"])
    assert "1 of 3 tokens were never trained and have zero vectors: rare" in result.err


def test_sequences_are_numbered_when_shown(sgns: Sgns, word_run: Written) -> None:
    result = sgns("embed", "the dog fetched the ball", "--context-length", 3, "--stride", 2, "--json")
    records = [json.loads(line) for line in result.out.splitlines()]
    assert [record["sequence"] for record in records] == [0, 0, 0, 1, 1, 1]
    assert [record["position"] for record in records] == [0, 1, 2, 0, 1, 2]


def test_arrays(sgns: Sgns, word_run: Written) -> None:
    result = sgns("embed", "the dog fetched the ball", "-o", "x.npy")
    assert (result.code, result.out) == (0, "")
    assert "wrote x.npy: [5, 8] float32" in result.err
    path = word_run.path.parents[1] / "x.npy"
    assert np.array_equal(np.load(path), word_run.embeddings[[0, 1, 2, 0, 3]])
    sgns("embed", "the dog fetched the ball", "cat", "-o", "x.npy", "--context-length", 3)
    assert np.load(path).shape == (3, 3, 8)
    assert np.load(path.with_name("x.mask.npy")).sum() == 6
    sgns("embed", "the dog", "cat", "-o", "x.safetensors")
    arrays = safetensors.numpy.load_file(path.with_name("x.safetensors"))
    assert arrays["offsets"].tolist() == [0, 2, 3]
    sgns("embed", "the dog", "cat", "-o", "x.npy", "--pool", "mean")
    assert np.load(path).shape == (2, 8)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ([], 2, "no text"),
        (["dog", "-o", "x.csv"], 2, "x.csv is no name for arrays"),
        (["dog", "--stride", "2"], 2, "--stride needs --context-length"),
        (["dog", "--context-length", "0"], 2, "Invalid value for '--context-length'"),
        (["dog", "--context-length", "2", "--pool", "mean"], 2, "--pool mean takes whole texts"),
        (["dog", "--pool", "max"], 2, "Invalid value for '--pool'"),
        (["dog", "the cat", "-o", "x.npy"], 1, "the texts have different numbers of tokens"),
        (["dog", "-o", "no/x.npy"], 1, "cannot write no/x.npy"),
    ],
)
def test_what_fails(sgns: Sgns, word_run: Written, arguments: list[str], code: int, words: str) -> None:
    result = sgns("embed", *arguments)
    assert (result.code, result.out) == (code, "")
    assert f"error: {words}" in result.err
    assert not list(word_run.path.parents[1].glob("*.npy"))


def test_texts_from_stdin(sgns_process, word_run: Written) -> None:
    done = sgns_process("embed", "-", "--pool", "mean", "--json", stdin="the dog\n\ncat\n")
    assert [json.loads(line)["tokens"] for line in done.stdout.splitlines()] == [2, 0, 1]
    assert "1 text has no tokens" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ([""], 2, "error: the text is empty"),
        (["zzz"], 1, "error: nothing of 'zzz' is in the vocabulary"),
        (["zzz", "--pool", "mean"], 1, "error: nothing of 'zzz' is in the vocabulary"),
        (["zzz", "-o", "x.npy"], 1, "error: nothing of 'zzz' is in the vocabulary"),
        (["zzz", "", "-o", "x.safetensors"], 1, "error: none of 2 texts has a token"),
    ],
)
def test_nothing_to_embed(sgns: Sgns, word_run: Written, arguments: list[str], code: int, words: str) -> None:
    result = sgns("embed", *arguments)
    assert (result.code, result.out) == (code, "")
    assert words in result.err
    assert not list(word_run.path.parents[1].glob("x.*"))


def test_a_text_without_tokens_keeps_its_number(sgns: Sgns, word_run: Written) -> None:
    result = sgns("embed", "dog", "zzz", "", "cat", "--json")
    assert result.code == 0
    assert [json.loads(line)["text"] for line in result.out.splitlines()] == [0, 3]
    assert "2 texts have no tokens: text 1, text 2" in result.err
    assert "1 of 3 words are not in the vocabulary and are left out: zzz" in result.err
    assert sgns("embed", "dog", "zzz", "cat", "-o", "x.safetensors").code == 0
    arrays = safetensors.numpy.load_file(word_run.path.parents[1] / "x.safetensors")
    assert arrays["offsets"].tolist() == [0, 1, 1, 2]


def test_an_empty_stdin_has_no_text(sgns_process, word_run: Written) -> None:
    done = sgns_process("embed", "-")
    assert (done.returncode, done.stdout) == (1, "")
    assert "error: no text came on standard input" in done.stderr


def give(monkeypatch: pytest.MonkeyPatch, lines: Iterable[bytes]) -> None:
    """Let stdin have these lines."""
    rest = iter(lines)
    buffer = SimpleNamespace(read1=lambda size: next(rest, b""), readline=lambda: b"")
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=buffer))


def test_arrays_are_what_torchs_embedding_layers_give(sgns: Sgns, learned_run: Written) -> None:
    import torch

    rows = torch.nn.Embedding.from_pretrained(torch.from_numpy(learned_run.embeddings))
    places = torch.nn.Embedding.from_pretrained(torch.from_numpy(np.asarray(learned_run.positions)))
    ids = torch.tensor([0, 1, 2, 0, 3, 5, 0, 6])
    text = " ".join(WORDS[id] for id in ids)
    whole = (rows(ids) + places(torch.arange(8))).numpy()

    assert sgns("embed", text, "-o", "x.npy").code == 0
    assert np.array_equal(np.load("x.npy"), whole)
    assert sgns("embed", text, "cat", "-o", "x.safetensors").code == 0
    arrays = safetensors.numpy.load_file("x.safetensors")
    assert np.array_equal(arrays["vectors"][:8], whole)
    assert np.array_equal(arrays["vectors"][8:], (rows(torch.tensor([4])) + places(torch.tensor([0]))).numpy())

    assert sgns("embed", text, "-o", "x.safetensors", "--context-length", 3).code == 0
    arrays = safetensors.numpy.load_file("x.safetensors")
    padded = torch.nn.functional.pad(ids, (0, 1)).reshape(3, 3)
    mask = torch.tensor([[True] * 3, [True] * 3, [True, True, False]])
    assert np.array_equal(arrays["ids"], padded.numpy())
    assert np.array_equal(arrays["mask"], mask.numpy())
    assert np.array_equal(arrays["vectors"], ((rows(padded) + places(torch.arange(3))) * mask[:, :, None]).numpy())

    assert sgns("embed", text, "the", "-o", "x.npy", "--pool", "mean").code == 0
    np.testing.assert_allclose(np.load("x.npy")[0], whole.mean(axis=0), rtol=1e-5, atol=1e-6)
    assert np.array_equal(np.load("x.npy")[1], (rows(ids[3]) + places(torch.tensor(0))).numpy())


KINDS = {
    "pooled.npy": ["--pool", "mean"],
    "pooled.safetensors": ["--pool", "mean"],
    "texts.safetensors": [],
    "texts.npy": [],
    "windows.npy": ["--context-length", 3, "--stride", 2],
    "windows.safetensors": ["--context-length", 3, "--stride", 2],
}


def lines_for(name: str, number: int) -> Iterator[bytes]:
    """Lines of 8 words; where lengths may differ, with words of their own that are unknown, and empty ones."""
    for line in range(number):
        if name == "texts.npy":
            yield b"the dog fetched the ball cat the dog\n"
        else:
            yield b"\n" if line % 7 == 0 else b"the dog fetched the ball cat the x%d\n" % line


@pytest.mark.parametrize("name", KINDS)
def test_memory_does_not_grow_with_the_number_of_texts(
    sgns: Sgns, word_run: Written, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(embed_module, "NUMBERS_AT_ONCE", 2**12)
    monkeypatch.setattr(embed_module, "UNKNOWN_AT_MOST", 100)
    monkeypatch.setattr(command, "TEXT_AT_ONCE", 2**17)
    monkeypatch.setattr(tensors, "COPIED_AT_ONCE", 2**12)

    def peak(number: int) -> int:
        give(monkeypatch, lines_for(name, number))
        tracemalloc.start()
        assert sgns("embed", "-", *KINDS[name], "-o", name, "-q").code == 0
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    peak(10)  # what is imported and remembered once
    assert peak(4300) - peak(300) < 100_000  # the ids alone would be more than 200,000


@pytest.mark.parametrize("name", KINDS)
def test_many_texts_are_those_that_are_embedded_alone(
    sgns: Sgns, learned_run: Written, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def arrays() -> list[np.ndarray]:
        give(monkeypatch, lines_for(name, 50))
        assert sgns("embed", "-", *KINDS[name], "-o", name, "-q").code == 0
        if name.endswith(".npy"):
            return [np.load(file) for file in sorted(Path().glob("*.npy"))]
        return [array for _, array in sorted(safetensors.numpy.load_file(name).items())]

    together = arrays()
    monkeypatch.setattr(embed_module, "NUMBERS_AT_ONCE", 1)
    monkeypatch.setattr(command, "TEXT_AT_ONCE", 1)
    alone = arrays()
    assert len(together) == len(alone) > 0
    assert "pooled" in name or all(map(np.array_equal, together, alone))
    assert all(map(np.allclose, together, alone))  # means of texts that were summed in parts


def full_disk(monkeypatch: pytest.MonkeyPatch) -> Iterable[bytes]:
    append = RowWriter.append

    def refuse(writer: RowWriter, rows: np.ndarray) -> None:
        if writer.shape[0] > 20:
            raise OSError(errno.ENOSPC, "No space left on device")
        append(writer, rows)

    monkeypatch.setattr(RowWriter, "append", refuse)
    return lines_for("texts.npy", 100)


def interrupted(_: pytest.MonkeyPatch) -> Iterable[bytes]:
    yield from lines_for("texts.npy", 50)
    raise KeyboardInterrupt


def not_utf8(_: pytest.MonkeyPatch) -> Iterable[bytes]:
    yield from lines_for("texts.npy", 6)
    yield b"the d\xe4g\n"


def a_folder(_: pytest.MonkeyPatch) -> Iterable[bytes]:
    yield from lines_for("texts.npy", 50)
    raise IsADirectoryError(errno.EISDIR, "Is a directory")


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize(
    ("failure", "code", "words"),
    [
        (full_disk, 1, "error: cannot write {name}: No space left on device\nhint: free some space"),
        (interrupted, 130, ""),
        (not_utf8, 1, "error: standard input, line 7: not valid UTF-8 at byte 5"),
        (a_folder, 1, "error: cannot read standard input: Is a directory"),
    ],
)
def test_a_failure_on_the_way_leaves_everything_as_it_was(
    sgns: Sgns, word_run: Written, monkeypatch: pytest.MonkeyPatch, name: str, failure: Callable, code: int, words: str
) -> None:
    monkeypatch.setattr(embed_module, "NUMBERS_AT_ONCE", 8 * 20)
    monkeypatch.setattr(command, "TEXT_AT_ONCE", 2048)
    mask = Path(name).with_suffix(".mask.npy")
    for earlier in (True, False):
        for path in (Path(name), mask):
            path.write_bytes(b"of an earlier run") if earlier else path.unlink()
        before = {path: path.read_bytes() for path in Path().iterdir() if path.is_file()}
        with monkeypatch.context() as patch:
            give(patch, failure(patch))
            result = sgns("embed", "-", *KINDS[name], "-o", name)
        assert result.code == code
        assert words.replace("{name}", name) in result.err
        assert {path: path.read_bytes() for path in Path().iterdir() if path.is_file()} == before


@pytest.mark.parametrize("arguments", [["--json"], ["--json", "--pool", "mean"]])
def test_an_answer_comes_before_the_next_line_is_given(word_run: Written, project: Path, arguments: list[str]) -> None:
    command = [sys.executable, "-m", "sgns_cli", "embed", "-", "--model", str(word_run.path), *arguments]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(project)}
    ) as process:
        guard = threading.Timer(60, process.kill)  # reading would wait for ever
        guard.start()
        assert process.stdin is not None
        assert process.stdout is not None
        for number, word in enumerate((b"dog", b"ball")):
            process.stdin.write(word + b"\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["text"] == number
        process.stdin.close()
        assert process.stdout.read() == b""
        guard.cancel()
    assert process.returncode == 0
