"""What reaches the screen, as a table, as TSV, as JSON Lines, and as progress."""

import errno
import io
import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from sgns_cli import console
from sgns_cli.console import Console
from sgns_cli.errors import SgnsError
from sgns_cli.streams import OutputClosed


class Stream(io.StringIO):
    """A stream that may say it is a terminal, or that nobody reads it any more."""

    def __init__(self, *, terminal: bool, closed_by_reader: bool = False) -> None:
        super().__init__()
        self.terminal = terminal
        self.closed_by_reader = closed_by_reader

    def isatty(self) -> bool:
        return self.terminal

    def write(self, text: str) -> int:
        if self.closed_by_reader:
            raise BrokenPipeError
        return super().write(text)


@pytest.fixture
def open_screen(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Stream]:
    """Make stdout a terminal of 40 columns. Called in the test: pytest itself swaps stdout before one."""

    def open_it() -> Stream:
        stream = Stream(terminal=True)
        monkeypatch.setattr(sys, "stdout", stream)
        monkeypatch.setenv("COLUMNS", "40")
        monkeypatch.setenv("NO_COLOR", "1")
        monkeypatch.setenv("TERM", "xterm")
        for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
            monkeypatch.delenv(name, raising=False)
        return stream

    return open_it


TOKENS = ["[/b]", "[bold]", "a" * 100, ":smile:", "\x1b[31m", "\u202e", "␣silver"]


def test_a_table_shows_every_token_as_it_is(open_screen: Callable[[], Stream]) -> None:
    screen = open_screen()
    Console().records({"token": token, "id": 5} for token in TOKENS)
    shown = screen.getvalue()
    for token in ("[/b]", "[bold]", ":smile:", "\\x1b[31m", "\\u202e", "␣silver"):
        assert token in shown
    assert "\x1b[31m" not in shown
    assert shown.count("a") == 100  # folded, not cut


def test_a_table_picks_columns_and_shortens_vectors(open_screen: Callable[[], Stream]) -> None:
    screen = open_screen()
    vector = [0.1234567] * 6
    Console().records([{"id": 1, "hidden": "no", "score": 0.87654, "vector": vector}], table=["id", "score", "vector"])
    shown = screen.getvalue()
    assert "hidden" not in shown
    assert "0.877" in shown
    assert "0.123 0.123 0.123 0.123 …" in shown


def test_long_data_streams_in_several_tables(open_screen: Callable[[], Stream]) -> None:
    screen = open_screen()

    def rows():
        for number in range(1200):
            if number == 600:
                assert "499" in screen.getvalue()
            yield {"number": number}

    Console().records(rows())
    assert screen.getvalue().count("number") == 3


def test_facts_are_a_line_each_on_a_terminal(open_screen: Callable[[], Stream]) -> None:
    screen = open_screen()
    Console().facts({"path": "runs/kjv", "loss": 2.5})
    assert "path   runs/kjv" in screen.getvalue()


def test_nothing_is_no_table(open_screen: Callable[[], Stream]) -> None:
    screen = open_screen()
    Console().records([])
    assert screen.getvalue() == ""


def test_tsv_has_a_header_and_keeps_lines_and_columns_whole(capsys: pytest.CaptureFixture[str]) -> None:
    record = {"text": "a\tb\nc\x1b", "ids": [1, 2], "score": 0.123456, "none": None, "yes": True}
    Console().records([record, record], table=["score"])
    row = "a\\tb\\nc\\x1b\t1 2\t0.123456\t\ttrue\n"
    assert capsys.readouterr().out == "text\tids\tscore\tnone\tyes\n" + row + row


def test_json_lines_are_printable_and_read_back(capsys: pytest.CaptureFixture[str]) -> None:
    record = {"text": "a\tb\n\x1b\x85\u202e\u2028 ␣é😀\udcff\U000e0001", "score": 0.5, "none": None}
    Console(json=True).records([record])
    line = capsys.readouterr().out
    assert line.endswith("}\n")
    assert line[:-1].isprintable()
    assert "␣é😀" in line
    assert json.loads(line) == record


