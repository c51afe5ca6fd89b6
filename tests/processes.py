"""Other processes, for tests of what two of them do at once, and of what a command does in a hostile environment."""

import os
import re
import resource
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

HOLD = """
import sys
from pathlib import Path
from sgns_cli.locks import locked
print("up", flush=True)
with locked(Path(sys.argv[1]), wait=True):
    print("held", flush=True)
    sys.stdin.read()
"""


# What a process does before it is sgns, so that its training waits behind each call of a function of training/run.py
# until it may go on: there is time to send a signal, on a machine of any speed.
WAIT = """
import time
from pathlib import Path
import sgns_cli.training.run as run
call = run.{name}
def call_and_wait(*arguments, **more):
    result = call(*arguments, **more)
    Path("waiting").touch()
    for _ in range(10_000):  # and no longer: whoever was to say so may be dead
        if Path("go-on").exists():
            break
        time.sleep(0.01)
    return result
run.{name} = call_and_wait
"""
SECONDS = 100  # after which something is wrong
TRAINING = "import sys\n{before}\nfrom sgns_cli.cli import main\nsys.exit(main())"


def waiting_behind(name: str) -> str:
    """The program that is `sgns`, but that its training waits behind each call of a function."""
    return TRAINING.format(before=WAIT.format(name=name))


def signal_while_it_waits(folder: Path, process: subprocess.Popen, number: int) -> None:
    """Send a signal to one of the processes of a training that comes to wait in `folder`, and let it go on."""
    end = time.monotonic() + SECONDS
    while not (folder / "waiting").exists():
        if process.poll() is not None or time.monotonic() > end:
            process.kill()
            pytest.fail(f"it never came to wait: {process.communicate()}")
        time.sleep(0.01)
    process.send_signal(number)
    (folder / "go-on").touch()


def forget_waiting(folder: Path) -> None:
    """Let the next training in `folder` wait again."""
    for name in ("waiting", "go-on"):
        (folder / name).unlink(missing_ok=True)


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


NAMES = ['it\'s "two" words, [a]*? {b}: #c ünï 日本 😀', "raw \x1b[31m\x9b\u202e\U000e0001\n\udcff", "-dash", "~nobody"]
HOSTILE = "\x1b[31mred\x1b]0;title\x07 up\x9bdown\r\x08 \u202e\u2066 two\nlines"
RAW = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\U000e0001\ud800-\udfff]")
