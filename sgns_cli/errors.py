"""What people see instead of a traceback: an expected failure with a way out.

Raised anywhere in the package, caught in one place (`sgns_cli.cli.app.run`), shown as two lines: what, and what to do.
"""


class SgnsError(Exception):
    """An expected failure: `message` is one line of what went wrong, `hint` one line of what to do next."""

    exit_code = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(SgnsError):
    """A failure that the arguments or the config text decide by themselves, whatever is on disk."""

    exit_code = 2
