"""What reaches the screen: data to stdout, everything else to stderr.

Data is a table on a terminal, TSV with a header row in a pipe, JSON Lines with --json. Nothing raw reaches a
terminal: characters that are not printable are escaped here, and markup is never read in data. The only
importer of rich, and only where a terminal is there to see it: a query in a pipe does without.
"""

import contextlib
import itertools
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from os import environ
from typing import Protocol, TextIO

from sgns_cli.errors import SgnsError

TABLE_ROWS = 500  # rows that a table lays out together; longer data comes as several, so that it streams
TABLE_NUMBERS = 4  # of a vector, on a terminal
LINE_SECONDS = 5.0  # between progress lines where there is no terminal

Record = Mapping[str, object]


class TrainingReport(Protocol):
    """What training_progress shows."""

    @property
    def epoch(self) -> int: ...
    @property
    def tokens_seen(self) -> int: ...
    @property
    def tokens_total(self) -> int: ...
    @property
    def loss(self) -> float: ...
    @property
    def learning_rate(self) -> float: ...
    @property
    def tokens_per_second(self) -> float: ...


class TokenizeReport(Protocol):
    """What tokenize_progress shows; `bytes_total` is None where the size is not known (stdin, a hub)."""

    @property
    def tokens(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    @property
    def bytes_total(self) -> int | None: ...
    @property
    def seconds(self) -> float: ...


@dataclass(frozen=True)
class Stage:
    """How far something has come: the part done (None: unknown) and a line that says the rest."""

    part: float | None
    text: str


ShowStage = Callable[[Stage], None]


class OutputClosed(Exception):
    """The reader of stdout has gone (`| head`): nothing is left to do, and nothing is wrong."""


@dataclass(frozen=True)
class Console:
    """Where a command prints: `json` for JSON Lines, `quiet` to silence all but data and errors."""

    json: bool = False
    quiet: bool = False

    def records(self, records: Iterable[Record], *, table: Sequence[str] | None = None) -> None:
        """Print data as it comes. Every record has the same keys; `table` picks those that a terminal shows.

        Values are text, numbers, None, or lists of them.
        """
        if self.json:
            for record in records:
                _write(_json_line(record))
        elif is_terminal(sys.stdout):
            _tables(records, table)
        else:
            _tsv(records)

    def note(self, text: str) -> None:
        """Say something beside the data, on stderr."""
        if not self.quiet:
            _complain(f"note: {printable(text)}\n")

    def error(self, error: SgnsError) -> None:
        """Show an expected failure: a line of what, a line of what to do."""
        hint = f"hint: {printable(error.hint)}\n" if error.hint else ""
        _complain(f"error: {printable(error.message)}\n{hint}")

    @contextmanager
    def training_progress(self) -> Iterator[Callable[[TrainingReport], None]]:
        """Yield a function that shows one report of training after another."""
        with self._progress() as show:
            yield lambda report: show(_training_stage(report))

    @contextmanager
    def tokenize_progress(self) -> Iterator[Callable[[TokenizeReport], None]]:
        """Yield a function that shows how far tokenizing has come."""
        with self._progress() as show:
            yield lambda report: show(_tokenize_stage(report))

    @contextmanager
    def _progress(self) -> Iterator[ShowStage]:
        if self.quiet:
            yield lambda stage: None
        elif is_terminal(sys.stderr) and environ.get("TERM") not in ("dumb", "unknown"):
            with _bar() as show:
                yield show
        else:
            with _lines() as show:
                yield show


def is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and stream.isatty()


def prepare_streams() -> None:
    """Write UTF-8 to pipes whatever the locale, and never fail on a character that a terminal lacks."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            if stream.isatty():
                stream.reconfigure(errors="backslashreplace")
            else:
                stream.reconfigure(encoding="utf-8", errors="backslashreplace", newline="\n")


def printable(text: str) -> str:
    r"""`text` with every character that is not printable escaped: "a\x1b[31m" -> "a\\x1b[31m"."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)


def _json_line(record: Record) -> str:
    line = json.dumps(record, ensure_ascii=False)
    if not line.isprintable():  # inside strings only: JSON's own escapes keep it the same value
        line = "".join(char if char.isprintable() else json.dumps(char)[1:-1] for char in line)
    return line + "\n"


def _tsv(records: Iterable[Record]) -> None:
    for index, record in enumerate(records):
        if index == 0:
            _write("\t".join(record) + "\n")
        _write("\t".join(_cell(value) for value in record.values()) + "\n")


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return " ".join(_cell(item) for item in value)
    return printable(str(value))


def _table_cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) >= 1 else f"{value:.3f}"
    if isinstance(value, list | tuple):
        cells = [_table_cell(item) for item in value[:TABLE_NUMBERS]]
        return " ".join(cells if len(value) <= TABLE_NUMBERS else [*cells, "…"])
    return _cell(value)


