"""Other processes, for tests of what two of them do at once."""

import subprocess
import sys
from contextlib import contextmanager

HOLD = """
import sys
from pathlib import Path
from sgns_cli.locks import locked
print("up", flush=True)
with locked(Path(sys.argv[1]), wait=True):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def holding(path):
    """A process that holds `path`, or waits for it, until its stdin is closed; it prints `held` when it has it."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        try:
            assert process.stdout.readline() == b"up\n"
            yield process
        finally:
            process.kill()
