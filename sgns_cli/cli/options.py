"""Options that several commands share, and the texts that come as arguments or on stdin."""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Literal

import typer

from sgns_cli.errors import SgnsError

Kind = Literal["input", "context", "sum"]

Json = Annotated[bool, typer.Option("--json", help="Print JSON Lines.")]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="Silence all but data and errors.")]
ModelPath = Annotated[
    Path | None,
    typer.Option(
        "--model", metavar="PATH", help="A run folder or one of its steps. [$SGNS_MODEL, else the latest run]"
    ),
]
Vectors = Annotated[Kind, typer.Option("--vectors", help="The matrix to take vectors from.")]
Centre = Annotated[bool, typer.Option("--centre", help="Subtract the mean row before comparing.")]
Threads = Annotated[
    int | None,
    typer.Option("--threads", min=1, metavar="N", help="Threads. [default: the processors at hand]"),
]


def texts(arguments: Iterable[str]) -> Iterator[str]:
    """The arguments in order; `-` stands for the lines of stdin, without their ends."""
    for argument in arguments:
        if argument == "-":
            yield from _stdin_lines()
        else:
            yield argument


def _stdin_lines() -> Iterator[str]:
    for number, line in enumerate(sys.stdin.buffer, start=1):
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise SgnsError(
                f"standard input, line {number}: not valid UTF-8 at byte {error.start}", "convert it to UTF-8"
            ) from error
        yield text.removesuffix("\n").removesuffix("\r")
