"""A prompt on the terminal: lines with editing and a history, until end of input."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from sgns_cli.user_folders import user_folder

PROMPT = "sgns> "
REMEMBERED = 1000  # lines


def prompt() -> Iterator[str]:
    """The lines that someone types, without empty ones, until end of input (Ctrl-D)."""
    with _history():
        while True:
            try:
                line = input(PROMPT)
            except EOFError:
                sys.stdout.write("\n")  # what comes next should not stand behind the prompt
                return
            if line.strip():
                yield line


@contextmanager
def _history() -> Iterator[None]:
    """Remember lines from one time to the next, where the system has a library for it and a home folder."""
    try:
        import readline
    except ImportError:
        yield
        return
    path = user_folder("XDG_STATE_HOME", ".local/state")
    if path is None:
        yield
        return
    path = path / "sgns" / "history"
    with suppress(OSError):
        readline.read_history_file(path)
    readline.set_history_length(REMEMBERED)
    try:
        yield
    finally:
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            readline.write_history_file(path)