def test_notes_and_errors_go_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    Console().note("a\x1b[2Jb")
    Console(quiet=True).note("silenced")
    Console(quiet=True).error(SgnsError("what", "what to do"))
    Console().error(SgnsError("alone"))
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "note: a\\x1b[2Jb\nerror: what\nhint: what to do\nerror: alone\n"


def test_a_reader_that_has_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    for terminal in (True, False):
        monkeypatch.setattr(sys, "stdout", Stream(terminal=terminal, closed_by_reader=True))
        with pytest.raises(OutputClosed):
            Console().records([{"id": 1}])
    monkeypatch.setattr(sys, "stderr", Stream(terminal=False, closed_by_reader=True))
    Console().note("nobody hears this, and nothing breaks")


@dataclass(frozen=True)
class Report:
    tokens_seen: int
    epoch: int = 2
    tokens_total: int = 1000
    loss: float | None = 2.5
    learning_rate: float = 0.0125
    tokens_per_second: float = 10.0


@dataclass(frozen=True)
class Tokenized:
    bytes: int
    bytes_total: int | None = 4_000_000
    stage: str = "tokens"
    tokens: int = 1_234_567
    seconds: float = 2.0


def test_progress_is_plain_lines_where_there_is_no_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = iter(range(1, 1000))
    monkeypatch.setattr(console, "LINE_SECONDS", 5.0)
    monkeypatch.setattr(console.time, "monotonic", lambda: float(next(now)))
    with Console().training_progress() as show:
        for seen in range(0, 1001, 100):
            show(Report(tokens_seen=seen))
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == ("training   0%  epoch 2  10 tokens/s  loss 2.500  learning rate 0.0125  1 m 40 s left")
    assert 2 < len(lines) < 8
    assert lines[-1].startswith("training 100%")


def test_tokenizing_progress(capsys: pytest.CaptureFixture[str]) -> None:
    for report, line in (
        (Tokenized(1_000_000), "tokenizing  25%  1 MB  500 kB/s  617 k tokens/s  6 s left\n"),
        (Tokenized(1_000_000, None), "tokenizing 1 MB  500 kB/s  617 k tokens/s\n"),
        (Tokenized(12, None, stage="reading", tokens=0, seconds=0), "reading 12 B\n"),
        (Tokenized(1_000_000, stage="merging", tokens=0), "training the tokenizer on 1 MB\n"),
        (Tokenized(0, stage="waiting", tokens=0), "waiting for another process that tokenizes the same corpus\n"),
    ):
        with Console().tokenize_progress() as show:
            show(report)
        assert capsys.readouterr().err == line


@pytest.mark.parametrize("loss", [None, 1.5])
def test_progress_is_a_bar_on_a_terminal_and_leaves_stdout_alone(
    open_screen: Callable[[], Stream], monkeypatch: pytest.MonkeyPatch, loss: float | None
) -> None:
    screen = open_screen()
    stderr = Stream(terminal=True)
    monkeypatch.setattr(sys, "stderr", stderr)
    monkeypatch.setenv("COLUMNS", "120")
    with Console(json=True).training_progress() as show:
        show(Report(tokens_seen=500, loss=loss))
        Console(json=True).records([{"step": 1}])
    assert screen.getvalue() == '{"step": 1}\n'
    assert "training  50%" in stderr.getvalue()
    assert ("loss -" if loss is None else "loss 1.500") in stderr.getvalue()


def test_no_bar_where_the_terminal_is_dumb_or_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    stderr = Stream(terminal=True)
    monkeypatch.setattr(sys, "stderr", stderr)
    monkeypatch.setenv("TERM", "xterm")
    with Console().tokenize_progress():
        pass
    assert stderr.getvalue() == ""
    monkeypatch.setenv("TERM", "dumb")
    with Console().tokenize_progress() as show:
        show(Tokenized(1_000_000))
    assert stderr.getvalue().startswith("tokenizing  25%")
    assert "\x1b" not in stderr.getvalue()