def _tables(records: Iterable[Record], columns: Sequence[str] | None) -> None:
    """Tables of at most TABLE_ROWS rows, so that long data streams; cells fold rather than lose their end."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console as Terminal
    from rich.table import Table
    from rich.text import Text

    terminal = Terminal(file=sys.stdout, markup=False, emoji=False, highlight=False)
    rows = iter(records)
    while chunk := list(itertools.islice(rows, TABLE_ROWS)):
        table = Table(box=SIMPLE_HEAD, pad_edge=False)
        names = list(columns or chunk[0])
        for name in names:
            number = isinstance(chunk[0][name], int | float)
            table.add_column(Text(name), justify="right" if number else "left", overflow="fold")
        for record in chunk:
            table.add_row(*(Text(_table_cell(record[name])) for name in names))
        try:
            terminal.print(table)
        except BrokenPipeError as error:
            raise OutputClosed from error


@contextmanager
def _bar() -> Iterator[ShowStage]:
    from rich.console import Console as Terminal
    from rich.progress import BarColumn, Progress, TextColumn
    from rich.text import Text

    class Words(TextColumn):
        def render(self, task: object) -> Text:
            return Text(str(getattr(task, "description", "")), overflow="ellipsis")

    terminal = Terminal(file=sys.stderr, markup=False, emoji=False, highlight=False)
    # stdout is left alone: what is printed there is data
    with Progress(BarColumn(20), Words(""), console=terminal, redirect_stdout=False) as progress:
        task = progress.add_task("starting", total=None)

        def show(stage: Stage) -> None:
            total = None if stage.part is None else 1.0
            progress.update(task, total=total, completed=stage.part or 0.0, description=stage.text)

        yield show


@contextmanager
def _lines(*, clock: Callable[[], float] = time.monotonic) -> Iterator[ShowStage]:
    """A line now and then: the first stage, one every LINE_SECONDS, and the last."""
    shown_at = -LINE_SECONDS
    waiting: Stage | None = None

    def show(stage: Stage) -> None:
        nonlocal shown_at, waiting
        waiting = stage
        if clock() - shown_at >= LINE_SECONDS:
            _complain(stage.text + "\n")
            shown_at, waiting = clock(), None

    try:
        yield show
    finally:
        if waiting is not None:
            _complain(waiting.text + "\n")


def _training_stage(report: TrainingReport) -> Stage:
    part = report.tokens_seen / report.tokens_total if report.tokens_total else 1.0
    words = [
        f"training {part:4.0%}",
        f"epoch {report.epoch}",
        _amount(report.tokens_per_second, "tokens/s"),
        f"loss {report.loss:.4f}",
        f"learning rate {report.learning_rate:.5f}",
    ]
    if report.tokens_per_second > 0:
        words.append(f"{_duration((report.tokens_total - report.tokens_seen) / report.tokens_per_second)} left")
    return Stage(part, "  ".join(words))


def _tokenize_stage(report: TokenizeReport) -> Stage:
    part = min(1.0, report.bytes / report.bytes_total) if report.bytes_total else None
    done = "tokenizing" if part is None else f"tokenizing {part:4.0%}"
    words = [done, _amount(report.tokens, "tokens"), _amount(report.bytes, "B")]
    if report.seconds > 0:
        words.append(_amount(report.bytes / report.seconds, "B/s"))
        if part:
            words.append(f"{_duration(report.seconds / part - report.seconds)} left")
    return Stage(part, "  ".join(words))


def _amount(value: float, unit: str) -> str:
    """1234567 tokens -> "1.23 M tokens"; bytes stick to their prefix: "4.14 MB"."""
    for limit, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= limit:
            return f"{value / limit:.3g} {prefix}{'' if unit.startswith('B') else ' '}{unit}"
    return f"{value:.0f} {unit}"


def _duration(seconds: float) -> str:
    """75 -> "1 m 15 s"."""
    minutes, rest = divmod(round(max(0.0, seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} m"
    return f"{minutes} m {rest} s" if minutes else f"{rest} s"


def _write(text: str) -> None:
    try:
        sys.stdout.write(text)
    except BrokenPipeError as error:
        raise OutputClosed from error


def _complain(text: str) -> None:
    with contextlib.suppress(BrokenPipeError):
        sys.stderr.write(text)
        sys.stderr.flush()
