"""Every command that writes, on a full, a read-only and a failing disk, from each of its changes on: `make faults`.

Prints how many there were; ends with an AssertionError at the first that loses something or says too little.
"""

import contextlib
import io
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from conftest import Result
from disk_cases import CASES, Faults

from sgns_cli.cli import main
from sgns_cli.training import trainer


def sgns(*arguments: str) -> Result:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(list(arguments))
    return Result(code, out.getvalue(), err.getvalue())


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def sweep(folder: Path) -> None:
    trainer.SLICE_SECONDS = 0.0  # a step for each round
    began, total = time.monotonic(), 0
    for name, case in CASES.items():
        numbers = []
        for kind in ("full", "read-only", "failing"):
            faults = Faults(case, kind, folder / "disk", sgns)
            for number in range(1, faults.changes + 1):
                try:
                    faults.examine(number)
                except AssertionError as error:
                    error.add_note(f"{name}, a {kind} disk from change {number} on")
                    raise
            numbers.append(faults.changes)
        total += sum(numbers)
        say(f"{name:20} full {numbers[0]:3}  read-only {numbers[1]:3}  failing {numbers[2]:3}")
    say(f"{total} refusals in {time.monotonic() - began:.0f} s, nothing lost")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        sweep(Path(folder).resolve())
