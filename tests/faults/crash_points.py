"""Every command that writes, killed at each of its operations on the disk (crash.py): what must be true after it.

    python tests/faults/crash_points.py [SCENARIO]...

tries all places, some hundreds in some minutes; tests/test_crash_points.py tries a spread of them.
"""

import argparse
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # tests/, as pytest has it

from faults.crash import Crasher, Trial
from faults.log import log_faults
from faults.whole import Files, faults, files, hidden, step_bytes

from sgns_cli.run_folder import steps

CONFIG = """\
data: {sources: [corpus.txt]}
tokenizer: {encoding: whitespace}
model: {dim: 4, min_count: 2, subsample_threshold: 0, context_length: 7, positions: learned}
train: {epochs: 2}
run: {checkpoint_minutes: 1e-12, log_seconds: 1e-12}
"""
TRAIN = "train c.yaml --threads 1 --device cpu -q"
NEW_SEED = "seed: 2"  # in the config of the run that takes another's place
THERE_ALREADY = "exists already"  # what is whole is not written a second time: so says the same command


@dataclass(frozen=True)
class Scenario:
    """A command to kill. `again`, by default itself, is the one that goes on from there."""

    name: str
    command: str
    result: str  # what it makes: a file, or a folder
    before: tuple[str, ...] = ()  # commands that make what is there when it begins
    again: str | None = None
    halted_at: str | None = None  # the operation at which the last of `before` is killed, by what it names
    replaces: bool = False  # whether an older result is there
    trains: bool = False  # whether the result is a run: of that only the last step's matrices are the same each time


SCENARIOS = [
    Scenario("tokenize", "tokenize corpus.txt -o tokens --encoding whitespace --threads 1", "tokens"),
    Scenario("train", TRAIN, "runs/c", again=f"{TRAIN} --resume", trains=True),
    Scenario("resume", f"{TRAIN} --resume", "runs/c", (TRAIN,), halted_at="step-00000003", trains=True),
    Scenario("overwrite", f"{TRAIN} --overwrite --set train.seed=2", "runs/c", (TRAIN,), replaces=True, trains=True),
    Scenario(
        "export a file",
        "export -o out.safetensors --format safetensors --model runs/c -q",
        "out.safetensors",
        (TRAIN, "export -o out.safetensors --format safetensors --dtype int8 --model runs/c -q"),
        replaces=True,
    ),
    Scenario(
        "export a folder",
        "export -o out --format model2vec --overwrite --model runs/c -q",
        "out",
        (TRAIN, "export -o out --format model2vec --vectors context --model runs/c -q"),
        replaces=True,
    ),
    Scenario(
        "embed",
        "embed --model runs/c -q -o out.safetensors God created",
        "out.safetensors",
        (TRAIN, "embed --model runs/c -q -o out.safetensors earth"),
        replaces=True,
    ),
    Scenario("init", "init deep/c.yaml -q", "deep"),
]


def corpus() -> str:
    """Some lines in which words come again."""
    verse = "In the beginning God created the heaven and the earth And the earth was without form and void"
    return "".join(verse[i % 25 : 25 + 5 * (i % 14)] + "\n" for i in range(300))


