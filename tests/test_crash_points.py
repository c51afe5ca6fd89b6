"""Commands killed at chosen operations on the disk: what is visible is whole, and the next one goes on.

A spread of the places that there are; `python tests/faults/crash_points.py` tries every one (faults/crash_points.py).
"""

import json
import sys
from pathlib import Path

import pytest
from faults.crash import Crasher
from faults.crash_points import SCENARIOS, Trials, spread
from faults.log import log_faults
from faults.whole import faults
from processes import holding

from sgns_cli.locks import locked, remove_stale_locks

POINTS = 3


@pytest.fixture(scope="module")
def crasher():
    with Crasher() as server:
        yield server


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_nothing_is_lost_where_a_command_is_killed(scenario, crasher, tmp_path):
    trials = Trials(crasher, scenario, tmp_path)
    problems = {}
    for number in spread(len(trials.operations), POINTS):
        problems[f"{number}: {trials.operations[number - 1]}"] = list(trials.problems(number))
    assert {place: found for place, found in problems.items() if found} == {}


def test_what_looks_for_faults_finds_them(crasher, tmp_path):
    """Else the test above might pass over anything."""
    undisturbed = Trials(crasher, SCENARIOS[1], tmp_path).place / "undisturbed"
    assert faults(undisturbed) == []
    seen = ("tokens.bin", "documents.npy", "counts.npy", "meta.json", "vocabulary.txt", "state.json", ".safetensors")
    files = [file for file in undisturbed.rglob("*") if file.name.endswith(seen)]
    assert len(files) > 10
    for file in files:
        content = file.read_bytes()
        file.write_bytes(content[: len(content) // 2] + b"?" + content[len(content) // 2 + 1 :])
        assert faults(undisturbed), file
        file.write_bytes(content)
    run = undisturbed / "runs" / "c"
    assert log_faults(run) == []
    lines = (run / "metrics.jsonl").read_text().splitlines(keepends=True)
    late = json.dumps({**json.loads(lines[2]), "tokens_seen": 1}) + "\n"
    for wrong in (lines[:3] + lines[2:], lines[:-1], [*lines[:2], late, *lines[3:]], [*lines, lines[0][:9]]):
        (run / "metrics.jsonl").write_text("".join(wrong))
        assert log_faults(run), wrong


def test_locks_of_the_dead_go_and_those_of_the_living_stay(tmp_path):
    (tmp_path / ".dead.lock").touch()
    with holding(tmp_path / "living") as process:
        assert process.stdout.readline() == b"held\n"
        remove_stale_locks(tmp_path)
        assert [path.name for path in tmp_path.iterdir()] == [".living.lock"]


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is where nobody can make a file, whatever its rights say")
def test_a_folder_that_takes_no_file_is_not_taken_for_one_that_is_held():
    with locked(Path("/proc/folder")) as held:
        assert not held
