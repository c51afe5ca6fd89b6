"""Options that several commands share, and the texts that come as arguments or on stdin."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from sgns_cli.console import Console
from sgns_cli.errors import SgnsError, UsageError
from sgns_cli.vectors.choices import Kind

if TYPE_CHECKING:
    from io import BufferedReader

    from sgns_cli.vectors.model import Model

READ_AT_ONCE = 2**16  # bytes of stdin

Json = Annotated[bool, typer.Option("--json", help="Print JSON Lines.")]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="Silence all but data and errors.")]
ModelPath = Annotated[
    Path | None,
    typer.Option(
        "--model",
        metavar="PATH",
        help="A run, one of its steps, or a word2vec, GloVe or .safetensors file. [$SGNS_MODEL, else the latest run]",
    ),
]
Tensor = Annotated[
    str | None, typer.Option("--tensor", metavar="NAME", help="The matrix of a .safetensors file. [where it has one]")
]
Encoding = Annotated[
    str | None,
    typer.Option(
        "--encoding", metavar="NAME|FILE", help="The tokens of its rows: an encoding, a rank file, or a token a line."
    ),
]
Vectors = Annotated[Kind, typer.Option("--vectors", help="The matrix to take vectors from.")]
Centre = Annotated[bool, typer.Option("--centre", help="Subtract the mean row before comparing.")]
Threads = Annotated[
    int | None,
    typer.Option("--threads", min=1, metavar="N", help="Threads. [default: the processors at hand]"),
]


def open_named(console: Console, path: Path | None, tensor: str | None, encoding: str | None) -> "Model":
    """The model that --model, $SGNS_MODEL or the latest run means; notes say which, and how it was read."""
    from sgns_cli.vectors.opening import open_model, resolve_model

    resolved, note = resolve_model(path)
    model = open_model(resolved, tensor=tensor, encoding=encoding)
    for text in (note, *model.notes):
        if text:
            console.note(text)
    return model


def check_output(path: Path) -> None:
    """Raise UsageError for a path that no output may have: none, or one inside a run."""
    from sgns_cli.run_folder import refuse_inside

    if not path.name:
        raise UsageError(f"-o {str(path)!r} names no file", "give it a name")
    refuse_inside(path)


@contextmanager
def writes(path: Path) -> Iterator[None]:
    """Let whoever interrupts a command that writes `path`, complete or not at all, know which it is."""
    before = _identity(path)
    try:
        yield
    except KeyboardInterrupt as error:
        done = _identity(path) != before
        raise KeyboardInterrupt(f"{path} is complete" if done else "nothing was written") from error


def _identity(path: Path) -> tuple[int, int] | None:
    """Which file or folder it is that lies there: what is renamed to its place is another one."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def yaml_string(text: str) -> str:
    r"""A text as YAML that means just that: in quotes, with what is not printable escaped: a"b -> "a\U00000022b"."""
    kept = (char if char.isprintable() and char not in '"\\' else f"\\U{ord(char):08X}" for char in text)
    return f'"{"".join(kept)}"'


def texts(arguments: Iterable[str]) -> Iterator[str]:
    """The arguments in order; `-` stands for the lines of stdin, without their ends."""
    for argument in arguments:
        if argument != "-":
            yield argument
            continue
        for line in stdin_lines():
            if isinstance(line, SgnsError):
                raise line
            if line is not None:
                yield line


def stdin_lines() -> Iterator[str | SgnsError | None]:
    """The lines of stdin, without their ends; of one that is no text, what to say of it; None where all that has come
    so far is given, so that nobody waits for an answer to it.
    """
    stdin = cast("BufferedReader", sys.stdin.buffer)
    number = 0
    while came := stdin.read1(READ_AT_ONCE):
        if not came.endswith(b"\n"):
            came += stdin.readline()
        for line in came.removesuffix(b"\n").split(b"\n"):
            number += 1
            try:
                yield line.decode("utf-8-sig" if number == 1 else "utf-8").removesuffix("\r")
            except UnicodeDecodeError as error:
                what = f"standard input, line {number}: not valid UTF-8 at byte {error.start}"
                yield SgnsError(what, "convert it to UTF-8")
        yield None
