"""The command line: a file a group of commands; each parses, imports what it needs, calls, and prints.

`main` is thin, so that whoever stops the program while it is still being imported sees no traceback either.
"""

import math
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

INTERRUPTED = 130
ONE_REQUEST = 1.0  # seconds in which more signals are the same request to stop
STOPS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]

Handler = Callable[[int, FrameType | None], None]


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit code. Without `arguments` it is this process's own, and nothing comes
    after it: a signal that is late does nothing.
    """
    try:
        with hearing(Interrupt(), last=arguments is None):
            from sgns_cli.cli.app import run

            return run(sys.argv[1:] if arguments is None else arguments)
    except KeyboardInterrupt:
        with suppress(OSError, AttributeError):  # there is nobody to tell
            sys.stderr.write("note: interrupted\n")
        return INTERRUPTED


class Interrupted(KeyboardInterrupt):
    """A signal asked the command to end.

    A class of its own, because a plain KeyboardInterrupt that leaves code which Python compiled from a string, as
    dataclasses do, makes `python -m` end by SIGINT, though it was caught.
    """


class Interrupt:
    """Ends a command as Ctrl-C does, so that nothing half-written stays; a second signal does not end the tidying."""

    def __init__(self) -> None:
        self.heard = -math.inf

    def __call__(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if now - self.heard >= ONE_REQUEST:
            self.heard = now
            raise Interrupted


@contextmanager
def hearing(handler: Handler, *, last: bool = False) -> Iterator[None]:
    """Let a handler hear Ctrl-C, SIGTERM and a terminal that goes away; at the end the old ones come back, or with
    `last` nobody hears them any more. Whoever started the program with one of them ignored wants it so.
    """
    before = {}
    try:
        for number in STOPS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                before[number] = signal.signal(number, handler)
    except ValueError:  # not in the main thread, which alone hears signals
        yield
        return
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, signal.SIG_IGN if last else old)
