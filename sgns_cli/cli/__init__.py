"""The command line: a file a group of commands; each parses, imports what it needs, calls, and prints.

`main` is thin, so that whoever stops the program while it is still being imported sees no traceback either.
"""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

INTERRUPTED = 130


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    try:
        with _terminable():
            from sgns_cli.cli.app import run

            return run(sys.argv[1:] if arguments is None else arguments)
    except KeyboardInterrupt:
        return INTERRUPTED


@contextmanager
def _terminable() -> Iterator[None]:
    """Let SIGTERM end a command as Ctrl-C does, so that nothing half-written stays."""
    try:
        before = signal.signal(signal.SIGTERM, _interrupt)
    except ValueError:  # not in the main thread, which alone hears signals
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
