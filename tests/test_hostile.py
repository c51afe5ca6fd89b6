"""Folders and files from a stranger: they are read, or refused in two lines; nothing of them runs, nothing leads out of
them, and no number in them makes a program wait or take memory.
"""

import json
import os
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest
from conftest import bpe_tokenizer, write_run
from corpora import change_meta

from sgns_cli import run_folder
from sgns_cli.errors import SgnsError
from sgns_cli.files import MOST_JSON, read_whole, sealed, unsealed
from sgns_cli.training import run

CONFIG = """\
data: {sources: [tokens]}
model: {dim: 4, min_count: 1, positions: learned, context_length: 6}
train: {epochs: 2}
"""
ASKED = {
    "tokens": [["info", "tokens"], ["tokenize", "tokens"], ["train", "c.yaml", "-o", "runs/new"]],
    "runs/c": [
        ["neighbors", "dog", "--vectors", "sum", "--model", "runs/c"],
        ["embed", "the dog", "--model", "runs/c"],
        ["info", "runs/c"],
        ["plot", "--loss", "-o", "loss.html", "--model", "runs/c"],
        ["train", "c.yaml", "--resume", "--set", "train.epochs=3"],
        ["train", "c.yaml", "-o", "runs/new", "--init-from", "runs/c"],
    ],
}


@pytest.fixture
def here(tmp_path, sgns):
    """A token folder and a run, each with tokens of its own."""
    (tmp_path / "text.txt").write_text("the dog saw the cat\nthe cat saw a dog\n" * 60)
    (tmp_path / "c.yaml").write_text(CONFIG)
    assert sgns("tokenize", "text.txt", "-o", "tokens", "--encoding", "whitespace").code == 0
    assert sgns("train", "c.yaml").code == 0
    return tmp_path


