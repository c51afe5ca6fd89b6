"""Real processes killed at random instants: `tokenize`, `train` and `export`, by every signal that asks or forces.

    python tests/faults/kills.py --kills 100 [--seed S] [--commands tokenize train export] [--signals SIGKILL ...]

The instants are even over the time that the command takes undisturbed, start of Python included. After each: all that
is visible is whole, no child lives on, the next one (for a training --resume) goes through and ends with the same
bytes; for the sake of time that one is a child of crash.py's server. Asked to end, a command ends with 130 and says
so, or had ended before. Linux only: /proc tells whether Python has come to the program when a signal is sent.
"""

# ruff: noqa: T201 - what it prints is what it is for
import argparse
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).parents[1]))  # tests/, as pytest has it

from faults.commands import PROJECT, Command, run
from faults.crash import Crasher
from faults.log import log_faults
from faults.whole import Files, faults, files, hidden, step_bytes

from sgns_cli.cli import INTERRUPTED
from sgns_cli.run_folder import steps

CONFIG = """\
data: {sources: [corpus.txt]}
tokenizer: {encoding: whitespace}
model: {dim: 32, min_count: 2, positions: learned, context_length: 32}
train: {epochs: 6}
run: {checkpoint_minutes: 0.001, log_seconds: 0.01}
"""
CORPUS_BYTES = 300_000
MEASURED = 25  # after so many kills it is measured anew how long the command takes
SUCCESSION = 0.05  # seconds at most between two signals
TRAIN = "train c.yaml --resume --threads 3 --device cpu"


@dataclass(frozen=True)
class Job:
    """A command to kill, which is also the one that goes on; what it makes, and what is made before it."""

    command: str
    result: str
    before: tuple[str, ...] = ()
    trains: bool = False
    replaces: bool = False


JOBS = {
    "tokenize": Job("tokenize corpus.txt -o tokens --train-vocab 2000 --pattern words", "tokens"),
    "train": Job(TRAIN, "runs/c", trains=True),
    "export": Job(
        "export -o out --format model2vec --overwrite --model runs/c",
        "out",
        (TRAIN, "export -o out --format model2vec --vectors context --model runs/c"),
        replaces=True,
    ),
}
SIGNALS = ("SIGKILL", "SIGTERM", "SIGINT", "SIGINT SIGINT", "SIGTERM SIGKILL", "SIGINT SIGTERM")


