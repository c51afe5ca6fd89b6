"""One training that is killed and resumed for an hour: is memory flat, is nothing left over, is nothing lost?

    python tests/faults/long_run.py --minutes 60 --compare --json long_run.json

The corpus and the rounds are the same whatever happens; SIGKILL, SIGTERM and SIGINT come at random times, a third of
them while a step is being written. When the minutes are over, the training may go on to its end undisturbed.
"""

# ruff: noqa: T201 - what it prints is what it is for
import argparse
import json
import random
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).parents[1]))  # tests/, as pytest has it

from faults.commands import PROJECT, Command, run
from faults.log import log_faults
from faults.whole import faults, hidden, step_bytes

from sgns_cli.cli import INTERRUPTED
from sgns_cli.run_folder import steps

CONFIG = """\
data: {{sources: [{corpus}]}}
tokenizer: {{encoding: whitespace}}
model: {{dim: {dim}, min_count: 2}}
train: {{epochs: {epochs}}}
run: {{directory: runs/long, checkpoint_minutes: {checkpoint_minutes}, log_seconds: {log_seconds}}}
"""
LOG_SECONDS = 0.5
LONGEST = 30.0  # seconds of training between two reports; on a machine that does something else too
KINDS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
START = 1.0  # seconds in which nothing is killed, as Python itself is not up yet; kills.py does that
TRAINED = 0.8  # of the minutes, for what a process that is killed has done in vain is done again
SETTLED = 3.0  # seconds of training after which memory should grow no more
GROWTH = 16 * 2**20  # bytes that memory may grow by all the same
LOOK = 0.002  # seconds between looks for a step that is being written
SAMPLE = 0.25  # seconds between samples of memory


@dataclass
class Life:
    """What was seen of one process, from its start or resumption to its end."""

    kind: str  # how it was to end
    in_save: bool  # whether a step was being written when it was told to end
    resumed_at: int | None  # the step that it went on from
    born: float = field(default_factory=time.time)
    code: int = 0
    seconds: float = 0.0
    memory: list[tuple[float, int]] = field(default_factory=list)  # seconds, bytes of its own: no pages of files
    open_files: int = 0
    threads: int = 0
    children: int = 0

    def settled(self) -> list[tuple[float, int]]:
        """The samples from when training had got going."""
        return [(at, held) for at, held in self.memory if at > self.memory[0][0] + SETTLED]

    def growth(self) -> int:
        """Bytes by which memory grew, from the first third of the samples to the last."""
        held = [amount for _, amount in self.settled()]
        third = len(held) // 3
        return round(statistics.mean(held[-third:]) - statistics.mean(held[:third])) if third else 0


