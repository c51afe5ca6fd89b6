"""What reaches the screen: data to stdout, everything else to stderr.

Data is a table on a terminal, TSV with a header row in a pipe, JSON Lines with --json. Nothing raw reaches a
terminal: characters that are not printable are escaped here, and markup is never read in data. The only
importer of rich, and only where a terminal is there to see it: a query in a pipe does without.
"""

import contextlib
import io
import itertools
import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, TextIO, cast

from sgns_cli.errors import SgnsError
from sgns_cli.progress import Stage, TokenizeReport, TrainingReport, tokenize_stage, training_stage
from sgns_cli.streams import complain, flush, is_terminal, write

TABLE_ROWS = 500  # rows that a table lays out together; longer data comes as several, so that it streams
TABLE_NUMBERS = 4  # of a vector, on a terminal
COLUMN_GAP = 3  # characters between two columns
NARROW_TEXT = 8  # characters to which a column of text may be folded
WIDE = 110  # columns from which a progress bar has all its words beside it
LINE_SECONDS = 5.0  # between progress lines where there is no terminal

Record = Mapping[str, object]


ShowStage = Callable[[Stage], None]


@dataclass(frozen=True)
class Console:
    """Where a command prints: `json` for JSON Lines, `quiet` to silence all but data and errors."""

    json: bool = False
    quiet: bool = False

    def records(
        self, records: Iterable[Record], *, table: Sequence[str] | None = None, spare: Sequence[str] = ()
    ) -> None:
        """Print data as it comes. Every record has the same keys; `table` picks those that a terminal shows, and
        where it is too narrow for all of them it goes without those in `spare`, the first one first.

        Values are text, numbers, None, or lists of them.
        """
        if self.json:
            for record in records:
                write(_json_line(record))
        elif is_terminal(sys.stdout):
            _tables(records, table, spare)
        else:
            _tsv(records)
        flush()

    def facts(self, record: Record) -> None:
        """Print one record; on a terminal a line for each of its values, and for each of a list."""
        if self.json or not is_terminal(sys.stdout):
            self.records([record])
        else:
            width = max(map(len, record))
            for name, value in record.items():  # no table: a terminal wraps a long line so that it can be copied
                values = value if isinstance(value, list) and value else [value]
                for index, one in enumerate(values):
                    label = "" if index else name
                    write(f"{label:<{width}}   {_fact(one)}\n")
            flush()

    def report(self, facts: Record, tables: Mapping[str, Sequence[Record]], *, spare: Sequence[str] = ()) -> None:
        """Print one record and what belongs to it as tables by name: on a terminal one below the other, with --json
        as lists in the record. In a pipe the record alone: all rows of TSV have the same columns.
        """
        if self.json:
            self.records([{**facts, **tables}])
            return
        self.facts(facts)
        if is_terminal(sys.stdout):
            write("\n")
            for name, records in tables.items():
                if records:
                    write(name.replace("_", " ") + "\n")
                    self.records(records, spare=spare)

    def note(self, text: str) -> None:
        """Say something beside the data, on stderr."""
        if not self.quiet:
            complain(f"note: {printable(text)}\n")

    def error(self, error: SgnsError) -> None:
        """Show an expected failure: a line of what, a line of what to do."""
        hint = f"hint: {printable(error.hint)}\n" if error.hint else ""
        complain(f"error: {printable(error.message)}\n{hint}")

    def traceback(self, error: BaseException) -> None:
        """Show where an error came from, for whoever looks for it."""
        import traceback

        lines = "".join(traceback.format_exception(error)).split("\n")
        complain("\n".join(map(printable, lines)))

    @contextmanager
    def training_progress(self) -> Iterator[Callable[[TrainingReport], None]]:
        """Yield a function that shows one report of training after another."""
        with self._progress() as show:
            yield lambda report: show(training_stage(report))

    @contextmanager
    def tokenize_progress(self) -> Iterator[Callable[[TokenizeReport], None]]:
        """Yield a function that shows how far tokenizing has come."""
        with self._progress() as show:
            yield lambda report: show(tokenize_stage(report))

    @contextmanager
    def _progress(self) -> Iterator[ShowStage]:
        if self.quiet:
            yield lambda stage: None
        elif is_terminal(sys.stderr) and not _is_plain():
            with _bar() as show:
                yield show
        else:
            with _lines() as show:
                yield show


def _is_plain() -> bool:
    """Whether the terminal may know no escape sequences: by TERM, which only Windows does without."""
    return os.environ.get("TERM", "windows" if os.name == "nt" else "") in ("", "dumb", "unknown")


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
            write("\t".join(record) + "\n")
        write("\t".join(_cell(value) for value in record.values()) + "\n")


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return " ".join(_cell(item) for item in value)
    return printable(str(value))