class Kills:
    """A job made ready, with what an undisturbed one makes of it and how long that takes."""

    def __init__(self, job: Job, place: Path, crasher: Crasher, chance: random.Random) -> None:
        self.job, self.crasher, self.chance = job, crasher, chance
        self.template, self.folder = place / "before", place / "here"
        self.template.mkdir(parents=True)
        with (PROJECT / "data" / "kjv.txt").open("rb") as text:
            (self.template / "corpus.txt").write_bytes(text.read(CORPUS_BYTES))
        (self.template / "c.yaml").write_text(CONFIG)
        for command in job.before:
            run(self.template, *command.split())
        self.seconds = self.undisturbed()
        self.old = files(self.template / job.result)
        self.new = self._settled()
        self.ends: Counter[str] = Counter()
        self.ended_before = 0  # how often the command was too fast to be killed

    def problems(self, signals: list[str]) -> Iterator[str]:
        """Kill once, look, and go on: what is wrong after that."""
        self._begin()
        command = Command(self.folder, *self.job.command.split())
        began = time.monotonic()
        instant = self.chance.uniform(0, self.seconds)
        with suppress(subprocess.TimeoutExpired):
            command.process.wait(instant)
            self.seconds = time.monotonic() - began  # the machine may be busier at one time than at another
        ended = command.process.poll() is not None
        self.ended_before += ended
        children, listens = _children(command), ended or _listens(command)
        saved = bool(steps(self.folder / self.job.result))
        for name in signals:
            command.send(getattr(signal, name))
            if len(signals) > 1:
                time.sleep(self.chance.uniform(0, SUCCESSION))
        code = command.wait()
        at = f"after {instant:.3f} s"
        self.ends[str(code)] += 1
        yield from (f"{at}: {problem}" for problem in self._said(command, code, signals, saved, listens=listens))
        _, alive = psutil.wait_procs(children, timeout=5)
        yield from (f"{at}: a child lives on: {child}" for child in alive)
        yield from (f"{at}: {problem}" for problem in self._go_on())

    def _said(self, command: Command, code: int, signals: list[str], saved: bool, *, listens: bool) -> Iterator[str]:
        """Complain of an exit code or words that do not fit the signals."""
        if not listens:  # Python had not come to the program yet
            self.ends["of these before the program"] += 1
            return
        allowed = {0, INTERRUPTED} if signals != ["SIGKILL"] else {0}
        allowed |= {-signal.SIGKILL} if "SIGKILL" in signals else set()
        if code not in allowed:
            yield f"it ended with {code}: {command.err[-800:]}"
        if "Traceback" in command.err or "Exception ignored" in command.err:
            yield f"a traceback: {command.err[-1500:]}"
        if code == INTERRUPTED and "interrupted" not in command.err:
            yield f"it does not say that it was interrupted: {command.err[-300:]!r}"
        if code == INTERRUPTED and self.job.trains and saved and "saved at step" not in command.err:
            yield f"it does not say that it has saved: {command.err[-300:]!r}"
        if code == INTERRUPTED:
            yield from (f"{name} is left after 130" for name in hidden(self.folder))

    def _go_on(self) -> Iterator[str]:
        yield from faults(self.folder)
        if self.job.replaces and files(self.folder / self.job.result) not in (self.old, self.new):
            yield "neither the old result is there nor the new one"
        whole = not self.job.trains and self._settled() == self.new
        again = self.crasher.run(self.folder, self.job.command.replace("--threads 3", "--threads 1").split())
        if again.code and not (whole and "exists already" in again.err):
            yield f"the next one ended with {again.code}: {again.err}"
        if self._settled() != self.new:
            yield "the next one made other files than one that nobody disturbed"
        yield from faults(self.folder)
        yield from (f"{name} is left" for name in hidden(self.folder))
        if self.job.trains:
            yield from log_faults(self.folder / self.job.result)

    def undisturbed(self) -> float:
        """Run it to its end, and return the seconds that it takes."""
        self._begin()
        began = time.monotonic()
        run(self.folder, *self.job.command.split())
        return time.monotonic() - began

    def _settled(self) -> Files:
        """Those files of the result that the command makes the same each time."""
        result = self.folder / self.job.result
        if not self.job.trains:
            return files(result) if result.exists() else {}
        return step_bytes(steps(result)[-1]) if steps(result) else {}

    def _begin(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self.template, self.folder)


def _listens(command: Command) -> bool:
    """Whether it catches SIGTERM, as the program does from its first line on, and Python by itself does not."""
    try:
        status = Path(f"/proc/{command.process.pid}/status").read_text()
    except OSError:
        return False
    caught = next((line for line in status.splitlines() if line.startswith("SigCgt:")), "SigCgt: 0")
    return bool(int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1)


def _children(command: Command) -> list[psutil.Process]:
    try:
        return psutil.Process(command.process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100, help="of each command by each signal [100]")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--commands", nargs="+", choices=JOBS, default=list(JOBS))
    parser.add_argument("--signals", nargs="+", choices=SIGNALS, default=list(SIGNALS), metavar="SIGNAL")
    options = parser.parse_args()
    failures = 0
    for name in options.commands:
        with tempfile.TemporaryDirectory(prefix="sgns-kills-") as place, Crasher() as crasher:
            kills = Kills(JOBS[name], Path(place).resolve(), crasher, random.Random(options.seed))
            for signals in options.signals:
                began = time.monotonic()
                kills.ends.clear()
                wrong = 0
                kills.ended_before = number = 0
                while number - kills.ended_before < options.kills:
                    if number % MEASURED == 0:
                        kills.seconds = kills.undisturbed()
                    number += 1
                    found = list(kills.problems(signals.split()))
                    wrong += bool(found)
                    for problem in found:
                        print(f"  {name}, {signals}: {problem}", flush=True)
                ends = ", ".join(f"{code}: {number}" for code, number in sorted(kills.ends.items()))
                took = time.monotonic() - began
                print(
                    f"{name} ({kills.seconds:.2f} s), {signals}: {options.kills} kills, {wrong} with problems; "
                    f"ended with {ends}; "
                    f"{kills.ended_before} more had ended before; {took:.0f} s",
                    flush=True,
                )
                failures += wrong
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
