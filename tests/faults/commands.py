"""`sgns` as a process of its own, which a harness may kill: what it says goes into files, so that no pipe holds it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).parents[2]

# A shell that starts a harness in the background has Ctrl-C ignored, and children inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


class Command:
    """A command that runs in `folder`; its words are beside that, in <folder>.out and <folder>.err."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.folder = folder
        environment = {key: value for key, value in os.environ.items() if not key.startswith("SGNS_")}
        environment |= {"PYTHONPATH": str(PROJECT), "TERM": "dumb"}
        command = [sys.executable, "-m", "sgns_cli", *arguments]
        with self._beside("out").open("w") as out, self._beside("err").open("w") as err:
            self.process = subprocess.Popen(
                command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=err
            )

    @property
    def out(self) -> str:
        return self._beside("out").read_text(encoding="utf-8")

    @property
    def err(self) -> str:
        return self._beside("err").read_text(encoding="utf-8")

    def send(self, number: int) -> None:
        """Send a signal, to nobody if it has ended."""
        self.process.send_signal(number)

    def wait(self) -> int:
        """The exit code, minus a signal's number where that ended it."""
        return self.process.wait()

    def _beside(self, suffix: str) -> Path:
        return self.folder.with_name(f"{self.folder.name}.{suffix}")


def run(folder: Path, *arguments: str) -> Command:
    """Run a command to its end, undisturbed. Raises RuntimeError if it fails."""
    command = Command(folder, *arguments)
    if command.wait() != 0:
        raise RuntimeError(f"{' '.join(arguments)}: {command.err}")
    return command