class Trials:
    """A scenario made ready: the state before the command, and what an undisturbed one makes of it."""

    def __init__(self, crasher: Crasher, scenario: Scenario, place: Path) -> None:
        self.crasher, self.scenario, self.place = crasher, scenario, place
        self.template = place / "before"
        self.template.mkdir(parents=True)
        if scenario.name != "init":
            (self.template / "corpus.txt").write_text(corpus())
            (self.template / "c.yaml").write_text(CONFIG)
        for command in scenario.before:
            trial = self._run(self.template, command)
            assert trial.code == 0, trial.err
        if scenario.halted_at:
            self._halt()
        undisturbed = self._copy("undisturbed")
        trial = self._run(undisturbed, scenario.command)
        assert trial.code == 0, trial.err
        assert not hidden(undisturbed), hidden(undisturbed)
        assert not faults(undisturbed), faults(undisturbed)
        self.operations = trial.operations
        self.old = files(self.template / scenario.result)
        self.new = self._settled(undisturbed)

    def problems(self, kill_at: int) -> Iterator[str]:
        """Kill the command before its operation number `kill_at`, look, and give it again: what is wrong after that."""
        scenario = self.scenario
        folder = self._copy(f"killed-{kill_at}")
        trial = self._run(folder, scenario.command, kill_at)
        if trial.code != -signal.SIGKILL:
            yield f"it ended with {trial.code}, and was to be killed: {trial.err}"
        yield from faults(folder)
        if scenario.replaces:
            yield from self._neither(folder)
        again = self._run(folder, scenario.again or scenario.command)
        done = self._settled(folder) == self.new
        if again.code and not (done and THERE_ALREADY in again.err):
            yield f"the next one ended with {again.code}: {again.err.strip()}"
        elif not done:
            yield "the next one made other files than one that nobody disturbed"
        elif scenario.trains:
            yield from log_faults(folder / scenario.result)
        yield from faults(folder)
        yield from (f"{name} is left" for name in hidden(folder))
        shutil.rmtree(folder)

    def _neither(self, folder: Path) -> Iterator[str]:
        """Complain unless the old result is there as it was, or the new one; a new run may have some of its steps."""
        there = files(folder / self.scenario.result)
        if there == self.old or (there == self.new and not self.scenario.trains):
            return
        if not self.scenario.trains or not steps(folder / self.scenario.result):
            yield "neither the old result is there nor the new one" if there else "nothing is there"
        elif NEW_SEED not in there["config.yaml"].decode():
            yield "the old run is there, but not as it was"

    def _settled(self, folder: Path) -> Files:
        """Those files of the result that the command makes the same each time."""
        result = folder / self.scenario.result
        if not self.scenario.trains:
            return files(result)
        return step_bytes(steps(result)[-1]) if steps(result) else {}

    def _halt(self) -> None:
        """Make the last of `before` anew, twice: once to count its operations, then to kill it on its way."""
        command, result = self.scenario.before[-1], self.template / self.scenario.result
        shutil.rmtree(result)
        operations = self._run(self.template, command).operations
        shutil.rmtree(result)
        places = [number for number, what in enumerate(operations, 1) if str(self.scenario.halted_at) in what]
        trial = self._run(self.template, command, places[-1])
        assert trial.code == -signal.SIGKILL, trial.err

    def _copy(self, name: str) -> Path:
        return Path(shutil.copytree(self.template, self.place / name))

    def _run(self, folder: Path, command: str, kill_at: int = 0) -> Trial:
        return self.crasher.run(folder, command.split(), kill_at)


def spread(operations: int, points: int) -> list[int]:
    """So many numbers from 1 to `operations`, evenly apart; all of them if there are no more."""
    points = min(points, operations)
    return sorted({1 + (operations - 1) * i // max(1, points - 1) for i in range(points)})


def main(say: Callable[[str], object] = print) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help=", ".join(one.name for one in SCENARIOS))
    parser.add_argument("--points", type=int, default=10**6, help="of each scenario [all]")
    options = parser.parse_args()
    failures = 0
    with tempfile.TemporaryDirectory() as place, Crasher() as crasher:
        for scenario in SCENARIOS:
            if options.scenarios and scenario.name not in options.scenarios:
                continue
            trials = Trials(crasher, scenario, Path(place) / scenario.name)
            points = spread(len(trials.operations), options.points)
            wrong = 0
            for number in points:
                found = list(trials.problems(number))
                wrong += bool(found)
                for problem in found:
                    say(f"  {scenario.name}, before {number} ({trials.operations[number - 1]}): {problem}")
            say(f"{scenario.name}: killed at {len(points)} of {len(trials.operations)} places, {wrong} with problems")
            failures += wrong
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
