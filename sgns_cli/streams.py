"""The standard streams as this program uses them: opened, encoded, flushed, and what happens when one takes no more.

What is written to them is console.py's business.
"""

import contextlib
import os
import sys
from pathlib import Path
from typing import TextIO

from sgns_cli.errors import SgnsError


class OutputClosed(Exception):
    """The reader of stdout has gone (`| head`): nothing is left to do, and nothing is wrong."""


def is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and stream.isatty()


def prepare_streams() -> None:
    """Write UTF-8 to pipes whatever the locale, and never fail on a character that a terminal lacks. A stream that
    was closed by whoever started the program reads nothing and writes to nowhere.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            if stream.isatty():
                stream.reconfigure(errors="backslashreplace")
            else:
                stream.reconfigure(encoding="utf-8", errors="backslashreplace", newline="\n")


def release_streams() -> None:
    """Point a stream that cannot be written at nothing, so that the interpreter's last flush does not fail again."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            nothing = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nothing, stream.fileno())
            os.close(nothing)


def write(text: str) -> None:
    """Write data. Raises as `flush`."""
    try:
        sys.stdout.write(text)
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise OutputClosed from error
        raise output_refused(error) from error


def flush() -> None:
    """Send what was printed on its way. Raises OutputClosed, or SgnsError if standard output takes no more."""
    try:
        sys.stdout.flush()
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise OutputClosed from error
        raise output_refused(error) from error


def output_refused(error: OSError) -> SgnsError:
    """What to say when standard output takes no more."""
    return SgnsError(f"cannot write to standard output: {error.strerror}", "make room, or send it somewhere else")


def complain(text: str) -> None:
    """Say something beside the data, on stderr."""
    with contextlib.suppress(OSError):  # there is nobody to tell
        sys.stderr.write(text)
        sys.stderr.flush()
