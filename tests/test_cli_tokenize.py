"""tokenize, as people run it."""

import base64
import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from conftest import Result

Sgns = Callable[..., Result]
TEXT = "the dog fetched the ball\nthe cat\n\nthe dog"


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


def test_tokens_are_printed(sgns: Sgns, text: Path) -> None:
    result = sgns("tokenize", "text.txt", "--encoding", "whitespace", "--json")
    records = [json.loads(line) for line in result.out.splitlines()]
    assert list(records[0]) == ["text", "position", "token", "id", "bytes"]
    assert [record["token"] for record in records] == TEXT.split()
    assert [record["text"] for record in records] == [0] * 5 + [1] * 2 + [2] * 2
    assert [record["id"] for record in records][:2] == [0, 1]  # by falling count
    assert records[0]["bytes"] == b"the".hex()
    assert (result.code, result.err) == (0, "")


def test_a_bpe_can_be_trained_to_print(sgns: Sgns, text: Path) -> None:
    lines = sgns("tokenize", text, "--train-vocab", 260, "--document", "file").out.splitlines()
    assert lines[0] == "text\tposition\ttoken\tid\tbytes"
    cells = [line.split("\t") for line in lines[1:]]
    assert b"".join(bytes.fromhex(cell[4]) for cell in cells).decode() == TEXT
    assert any(len(bytes.fromhex(cell[4])) > 1 for cell in cells)


def test_a_token_folder_is_written_and_can_be_printed(sgns: Sgns, text: Path) -> None:
    result = sgns("tokenize", text, "--encoding", "whitespace", "-o", "tokens", "--json")
    record = json.loads(result.out)
    assert list(record) == ["folder", "tokens", "documents", "types", "bytes", "seconds"]
    assert (record["folder"], record["tokens"], record["documents"], record["types"]) == ("tokens", 9, 3, 5)
    printed = sgns("tokenize", "tokens", "--json").out
    assert [json.loads(line)["token"] for line in printed.splitlines()] == TEXT.split()
    again = sgns("tokenize", text, "-o", "tokens", "--encoding", "whitespace")
    assert again.code == 1
    assert "exists already" in again.err


def test_notes_of_a_small_corpus(sgns: Sgns, text: Path) -> None:
    result = sgns("tokenize", text, "--train-vocab", 5000, "-o", "tokens")
    assert "5000 tokens were asked for" in result.err