def _fact(value: object) -> str:
    """One value by itself: 0.0001 should not be 0.000, as it may be in a column."""
    if not isinstance(value, float):
        return _cell(value)
    return f"{value:g}" if 0 < abs(value) < 0.001 else _table_cell(value)


def _table_cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3f}" if abs(value) < 1 else f"{value:.4g}" if abs(value) < 10_000 else f"{value:.0f}"
    if isinstance(value, list | tuple):
        cells = [_table_cell(item) for item in value[:TABLE_NUMBERS]]
        return " ".join(cells if len(value) <= TABLE_NUMBERS else [*cells, "…"])
    return _cell(value)


def _tables(records: Iterable[Record], columns: Sequence[str] | None, spare: Sequence[str]) -> None:
    """Tables of at most TABLE_ROWS rows, so that long data streams; text folds rather than lose its end."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console as Terminal
    from rich.table import Table
    from rich.text import Text

    # Drawn into a buffer, because rich ends the whole process when the reader of stdout has gone.
    buffer = io.StringIO()
    styles: Literal["auto"] | None = None if _is_plain() else "auto"
    terminal = Terminal(
        file=buffer, force_terminal=True, color_system=styles, markup=False, emoji=False, highlight=False
    )
    available = terminal.width
    rows = iter(records)
    names: list[str] = []
    while chunk := list(itertools.islice(rows, TABLE_ROWS)):
        cells = [{name: Text(_table_cell(record[name])) for name in columns or record} for record in chunk]
        widths = {name: max(len(name), *(row[name].cell_len for row in cells)) for name in cells[0]}
        names = _fitting(names or list(cells[0]), spare, widths, available)
        table = Table(box=SIMPLE_HEAD, pad_edge=False)
        least = 1
        for name in names:
            number = any(isinstance(record[name], int | float) for record in chunk)
            justify: Literal["left", "right"] = "right" if number else "left"
            narrow = widths[name] if number else min(widths[name], NARROW_TEXT)
            least += narrow + COLUMN_GAP
            table.add_column(Text(name), justify=justify, overflow="fold", no_wrap=number, min_width=narrow)
        for row in cells:
            table.add_row(*(row[name] for name in names))
        terminal.width = max(available, least)  # a narrower one wraps lines, where rich would leave out columns
        terminal.print(table)
        write(buffer.getvalue())
        buffer.seek(0)
        buffer.truncate()


def _fitting(names: list[str], spare: Sequence[str], widths: Mapping[str, int], width: int) -> list[str]:
    """The columns that a terminal has room for."""
    for name in spare:
        if sum(widths[name] + COLUMN_GAP for name in names) <= width + 1:  # and one to each side of all
            break
        names = [kept for kept in names if kept != name]
    return names


class _Heedless:
    """A stream that may break: when the terminal has gone, what was drawn on it goes on."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError):
            return self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            self._stream.flush()


@contextmanager
def _bar() -> Iterator[ShowStage]:
    from rich.console import Console as Terminal
    from rich.progress import BarColumn, Progress, TextColumn
    from rich.text import Text

    class Words(TextColumn):
        def render(self, task: object) -> Text:
            return Text(str(getattr(task, "description", "")), overflow="ellipsis")

    screen = cast(TextIO, _Heedless(sys.stderr))
    terminal = Terminal(file=screen, markup=False, emoji=False, highlight=False)
    # stdout is left alone: what is printed there is data
    wide = terminal.width >= WIDE
    progress = Progress(BarColumn(20 if wide else 10), Words(""), console=terminal, redirect_stdout=False)
    task = progress.add_task("", total=None)

    def show(stage: Stage) -> None:
        total = None if stage.part is None else 1.0
        progress.update(task, total=total, completed=stage.part or 0.0, description=stage.line if wide else stage.short)
        progress.start()  # with the first stage: what takes no time shows no bar

    try:
        yield show
    finally:
        progress.stop()


@contextmanager
def _lines() -> Iterator[ShowStage]:
    """A line now and then: where something begins, one every LINE_SECONDS, and the last."""
    shown_at = -math.inf
    doing = ""
    waiting: Stage | None = None

    def show(stage: Stage) -> None:
        nonlocal shown_at, doing, waiting
        waiting = stage
        now = time.monotonic()
        if stage.doing != doing or now - shown_at >= LINE_SECONDS:
            complain(stage.line + "\n")
            shown_at, doing, waiting = now, stage.doing, None

    try:
        yield show
    finally:
        if waiting is not None:
            complain(waiting.line + "\n")