@pytest.fixture(autouse=True)
def no_waiting():
    """Whoever waits for somebody to write into a pipe waits for good: such a test fails here."""
    before = signal.signal(signal.SIGALRM, lambda *_: pytest.fail("it waits"))
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def files_of(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def refusals(sgns, questions: list[list[str]], words: str) -> int:
    """How many of some questions are refused with these words; the others are answered."""
    number = 0
    for question in questions:
        result = sgns(*question)
        assert "this is a bug" not in result.err
        assert "Traceback" not in result.err
        assert "not enough memory" not in result.err
        if result.code:
            assert words in result.err, result
            assert [line[:5] for line in result.err.splitlines() if line[:5] != "note:"] == ["error", "hint:"], result
            number += 1
        shutil.rmtree("runs/new", ignore_errors=True)
    return number


# ------------------------------------------------------------------ links and pipes


@pytest.mark.parametrize("folder", ASKED)
def test_links_out_of_a_folder_are_not_followed(sgns, here, folder):
    outside = here / "outside"
    outside.mkdir()
    for file in files_of(here / folder):
        moved = outside / file.name
        data = file.read_bytes()
        file.rename(moved)
        file.symlink_to(moved)
        assert refusals(sgns, ASKED[folder], f"{file.name} is a link out of ") > 0, file
        assert moved.read_bytes() == data  # what is written through a link goes elsewhere
        file.unlink()
        moved.rename(file)
    assert refusals(sgns, ASKED[folder][:-2], "") == 0


@pytest.mark.parametrize("name", ["tokenizer", "step"])
def test_links_to_folders_are_not_followed_either(sgns, here, name):
    inner = next((here / "runs/c").glob(f"{name}*"))
    inner.rename(here / "elsewhere")
    inner.symlink_to(here / "elsewhere")
    assert refusals(sgns, ASKED["runs/c"], "is a link out of ") >= 4


def test_a_run_may_lie_behind_a_link(sgns, here):
    (here / "runs/c").rename(here / "moved")
    (here / "runs/c").symlink_to(here / "moved")
    assert refusals(sgns, ASKED["runs/c"], "") == 0
    assert sgns("train", "c.yaml", "--overwrite", "--set", "train.seed=5").code == 0
    assert (here / "runs/c").is_symlink()
    assert "seed: 5" in (here / "moved/config.yaml").read_text()


def test_links_out_of_a_source_folder_are_not_followed(sgns, here):
    (here / "secret.txt").write_text("the secret\n")
    (here / "corpus").mkdir()
    (here / "corpus/a.txt").write_text("a text\n")
    (here / "corpus/b.txt").symlink_to(here / "secret.txt")
    assert "corpus/b.txt is a link out of corpus" in sgns("tokenize", "corpus", "--encoding", "whitespace").err
    (here / "corpus/b.txt").unlink()
    (here / "corpus/b.txt").symlink_to("a.txt")
    assert sgns("tokenize", "corpus", "--encoding", "whitespace").code == 0


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
@pytest.mark.parametrize("folder", ASKED)
def test_nobody_waits_for_a_pipe(sgns, here, folder):
    for file in files_of(here / folder):
        file.rename(here / "kept")
        os.mkfifo(file)
        assert refusals(sgns, ASKED[folder], "") > 0, file
        file.unlink()
        (here / "kept").rename(file)


def test_names_in_a_token_folder_lead_nowhere_else(sgns, here):
    checksums = json.loads((here / "tokens/meta.json").read_text())["checksums"]
    meta = (here / "tokens/meta.json").read_bytes()
    for name, words in (
        ("../text.txt", "../text.txt is a link out of tokens"),
        ("/etc/hostname", "/etc/hostname is a link out of tokens"),
        ("tokenizer/../../text.txt", "text.txt is a link out of tokens"),
        ("a\0b", "cannot be looked at"),
        ("\ud800", "cannot be looked at"),
        ("x" * 300, "cannot be looked at"),
    ):
        change_meta(here / "tokens", checksums={**checksums, name: "0" * 64})
        assert refusals(sgns, [ASKED["tokens"][-1]], words) == 1
        (here / "tokens/meta.json").write_bytes(meta)


def test_a_link_to_itself_is_refused(sgns, here):
    for folder in ASKED:
        for file in files_of(here / folder):
            file.rename(here / "kept")
            file.symlink_to(file.name)
            assert refusals(sgns, ASKED[folder], "") > 0, file
            file.unlink()
            (here / "kept").rename(file)


# ------------------------------------------------------------------ numbers that ask for memory

HUGE = 2**60


def tensor_file(header: dict, *, length: int | None = None) -> bytes:
    text = json.dumps(header).encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text + bytes(64)


@pytest.mark.parametrize(
    "data",
    [
        tensor_file({}, length=2**63),
        tensor_file({}, length=90_000_000),
        tensor_file({"embeddings": {"dtype": "F32", "shape": [HUGE, HUGE], "data_offsets": [0, 64]}}),
        tensor_file({"embeddings": {"dtype": "F32", "shape": [HUGE, 0], "data_offsets": [0, 0]}}),
        tensor_file({"embeddings": {"dtype": "F32", "shape": [1] * 10_000, "data_offsets": [0, 4]}}),
        tensor_file({"embeddings": {"dtype": "F32", "shape": [4, 4], "data_offsets": [-64, 0]}}),
        tensor_file({"embeddings": {"dtype": "F32", "shape": ["4", "4"], "data_offsets": ["0", "64"]}}),
        tensor_file({"embeddings": {"dtype": "F32", "shape": [4, 4], "data_offsets": [0, HUGE]}}),
    ],
)
def test_a_header_of_a_tensor_file_gets_no_memory(sgns, here, data):
    (next((here / "runs/c").glob("step-*")) / "model.safetensors").write_bytes(data)
    (here / "other.safetensors").write_bytes(data)
    other = ["neighbors", "dog", "--model", "other.safetensors", "--encoding", "runs/c/tokenizer"]
    assert refusals(sgns, [*ASKED["runs/c"][:2], other], "") == 3


@pytest.mark.parametrize("name", ["documents.npy", "counts.npy"])
def test_a_header_of_an_array_gets_no_memory(sgns, here, name):
    file = here / "tokens" / name
    with file.open("wb") as header:
        np.lib.format.write_array_header_1_0(header, {"descr": "<i8", "fortran_order": False, "shape": (HUGE,)})
    n_vocab = {"kind": "whitespace", "name": "whitespace", "n_vocab": HUGE, "fingerprint": ""}
    change_meta(here / "tokens", documents=HUGE - 1, tokenizer=n_vocab)
    assert refusals(sgns, ASKED["tokens"], "") == 3


@pytest.mark.parametrize("data", [b"99999999999 100000\na 1 2\n", b"4 99999999999\na 1 2\n", b"1 1000000000\na 1 2\n"])
def test_a_header_of_word_vectors_gets_no_memory(sgns, here, data):
    (here / "words.txt").write_bytes(data)
    assert refusals(sgns, [["neighbors", "a", "--model", "words.txt"]], "words.txt") == 1


@pytest.mark.parametrize("folder", ASKED)
def test_a_file_that_is_too_large_is_not_read(sgns, here, folder):
    """Files with nothing in them, of a length that no memory has."""
    files = [file for file in files_of(here / folder) if file.suffix in (".json", ".jsonl", ".txt", ".yaml")]
    assert len(files) >= 3
    for file in files:
        data = file.read_bytes()
        os.truncate(file, 2**40)
        assert refusals(sgns, ASKED[folder], "") > 0, file
        file.write_bytes(data)


def test_a_whole_file_is_read_up_to_a_limit(tmp_path):
    file = tmp_path / "f"
    file.write_bytes(b"1234")
    assert read_whole(file, at_most=4) == b"1234"
    with pytest.raises(SgnsError, match="has 4 bytes, more than any such file"):
        read_whole(file, at_most=3)
    os.truncate(file, MOST_JSON + 1)
    with pytest.raises(SgnsError, match="more than any such file"):
        read_whole(file, at_most=MOST_JSON)


def test_what_is_sealed_is_known_again(tmp_path):
    value = {"a": 1.5, "b": [None, "é\ud800"], "c": {"d": 2**70}}
    read = json.loads(json.dumps(sealed(value)))
    assert unsealed(tmp_path, dict(read)) == value
    assert unsealed(tmp_path, dict(value)) == value  # made without a checksum
    for other in ({"a": 1.25}, {"e": 1}, {"c": {}}):
        with pytest.raises(SgnsError, match="is not what was written"):
            unsealed(tmp_path, {**read, **other})


def test_a_small_packed_file_that_becomes_a_long_line_is_refused(sgns, here, monkeypatch):
    """A line without an end is held whole; there is no memory for one of any length."""
    import gzip

    from sgns_cli.corpus import text_documents

    monkeypatch.setattr(text_documents, "LONG", 2**20)
    monkeypatch.setattr(text_documents, "available_memory", lambda: 2**25)
    (here / "bomb.txt.gz").write_bytes(gzip.compress(b"a " * 2**22))
    for document in ("line", "paragraph", "file"):
        result = sgns("tokenize", "bomb.txt.gz", "-o", "t", "--encoding", "whitespace", "--document", document)
        assert "has no room in memory" in result.err
        assert not (here / "t").exists()


# ------------------------------------------------------------------ what changes meanwhile


def test_tokens_that_change_under_a_training_end_it(sgns, here, monkeypatch):
    """No id leads out of an array, and what was trained on them is not saved."""
    save, saved = run.save_step, []

    def save_and_change(*arguments, **more):
        save(*arguments, **more)
        saved.append(arguments[1])
        if len(saved) == 2:
            (here / "tokens/tokens.bin").write_bytes(b"\xff" * (here / "tokens/tokens.bin").stat().st_size)

    monkeypatch.setattr(run, "save_step", save_and_change)
    often = ["--set", "run.checkpoint_minutes=1e-9", "--set", "train.epochs=9"]
    result = sgns("train", "c.yaml", "-o", "runs/new", *often)
    assert result.code == 1
    last = next((here / "runs/new").glob(f"step-{saved[1]:08d}"))
    told = "tokens is damaged: tokens.bin was changed while it was in use; the last good checkpoint is runs/new/"
    assert f"{told}{last.name}" in result.err
    assert sorted((here / "runs/new").glob("step-*"))[-1] == last


def test_a_step_of_another_run_is_not_resumed(sgns, here):
    assert sgns("train", "c.yaml", "-o", "runs/other", "--set", "train.seed=2", "--set", "train.epochs=3").code == 0
    (other,) = (here / "runs/other").glob("step-*")
    shutil.copytree(other, here / "runs/c" / other.name)
    assert (
        refusals(sgns, [["train", "c.yaml", "--resume", "--set", "train.epochs=4"]], "of a run with another config")
        == 1
    )


def test_a_reader_looks_again_where_a_step_goes(here, monkeypatch):
    """A training removes old steps while somebody reads the latest one that it found."""
    (step,) = (here / "runs/c").glob("step-*")
    newer = here / "runs/c/step-00000099"
    opened = []

    def read(found):
        opened.append(found.name)
        if found == step:
            found.rename(newer)
        return run_folder.read_state(found)["step"]

    assert run_folder.of_latest(here / "runs/c", read) == 2
    assert opened == [step.name, newer.name]
    newer.rename(step)
    with pytest.raises(SgnsError, match="no longer there"):
        run_folder.of_latest(step, read)


# ------------------------------------------------------------------ what reaches the terminal


def test_nothing_in_a_folder_reaches_the_terminal_raw(sgns, tmp_path):
    evil = "\x1b]0;owned\x07\x1b[2J\u202e"
    run = write_run(tmp_path / "runs" / "evil", bpe_tokenizer(), np.full(bpe_tokenizer().n_vocab, 9))
    ranks = run.path / "tokenizer/ranks.json"
    description = json.loads(ranks.read_text())
    ranks.write_text(json.dumps({**description, "name": evil, "special_tokens": {evil: 266}}))
    state = run.step / "state.json"
    told = json.loads(state.read_text())
    state.write_text(json.dumps({**told, "positions": evil}))
    results = [sgns("info", run.path), sgns("neighbors", "gold", "--model", run.path)]
    state.write_text(json.dumps({**told, "metrics": {"loss": evil}, "seed": evil, "tokens_seen": evil}))
    results += [sgns("info", run.path), sgns("info", run.path, "--json"), sgns("neighbors", "gold", "--id", "266")]
    state.write_text(json.dumps({**told, "format_version": evil}))
    results += [sgns("info", run.path)]
    for result in results:
        assert not [char for char in result.out + result.err if not char.isprintable() and char not in "\n\t"], result
