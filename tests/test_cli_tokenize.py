"""tokenize, as people run it."""

import json
from collections.abc import Callable
from pathlib import Path

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
        (["text.txt", "--encoding", "nope"], 2, "unknown encoding 'nope'", ""),
        (["text.txt", "--threads", "0"], 2, "Invalid value for '--threads'", ""),
    ],
)
def test_what_fails(sgns: Sgns, text: Path, arguments: list[str], code: int, words: str, hint: str) -> None:
    result = sgns("tokenize", *arguments)
    assert (result.code, result.out) == (code, "")
    assert f"error: {words}" in result.err
    assert hint in result.err.splitlines()[-1]
    assert result.err.splitlines()[-1].startswith("hint: ")