@pytest.mark.parametrize("encoding", [["--encoding", "whitespace"], ["--train-vocab", "300", "--pattern", "words"]])
def test_standard_input(sgns_process, encoding: list[str]) -> None:
    done = sgns_process("tokenize", "-", *encoding, "--json", stdin=TEXT)
    assert done.returncode == 0, done.stderr
    tokens = [json.loads(line) for line in done.stdout.splitlines()]
    assert bytes.fromhex(tokens[0]["bytes"]).startswith(b"the"[: len(tokens[0]["bytes"]) // 2])
    assert {token["text"] for token in tokens} == {0, 1, 2}


@pytest.mark.parametrize(
    ("arguments", "code", "words", "hint"),
    [
        ([], 2, "Missing argument 'SOURCE'", "sgns tokenize --help"),
        (["no.txt"], 1, "no.txt", ""),
        (["The dog fetched the ball"], 1, "there is no file 'The dog fetched the ball'", "sgns tokenize -"),
        (["text.txt", "--encoding", "gpt2", "--train-vocab", "300"], 2, "--encoding and --train-vocab exclude", ""),
        (["text.txt", "--pattern", "words"], 2, "--pattern needs --train-vocab", ""),
        (["text.txt", "--train-vocab", "5"], 2, "Invalid value for '--train-vocab'", ""),
        (["text.txt", "--document", "page"], 2, "Invalid value for '--document'", ""),
        (["text.txt", "--encoding", ""], 2, "--encoding: unknown encoding ''", ""),
        (["text.txt", "--encoding", "nope"], 2, "--encoding: unknown encoding 'nope'", ""),
        (["text.txt", "--train-vocab", "300", "--pattern", "[a"], 2, "--pattern is no regular expression", ""),
        (["text.txt", "--threads", "0"], 2, "Invalid value for '--threads'", ""),
    ],
)
def test_what_fails(sgns: Sgns, text: Path, arguments: list[str], code: int, words: str, hint: str) -> None:
    result = sgns("tokenize", *arguments)
    assert (result.code, result.out) == (code, "")
    assert f"error: {words}" in result.err
    assert hint in result.err.splitlines()[-1]
    assert result.err.splitlines()[-1].startswith("hint: ")


def printed(sgns: Sgns, *arguments: object) -> list[str]:
    return [json.loads(line)["token"] for line in sgns("tokenize", *arguments, "--json").out.splitlines()]


def test_a_token_folder_is_printed_under_its_own_options_alone(sgns: Sgns, text: Path) -> None:
    made_with = ["--encoding", "whitespace", "--lowercase"]
    assert sgns("tokenize", text, "-o", "tokens", *made_with).code == 0
    assert printed(sgns, "tokens") == printed(sgns, "tokens", *made_with) == TEXT.split()
    for option in (["--encoding", "cl100k_base"], ["--train-vocab", 300], ["--document", "file"], ["--column", "x"]):
        result = sgns("tokenize", "tokens", *option)
        assert (result.code, result.out) == (2, "")
    assert 'error: --column is "x", and tokens was made with "text"' in result.err
    assert sgns("tokenize", text, "-o", "raised", "--encoding", "whitespace").code == 0
    assert "error: --lowercase is true" in sgns("tokenize", "raised", "--lowercase").err


def test_a_damaged_token_folder_is_not_printed(sgns: Sgns, text: Path) -> None:
    assert sgns("tokenize", text, "-o", "tokens", "--encoding", "whitespace").code == 0
    tokens = text.parent / "tokens" / "tokens.bin"
    tokens.write_bytes(b"\xff" * tokens.stat().st_size)
    result = sgns("tokenize", "tokens")
    assert (result.code, result.out) == (1, "")
    assert "tokens is damaged: tokens.bin" in result.err


def test_printing_has_the_notes_of_writing(sgns: Sgns, text: Path) -> None:
    options = ["--train-vocab", 5000, "--pattern", "[a-z]+"]
    shown, written = sgns("tokenize", text, *options), sgns("tokenize", text, *options, "-o", "tokens")
    notes = [[line for line in result.err.splitlines() if line.startswith("note:")] for result in (shown, written)]
    assert notes[0] == notes[1]
    assert "5000 tokens were asked for" in notes[0][0]
    assert notes[0][1].startswith("note: 6 of 38 bytes of text are in no token")


@pytest.mark.parametrize("option", [[], ["-o", "tokens"]])
def test_a_table_without_a_record_has_no_token(sgns: Sgns, tmp_path: Path, option: list[str]) -> None:
    (tmp_path / "header.csv").write_text("text\n")
    result = sgns("tokenize", "header.csv", "--encoding", "whitespace", *option)
    assert (result.code, result.out) == (1, "")
    assert "error: there is no token in header.csv" in result.err


@pytest.mark.parametrize("option", [[], ["-o", "tokens"]])
def test_a_document_that_the_tokenizer_gives_up_on_is_named_and_the_rest_goes_on(
    sgns: Sgns, tmp_path: Path, option: list[str]
) -> None:
    ranks = [base64.b64encode(bytes([byte])) + b" %d\n" % byte for byte in range(256)]
    (tmp_path / "bytes.tiktoken").write_bytes(b"".join(ranks))
    (tmp_path / "bytes.json").write_text(json.dumps({"pattern": r"\s+(?!\S)|\S+|\s+"}))
    (tmp_path / "text.txt").write_text("a\n" + " " * 1_000_000 + "b\nc\n")
    result = sgns("tokenize", "text.txt", "--encoding", "bytes.tiktoken", "--json", *option)
    assert result.code == 1
    assert "note: text.txt: document 2 is left out: the tokenizer gave up on a text" in result.err
    assert "error: 1 document was skipped, document 2 of text.txt: the tokenizer gave up on a text" in result.err
    records = [json.loads(line) for line in result.out.splitlines()]
    if option:
        assert (records[0]["tokens"], records[0]["documents"]) == (2, 2)
        assert "hint: tokens/meta.json lists them" in result.err
    else:
        assert [record["token"] for record in records] == ["a", "c"]


def test_nul_bytes_are_noted(sgns: Sgns, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_bytes(b"ab\0\0c\n")
    for option in ([], ["-o", "tokens"]):
        result = sgns("tokenize", "text.txt", "--encoding", "whitespace", *option)
        assert result.code == 0
        assert "note: text.txt: 2 NUL bytes in the text, the first at byte 2" in result.err


def test_an_interrupted_tokenizer_training_leaves_nothing(tmp_path: Path) -> None:
    lines = [f"{number * 7919 % 1_000_003} is the number of line {number}\n" for number in range(100_000)]
    (tmp_path / "long.txt").write_text("".join(lines))
    with start(tmp_path, "--train-vocab", "30000") as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("reading")
        assert process.stderr.readline().startswith("training the tokenizer on")
        workers: list[psutil.Process] = []
        while not workers:
            assert process.poll() is None
            workers = psutil.Process(process.pid).children()
        process.send_signal(signal.SIGINT)
        err = process.communicate(timeout=60)[1]
    assert process.returncode == 130
    assert err.splitlines()[-1] == "note: interrupted: nothing was written"
    assert dies(workers[0])
    assert [path.name for path in tmp_path.iterdir()] == ["long.txt"]


def dies(process: psutil.Process) -> bool:
    """Whether a process ends soon; one that is dead may still wait for the system to put it away."""
    with contextlib.suppress(psutil.NoSuchProcess):
        for _ in range(200):
            if process.status() == psutil.STATUS_ZOMBIE:
                return True
            time.sleep(0.05)
        return False
    return True


def start(folder: Path, *arguments: str, preexec_fn: Callable[[], None] | None = None) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "sgns_cli", "tokenize", "long.txt", "-o", "tokens", *arguments],
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        preexec_fn=preexec_fn,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1]), "TERM": "dumb"},
    )


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_folder_leaves_nothing(tmp_path: Path, kind: signal.Signals) -> None:
    (tmp_path / "long.txt").write_text("the dog fetched the ball\n" * 2_000_000)
    with start(tmp_path, "--encoding", "whitespace") as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("tokenizing")
        process.send_signal(kind)
        err = process.communicate(timeout=60)[1]
    assert process.returncode == 130
    assert err.splitlines()[-1] == "note: interrupted: nothing was written"
    assert "Traceback" not in err
    assert [path.name for path in tmp_path.iterdir()] == ["long.txt"]


def test_after_a_kill_the_next_run_goes_through(sgns: Sgns, tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_text("the dog fetched the ball\n" * 1_000_000)
    with start(tmp_path, "--encoding", "whitespace") as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("tokenizing")
        process.kill()
    assert {path.name for path in tmp_path.iterdir()} == {"long.txt", ".tokens.incomplete", ".tokens.lock"}
    result = sgns("tokenize", "long.txt", "-o", "tokens", "--encoding", "whitespace", "--json")
    assert (result.code, json.loads(result.out)["tokens"]) == (0, 5_000_000)
    assert {path.name for path in tmp_path.iterdir()} == {"long.txt", "tokens"}


def test_a_full_disk_is_one_error_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_text("the dog fetched the ball\n" * 100_000)

    def fill() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    with start(tmp_path, "--encoding", "whitespace", "-q", preexec_fn=fill) as process:
        err = process.communicate(timeout=60)[1]
    assert process.returncode == 1
    assert err.startswith("error: cannot write tokens: File too large\nhint: ")
    assert [path.name for path in tmp_path.iterdir()] == ["long.txt"]
