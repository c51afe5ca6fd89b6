"""Other processes, for tests of what two of them do at once, and of what a command does in a hostile environment."""

import os
import re
import resource
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

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


def small_files(limit: int):
    """For a child: no file may grow beyond a limit, as on a disk that is full."""

    def set_limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    return set_limit


def on_a_full_disk(folder: Path, limit: int, *arguments: str) -> subprocess.CompletedProcess:
    """Run `sgns` in a folder where no file may grow beyond a limit."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1]), "TERM": "dumb"}
    return subprocess.run(
        [sys.executable, "-m", "sgns_cli", *arguments],
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment,
        preexec_fn=small_files(limit),
        timeout=60,
    )


NAMES = ['it\'s "two" words, [a]*? {b}: #c ünï 日本 😀', "raw \x1b[31m\x9b\u202e\U000e0001\n\udcff", "-dash"]
HOSTILE = "\x1b[31mred\x1b]0;title\x07 up\x9bdown\r\x08 \u202e\u2066 two\nlines"
RAW = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\U000e0001\ud800-\udfff]")
