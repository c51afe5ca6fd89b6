"""Write docs/cli.md from the help of every command: python docs/make_cli.py

tests/test_cli_doc.py imports `cli_page` and fails when the page and the program no longer agree.
"""

import contextlib
import io
import os
from pathlib import Path
from unittest import mock

from sgns_cli.cli import main
from sgns_cli.cli.app import app

PAGE = Path(__file__).with_name("cli.md")
INTRODUCTION = """\
# The command line

What `sgns COMMAND --help` prints, for every command. `python docs/make_cli.py` writes this page; it is not edited by
hand.

Options may follow arguments. Data goes to stdout: a table on a terminal, tab-separated values with a header in a pipe,
JSON Lines with `--json`. Progress, notes and errors go to stderr. Exit codes: 0 done; 1 an expected failure, in one
line what and in one line what to do; 2 a mistake in the arguments or the config text; 130 interrupted, after saving.
`SGNS_MODEL` names the model that queries ask when `--model` is not given; `SGNS_DEBUG=1` shows tracebacks.
"""


def commands() -> list[str]:
    """The names of the commands that the help lists, in its order."""
    names = [command.name or command.callback.__name__ for command in app.registered_commands if not command.hidden]
    return [name.replace("_", "-") for name in names]


def help_text(*arguments: str) -> str:
    """What `sgns ARGUMENTS --help` prints, 80 columns wide, whatever the terminal."""
    fixed = {"COLUMNS": "80", "TERM": "dumb"}
    printed = io.StringIO()
    with mock.patch.dict(os.environ, fixed), contextlib.redirect_stdout(printed):
        code = main([*arguments, "--help"])
    if code != 0:
        raise RuntimeError(f"sgns {' '.join(arguments)} --help ended with {code}")
    return "\n".join(line.rstrip() for line in printed.getvalue().strip().splitlines())


def cli_page() -> str:
    """All of docs/cli.md."""
    parts = [INTRODUCTION, f"## sgns\n\n```text\n{help_text()}\n```\n"]
    parts += [f"## sgns {name}\n\n```text\n{help_text(name)}\n```\n" for name in commands()]
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(cli_page(), encoding="utf-8")