def test_quiet_has_no_progress(capsys: pytest.CaptureFixture[str]) -> None:
    with Console(quiet=True).training_progress() as show:
        show(Report(tokens_seen=1))
    assert capsys.readouterr().err == ""


def columns(screen: Stream) -> list[str]:
    header = next(line for line in screen.getvalue().splitlines() if line.strip())
    return re.sub(r"\x1b\[\d*m", "", header).split()


def test_a_narrow_table_goes_without_spare_columns(open_screen: Callable[[], Stream]) -> None:
    record = {"rank": 1, "token": "chariots,␣and␣", "id": 54321, "count": 1234, "score": 0.5}
    screen = open_screen()  # of 40 columns
    Console().records([record], spare=["count", "id", "rank"])
    assert columns(screen) == ["rank", "token", "id", "score"]
    assert "chariots,␣and␣" in screen.getvalue()
    screen = open_screen()
    Console().records([record | {"token": "t" * 25}], spare=["count", "id", "rank"])
    assert columns(screen) == ["token", "score"]
    assert "t" * 25 in screen.getvalue()
    screen = open_screen()
    Console().records([record | {"token": "t"}], spare=["count", "id", "rank"])
    assert columns(screen) == list(record)


@pytest.mark.parametrize("width", ["1", "10", "20"])
def test_a_table_on_a_terminal_that_is_too_narrow_has_all_its_cells(
    open_screen: Callable[[], Stream], monkeypatch: pytest.MonkeyPatch, width: str
) -> None:
    screen = open_screen()
    monkeypatch.setenv("COLUMNS", width)
    Console().records([{"rank": 1, "query": "silver", "token": "chariots", "score": 0.532}], spare=["rank"])
    assert columns(screen) == ["query", "token", "score"]
    assert "silver   chariots   0.532" in screen.getvalue()


@pytest.mark.parametrize("term", ["", "dumb", "unknown", None])
def test_a_terminal_that_says_nothing_of_itself_gets_no_escape_sequences(
    open_screen: Callable[[], Stream], monkeypatch: pytest.MonkeyPatch, term: str | None
) -> None:
    screen, stderr = open_screen(), Stream(terminal=True)
    monkeypatch.setattr(sys, "stderr", stderr)
    if term is None:
        monkeypatch.delenv("TERM")
    else:
        monkeypatch.setenv("TERM", term)
    Console().records([{"rank": 1, "token": "silver"}])
    with Console().training_progress() as show:
        show(Report(tokens_seen=500))
    assert "silver" in screen.getvalue()
    assert "\x1b" not in screen.getvalue() + stderr.getvalue()


def test_a_bar_on_a_terminal_that_has_gone_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone(Stream):
        def write(self, text: str) -> int:
            raise OSError(errno.EIO, "Input/output error")

        def flush(self) -> None:
            raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(sys, "stderr", Gone(terminal=True))
    monkeypatch.setenv("TERM", "xterm")
    with Console().training_progress() as show:
        show(Report(tokens_seen=500))
        show(Report(tokens_seen=600))


def test_a_traceback_is_escaped_and_keeps_its_lines(capsys: pytest.CaptureFixture[str]) -> None:
    try:
        raise ValueError("a\x1b[31m")
    except ValueError as error:
        Console().traceback(error)
    assert capsys.readouterr().err.splitlines()[-1] == "ValueError: a\\x1b[31m"


def test_facts_are_whole_lines_that_can_be_copied(open_screen: Callable[[], Stream]) -> None:
    screen = open_screen()
    path = "/a/long/path/" + "x" * 60
    Console().facts({"path": path, "loss": None, "steps": 3})
    assert screen.getvalue().splitlines() == [f"path    {path}", "loss    ", "steps   3"]


def test_output_that_is_refused_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(Stream):
        def write(self, text: str) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(sys, "stdout", Full(terminal=False))
    with pytest.raises(SgnsError, match="cannot write to standard output: No space left on device"):
        Console().records([{"id": 1}])
    monkeypatch.setattr(sys, "stderr", Full(terminal=False))
    Console().note("nobody hears this, and nothing breaks")
