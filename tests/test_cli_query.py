"""neighbors, as people run it."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Result, Written

Sgns = Callable[..., Result]


def test_neighbors_needs_nothing_but_a_word(sgns: Sgns, bpe_run: Written) -> None:
    result = sgns("neighbors", "silver", "-k", 3)
    assert result.code == 0
    lines = result.out.splitlines()
    assert lines[0] == "query\tquery_ids\trank\ttoken\tid\tbytes\tcount\tscore"
    assert len(lines) == 4
    assert "note: using runs/bpe/step-00000010" in result.err
    assert "'silver' is read as ␣silver" in result.err


def test_the_fields_of_json(sgns: Sgns, bpe_run: Written) -> None:
    result = sgns("neighbours", "[/b]", "--json", "-k", 500, "--model", bpe_run.path)
    assert result.err == ""
    records = [json.loads(line) for line in result.out.splitlines()]
    assert list(records[0]) == ["query", "query_ids", "rank", "token", "id", "bytes", "count", "score"]
    assert [record["rank"] for record in records] == list(range(1, len(records) + 1))
    assert all(-1 <= record["score"] <= 1 for record in records)
    assert all(record["count"] >= 5 for record in records)
    named = {record["token"]: record for record in records}
    assert named["[bold]"]["bytes"] == b"[bold]".hex()
    assert named["a⇥b"]["id"] == 264
    assert "[/b]" not in named  # the query itself
    assert "<|end|>" not in named
    assert len(records) == 26 + 9 - 1  # letters and tokens trained, less the query


def test_ids_options_after_arguments_and_quiet(sgns: Sgns, bpe_run: Written) -> None:
    result = sgns("neighbors", "--id", 257, "--id", 262, "-k", 1, "-q", "--json", "--vectors", "sum", "--centre")
    assert (result.code, result.err) == (0, "")
    assert [json.loads(line)["query"] for line in result.out.splitlines()] == ["␣silver", "[/b]"]


def test_a_batch_reports_what_fails_and_goes_on(sgns: Sgns, bpe_run: Written) -> None:
    result = sgns("neighbors", "silver", "78", "", "gold", "-k", 1, "--json", "--model", bpe_run.path)
    assert result.code == 1
    assert [json.loads(line)["query"] for line in result.out.splitlines()] == ["silver", "gold"]
    assert result.err.count("error: ") == 2
    assert "error: query 3 is empty" in result.err


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["78"], 1, "error: '78' is 2 tokens, none of them trained"),
        ([""], 2, "error: the query is empty"),
        ([], 2, "error: no query"),
        (["silver", "-k", "0"], 2, "error: Invalid value for '-k'"),
        (["silver", "--vectors", "output"], 2, "error: Invalid value for '--vectors'"),
        (["silver", "--model", "nowhere"], 1, "error: there is no run at nowhere"),
        (["--id", "-1"], 2, "error: Invalid value for '--id'"),
        (["--id", "99999"], 1, "error: there is no token 99999"),
        (["--id", "7"], 1, "error: '<0x07>' was never trained"),
    ],
)
def test_what_fails(sgns: Sgns, bpe_run: Written, arguments: list[str], code: int, words: str) -> None:
    result = sgns("neighbors", *arguments)
    assert (result.code, result.out) == (code, "")
    assert words in result.err
    assert result.err.splitlines()[-1].startswith("hint: ")


def test_no_model_anywhere(sgns: Sgns) -> None:
    result = sgns("neighbors", "silver")
    assert result.code == 1
    assert "no model is named and none is under runs" in result.err


def test_the_model_may_come_from_the_environment(
    sgns: Sgns, bpe_run: Written, word_run: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SGNS_MODEL", str(word_run.path))
    assert "runs/words/step-00000010 ($SGNS_MODEL)" in sgns("neighbors", "dog").err


def test_queries_from_stdin_in_a_process_of_their_own(sgns_process, word_run: Written) -> None:
    lines = "\ufeffdog\r\nsilvr\n\n" + "cat\n" * 600
    done = sgns_process("neighbors", "-", "-k", 1, "--json", "-q", stdin=lines)
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 1
    assert [record["query"] for record in records] == ["dog"] + ["cat"] * 600
    assert done.stderr.count("error: ") == 2
    assert len({record["id"] for record in records[1:]}) == 1


def test_stdin_that_is_no_utf_8(sgns_process, word_run: Written) -> None:
    done = sgns_process("neighbors", "-", stdin=b"dog\nca\xfft\n")
    assert done.returncode == 1
    assert "error: standard input, line 2: not valid UTF-8 at byte 2" in done.stderr


def test_an_argument_that_is_no_utf_8(sgns_process, bpe_run: Written) -> None:
    done = sgns_process("neighbors", "a\udcff", "--json", "-k", 1)
    assert (done.returncode, done.stdout) == (1, "")
    assert "is not valid UTF-8" in done.stderr


def test_an_empty_stdin_has_no_query(sgns_process, word_run: Written) -> None:
    done = sgns_process("neighbors", "-")
    assert (done.returncode, done.stdout) == (1, "")
    assert "error: no query came on standard input" in done.stderr


@pytest.mark.parametrize("command", [["neighbors", "-k", "1"], ["similarity"]])
def test_an_answer_comes_before_the_next_line_is_given(word_run: Written, project: Path, command: list[str]) -> None:
    started = [sys.executable, "-m", "sgns_cli", *command, "-", "--json", "-q", "--model", str(word_run.path)]
    with subprocess.Popen(
        started, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(project)}
    ) as process:
        guard = threading.Timer(60, process.kill)  # reading would wait for ever
        guard.start()
        assert process.stdin is not None
        assert process.stdout is not None
        for line in ("dog", "ball") if command[0] == "neighbors" else ("dog cat", "ball cat"):
            process.stdin.write(f"{line}\n".encode())
            process.stdin.flush()
            record = json.loads(process.stdout.readline())
            assert line in (record.get("query"), f"{record.get('a')} {record.get('b')}")
        process.stdin.write(b"gold" if command[0] == "neighbors" else b"gold cat")  # the last line needs no end
        process.stdin.close()
        assert len(process.stdout.read().splitlines()) == 1
        guard.cancel()
    assert process.returncode == 0
