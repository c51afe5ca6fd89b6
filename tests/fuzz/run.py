#!/usr/bin/env python
# ruff: noqa: T201
"""Fuzz what reads files and texts of strangers: `python tests/fuzz/run.py [--seconds 60] [TARGET...]`.

Each target runs in a process of its own under atheris (libFuzzer), which changes inputs so that they reach new code;
where it is not installed, hypothesis makes up inputs for as long. A broken promise, an input that takes longer than
TIMEOUT, or too much memory ends a target: its input and the log are kept in tests/fuzz/found/, and the exit code is 1.
An input whose fault is mended goes into FOUND of tests/test_fuzz.py.
"""

import argparse
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FOUND = Path(__file__).parent / "found"
EVERY_VALUE = "every_value"
TIMEOUT = 10  # seconds for an input
MEMORY = 2048  # MB of a process
LONGEST = 8192  # bytes of an input

sys.path.insert(0, str(Path(__file__).parents[1]))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=int, default=60, help="for each target [60]")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)  # the process of one target
    parser.add_argument("targets", nargs="*", metavar="TARGET")
    arguments, fuzzer_options = parser.parse_known_args()
    if arguments.here:
        fuzz(arguments.targets[0], arguments.targets[1:] + fuzzer_options, arguments.seconds)
        return 0
    from fuzz.seeds import SEEDS

    known = [*SEEDS, EVERY_VALUE]
    if unknown := set(arguments.targets) - set(known):
        parser.error(f"no target {', '.join(sorted(unknown))}: there are {', '.join(known)}")
    if not has_atheris():
        print("atheris is not installed (pip install 'sgns-cli[fuzz]'; not on every system): hypothesis instead")
    FOUND.mkdir(exist_ok=True)
    results = [run(target, SEEDS.get(target, []), arguments.seconds) for target in arguments.targets or known]
    return 0 if all(results) else 1


def has_atheris() -> bool:
    return importlib.util.find_spec("atheris") is not None


def run(target: str, seeds: list[bytes], seconds: int) -> bool:
    """Fuzz one target in a process of its own and say how it went; False if something was found."""
    memory = Path("/dev/shm")  # files of a moment, made and removed thousands of times
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as scratch:
        corpus = Path(scratch) / "corpus"
        corpus.mkdir()
        for number, seed in enumerate(seeds):
            (corpus / f"seed-{number}").write_bytes(seed)
        options = [
            str(corpus),
            f"-artifact_prefix={FOUND}/{target}-",
            *(f"-max_total_time={seconds}", f"-timeout={TIMEOUT}", f"-rss_limit_mb={MEMORY}", f"-max_len={LONGEST}"),
        ]
        command = [sys.executable, __file__, "--here", "--seconds", str(seconds), target, *options]
        begin = time.monotonic()
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", env={**os.environ, "TMPDIR": scratch}
        )
        took = time.monotonic() - begin
    log = done.stdout + done.stderr
    (FOUND / f"{target}.log").write_text(log, encoding="utf-8")
    numbers = re.findall(r"^(?:#|Done )(\d+)", log, re.MULTILINE)
    edges = re.findall(r"cov: (\d+)", log)
    verdict = "nothing found" if done.returncode == 0 else f"FOUND SOMETHING (exit {done.returncode}), see {FOUND}"
    executions = int(numbers[-1]) if numbers else 0
    print(f"{target:18} {executions:9,} executions {int(edges[-1]) if edges else 0:6,} edges {took:5.0f} s  {verdict}")
    if done.returncode:
        print("\n".join(log.splitlines()[-40:]), flush=True)
    return done.returncode == 0


def fuzz(target: str, options: list[str], seconds: int) -> None:
    """In its own process: make up inputs until the time is over or one of them raises."""
    if target == EVERY_VALUE:
        try_every_value()
        return
    if not has_atheris():
        fuzz_with_hypothesis(target, seconds)
        return
    import atheris

    with atheris.instrument_imports(include=["sgns_cli"], exclude=compiled_modules()):
        from fuzz.seeds import TARGETS
    atheris.Setup([sys.argv[0], *options], TARGETS[target])
    atheris.Fuzz()


def compiled_modules() -> list[str]:
    """What Numba translates has to stay as it is."""
    package = Path(__file__).parents[2] / "sgns_cli"
    return [
        f"sgns_cli.{'.'.join(path.relative_to(package).with_suffix('').parts)}"
        for path in package.glob("training/**/*.py")
    ]


def try_every_value() -> None:
    """All values of JSON in small folders: few enough to need no chance, and however long it takes."""
    from fuzz.folder_targets import every_value

    for number, (name, check) in enumerate(every_value(), start=1):
        try:
            check()
        except BaseException:
            print(f"in {name}, number {number}")
            raise
        print(f"#{number}")


def fuzz_with_hypothesis(target: str, seconds: int) -> None:
    from hypothesis import HealthCheck, given, settings

    from fuzz.inputs import inputs_like
    from fuzz.seeds import SEEDS, TARGETS

    end, number = time.monotonic() + seconds, 0

    @settings(max_examples=100, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(inputs_like(SEEDS[target]))
    def some(data: bytes) -> None:
        nonlocal number
        number += 1
        TARGETS[target](data)

    some()
    while time.monotonic() < end:
        some()
        print(f"#{number}")


if __name__ == "__main__":
    sys.exit(main())