class LongRun:
    """The training, its lives, and all that was found wrong."""

    def __init__(self, folder: Path, options: argparse.Namespace) -> None:
        self.folder, self.options = folder, options
        self.random = random.Random(options.seed)
        self.run = folder / "runs" / "long"
        self.lives: list[Life] = []
        self.problems: list[str] = []
        self.epochs = self._epochs(options.minutes * 60 * TRAINED)
        self._write_config(self.epochs)

    def live_and_die(self) -> None:
        """Resume and kill, again and again, until the minutes are over or the training is."""
        end = time.monotonic() + self.options.minutes * 60
        while not self.lives or self.lives[-1].code in (INTERRUPTED, -signal.SIGKILL):
            kind: signal.Signals | None = self.random.choice(KINDS)
            limit = START + self.random.uniform(0, 2.5) * self.options.checkpoint_seconds
            in_save = self.random.random() < 1 / 3
            if time.monotonic() + limit > end:
                kind, limit = None, float("inf")
            self._live(kind, limit, in_save=in_save)

    def _live(self, kind: signal.Signals | None, limit: float, *, in_save: bool) -> None:
        done = steps(self.run)
        life = Life(kind.name if kind else "none", False, int(done[-1].name[5:]) if done else None)
        began = time.monotonic()
        command = Command(self.folder, "train", "long.yaml", "--resume", "--threads", str(self.options.threads))
        process = psutil.Process(command.process.pid)
        trains = False
        sampled = 0.0
        while command.process.poll() is None:
            now = time.monotonic()
            trains = trains or self._has_begun(life, now)
            if trains and now - sampled > SAMPLE:
                sampled = now
                self._sample(life, process, now - began)
            writes = trains and any(self.run.glob(".step-*"))
            if kind and now - began > limit and (writes or not in_save):
                if writes:
                    time.sleep(self.random.uniform(0, 0.02))
                life.in_save = any(self.run.glob(".step-*"))
                command.send(kind)
                break
            time.sleep(LOOK)
        life.code, life.seconds = command.wait(), time.monotonic() - began
        self.lives.append(life)
        self._look_at(life, command, kind)

    def _has_begun(self, life: Life, now: float) -> bool:
        """Whether this life has reported: then nothing may be left of the one before."""
        if not self.reported_after(life.resumed_at, since=life.born):
            return False
        left = [name for name in hidden(self.folder) if name != "runs/.long.lock"]
        ours = [name for name in left if name.startswith("runs/long/.step-")]  # it is being written or removed
        self.problems += [f"life {len(self.lives)}: {name} was left" for name in left if name not in ours]
        return True

    def reported_after(self, step: int | None, *, since: float) -> bool:
        """Whether metrics.jsonl has a line of a step behind that one, which was not there before."""
        log = self.run / "metrics.jsonl"
        try:
            lines = log.read_text().split("\n")[:-1]
            if log.stat().st_mtime < since:  # those of the life before, that are not dropped yet
                return False
        except FileNotFoundError:
            return False
        return bool(lines) and json.loads(lines[-1])["step"] > (step or 0)

    def _sample(self, life: Life, process: psutil.Process, at: float) -> None:
        try:
            held = process.memory_info()
            life.memory.append((at, held.rss - getattr(held, "shared", 0)))
            life.open_files, life.threads = process.num_fds(), process.num_threads()
            life.children = len(process.children(recursive=True))
        except psutil.Error:
            return  # it has ended

    def _look_at(self, life: Life, command: Command, kind: signal.Signals | None) -> None:
        here = f"life {len(self.lives) - 1} ({life.kind})"
        if life.code not in (0, {None: 0, signal.SIGKILL: -signal.SIGKILL}.get(kind, INTERRUPTED)):
            self.problems.append(f"{here}: it ended with {life.code}: {command.err[-500:]}")
        if "Traceback" in command.err:
            self.problems.append(f"{here}: {command.err[-500:]}")
        if life.code == INTERRUPTED and life.memory and "saved at step" not in command.err:
            self.problems.append(f"{here}: it did not say that it has saved: {command.err[-500:]}")
        self.problems += [f"{here}: {fault}" for fault in faults(self.folder)]
        if life.code in (0, INTERRUPTED):
            self.problems += [f"{here}: {name} was left at its end" for name in hidden(self.folder)]

    def conclude(self) -> None:
        """Look at the whole of it."""
        resumed = sorted({life.resumed_at for life in self.lives if life.resumed_at is not None})
        self.problems += log_faults(self.run, longest=LONGEST, resumed=resumed)
        children = psutil.Process().children(recursive=True)
        self.problems += [f"a process is left: {child}" for child in children]
        grown = [number for number, life in enumerate(self.lives) if life.growth() > GROWTH]
        self.problems += [f"life {number}: memory grew by {self.lives[number].growth():,} bytes" for number in grown]
        held = self.levels()
        if held and max(held) - held[0] > GROWTH + held[0] // 10:
            self.problems.append(f"memory grew from life to life: {[round(level / 2**20) for level in held]} MB")
        if self.options.compare:
            self._compare()

    def levels(self) -> list[int]:
        """Bytes of memory, the median of each life that lasted."""
        return [round(statistics.median(held for _, held in life.settled())) for life in self.lives if life.settled()]

    def _compare(self) -> None:
        run(self.folder, "train", "long.yaml", "-o", "runs/undisturbed", "--threads", str(self.options.threads), "-q")
        ends = [step_bytes(steps(self.folder / "runs" / name)[-1]) for name in ("long", "undisturbed")]
        if ends[0] != ends[1]:
            self.problems.append("it did not end with the bytes of an undisturbed run")

    def _epochs(self, seconds: float) -> int:
        """How many epochs take about so many seconds here; also compiles the kernel and tokenizes the corpus."""
        self._write_config(2)
        out = run(
            self.folder, "train", "long.yaml", "-o", "runs/short", "--json", "--threads", str(self.options.threads)
        )
        last = json.loads(out.out.splitlines()[-1])
        shutil.rmtree(self.folder / "runs" / "short")
        return max(2, round(2 * seconds / last["train_seconds"]))

    def _write_config(self, epochs: int) -> None:
        text = CONFIG.format(
            corpus=json.dumps(str(PROJECT / "data" / "kjv.txt")),
            dim=self.options.dim,
            epochs=epochs,
            checkpoint_minutes=self.options.checkpoint_seconds / 60,
            log_seconds=LOG_SECONDS,
        )
        (self.folder / "long.yaml").write_text(text)

    def summary(self) -> Iterator[tuple[str, object]]:
        """What a reader wants to know, by name."""
        kinds = [(life.kind, life.in_save) for life in self.lives if life.code]
        levels = [round(level / 2**20, 1) for level in self.levels()]
        growths = [life.growth() / 2**20 for life in self.lives if len(life.settled()) > 20]
        yield "epochs", self.epochs
        yield "steps", int(steps(self.run)[-1].name[5:])
        yield "lines", len((self.run / "metrics.jsonl").read_text().splitlines())
        yield "processes", len(self.lives)
        yield "seconds", round(sum(life.seconds for life in self.lives), 1)
        yield "killed", {kind.name: sum(one == kind.name for one, _ in kinds) for kind in KINDS}
        yield "while_saving", sum(in_save for _, in_save in kinds)
        yield "before_training", sum(not life.memory for life in self.lives)
        yield "memory_mb_of_each_life", levels
        yield "most_growth_mb_in_a_life", round(max(growths, default=0.0), 1)
        yield "open_files", [life.open_files for life in self.lives if life.memory]
        yield "threads", sorted({life.threads for life in self.lives if life.memory})
        yield "children", max(life.children for life in self.lives)
        yield "same_bytes", None if not self.options.compare else "undisturbed run" not in " ".join(self.problems)
        yield "problems", self.problems


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--checkpoint-seconds", type=float, help="from step to step [a sixtieth of the minutes]")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--dim", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--compare", action="store_true", help="train it once more, undisturbed: the same bytes?")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the summary and every life there")
    options = parser.parse_args()
    options.checkpoint_seconds = options.checkpoint_seconds or options.minutes
    with tempfile.TemporaryDirectory(prefix="sgns-long-run-") as folder:
        place = Path(folder).resolve() / "here"
        place.mkdir()
        long_run = LongRun(place, options)
        long_run.live_and_die()
        long_run.conclude()
        summary = dict(long_run.summary())
    for name, value in summary.items():
        if name != "problems":
            print(f"{name:26}{value}")
    print("\n".join(["problems:", *long_run.problems]) if long_run.problems else "no problems")
    if options.json:
        options.json.write_text(json.dumps(summary | {"lives": [asdict(life) for life in long_run.lives]}, indent=1))
    return 1 if long_run.problems else 0


if __name__ == "__main__":
    sys.exit(main())
