"""What a training takes in memory and on disk against what it really takes; and what is said where there is no room."""

import re
import shutil
import subprocess
import sys
from collections import namedtuple
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import zipf_problem

from sgns_cli.config import ModelConfig, RunConfig, TrainConfig
from sgns_cli.errors import SgnsError
from sgns_cli.training import room
from sgns_cli.training.checkpoint import save_step
from sgns_cli.training.draws import BLOCK
from sgns_cli.training.engine import initial_matrices, matrix_bytes
from sgns_cli.training.engines import device_bytes
from sgns_cli.training.kernels.cpu import new_work
from sgns_cli.training.kernels.cpu_memory import new_objective, new_scratch
from sgns_cli.training.problem import Problem, make_problem
from sgns_cli.training.room import COMPILING, MOST_BLOCKS, Needs, check_disk, check_memory, step_bytes, work_bytes

NEEDS = Needs("cpu", threads=2)
Usage = namedtuple("Usage", "total used free")


def arrays_in(room) -> int:
    """The bytes of all arrays in a tuple of arrays, numbers and such tuples."""
    return sum(arrays_in(part) if isinstance(part, tuple) else getattr(part, "nbytes", 0) for part in room)


@pytest.mark.parametrize("threads", [1, 7])
@pytest.mark.parametrize(
    "model",
    [
        {"dim": 100},
        {"dim": 3, "window": 60, "negatives": 40},
        {"dim": 300, "positions": "learned", "context_length": 50},
    ],
    ids=str,
)
def test_work_space_is_that_of_the_kernel(model, threads):
    problem = zipf_problem(model=model)
    learned = problem.model.context_length if problem.positions_learned else 0
    objective = new_objective(
        width=initial_matrices(problem)["vectors"].shape[1],
        window=problem.model.window,
        negatives=problem.model.negatives,
        shared=problem.shared_negatives,
        context_length=learned,
    )
    real = arrays_in(new_work(objective, MOST_BLOCKS * BLOCK)) + threads * arrays_in(new_scratch(objective))
    assert work_bytes(problem, threads) == pytest.approx(real, rel=0.03)


@pytest.mark.parametrize("positions", ["none", "learned"])
def test_a_step_takes_that_much_on_disk(tmp_path, positions):
    problem = zipf_problem(types=900, model={"dim": 37, "positions": positions, "context_length": 70})
    step = save_step(tmp_path, 0, problem, initial_matrices(problem), facts={}, metrics={})
    headers = 2000
    assert 0 < sum(file.stat().st_size for file in step.iterdir()) - step_bytes(problem) < headers


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak of a process is read from /proc")
def test_memory_is_that_of_a_real_training(sgns, tmp_path):
    types = [f"w{number}" for number in range(50_000)]
    (tmp_path / "corpus.txt").write_text("\n".join(" ".join(types[i : i + 20]) for i in range(0, 50_000, 20)) + "\n")
    (tmp_path / "c.yaml").write_text(
        "data: {sources: [corpus.txt]}\ntokenizer: {encoding: whitespace}\n"
        "model: {dim: 400, min_count: 1}\ntrain: {epochs: 1}\n"
    )
    assert sgns("train", "c.yaml", "-o", "runs/first", "--set", "train.epochs=0").code == 0  # tokenizes and compiles
    code = (
        "import re; from pathlib import Path; from sgns_cli.cli import main\n"
        "assert main(['train', 'c.yaml', '-q', '--threads', '2']) == 0\n"
        "print(re.search(r'VmHWM:\\s+(\\d+) kB', Path('/proc/self/status').read_text())[1])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    problem = problem_of(np.ones(50_000, np.int64), dim=400)
    matrices = 2 * 50_000 * 400 * 4
    assert matrix_bytes(problem) == matrices
    assert NEEDS.memory(problem) == pytest.approx(1024 * int(done.stdout), rel=0.15)
    assert NEEDS.memory(problem) > matrices * 2  # so much of it is not the matrices that this says something


def problem_of(counts: np.ndarray, **model) -> Problem:
    """A corpus of these counts, each id in one go."""
    ids = np.repeat(np.arange(len(counts), dtype=np.uint32), counts)
    offsets = np.array([0, len(ids)], np.int64)
    return make_problem(ids, offsets, counts, ModelConfig(**{"min_count": 1, **model}), TrainConfig(epochs=1))


def refusal(check, *arguments, **options) -> SgnsError:
    with pytest.raises(SgnsError) as caught:
        check(*arguments, **options)
    return caught.value


def with_key(problem: Problem, **model) -> Problem:
    """The problem that another config makes of the same corpus."""
    counts = problem.vocabulary.counts
    return problem_of(counts, **{**problem.model.model_dump(), **model})


def value_of(key: str, hint: str) -> int | None:
    found = re.search(rf"set {re.escape(key)} to (\d+)", hint)
    return int(found[1]) if found else None


COUNTS = np.maximum(1, 4000 // np.arange(1, 3001)).astype(np.int64)


@settings(max_examples=30)
@given(
    share=st.floats(0.001, 0.999),
    positions=st.sampled_from(["none", "learned"]),
    device=st.sampled_from(["cpu", "mps"]),
)
def test_the_values_that_the_hint_names_are_the_ones_that_fit(share, positions, device):
    problem = problem_of(COUNTS, dim=1000, positions=positions, context_length=500)
    needs = Needs(device, threads=2)
    least = needs.memory(with_key(problem, dim=1))
    there = round(least + share * (needs.memory(problem) - least))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(room, "available_memory", lambda: there)
        error = refusal(check_memory, problem, needs)
        dim, min_count = value_of("model.dim", error.hint), value_of("model.min_count", error.hint)
        check_memory(with_key(problem, dim=dim), needs)
        refusal(check_memory, with_key(problem, dim=dim + 1), needs)
        if min_count is None:  # positions and buffers alone are too much
            refusal(check_memory, with_key(problem, min_count=int(COUNTS[0])), needs)
        else:
            smaller = with_key(problem, min_count=min_count)
            check_memory(smaller, needs)
            assert f"({smaller.vocabulary.rows:,} rows)" in error.hint
            refusal(check_memory, with_key(problem, min_count=min_count - 1), needs)


def test_what_is_said_of_memory(monkeypatch):
    problem = problem_of(COUNTS, dim=1000)
    monkeypatch.setattr(room, "available_memory", lambda: NEEDS.memory(problem))
    check_memory(problem, NEEDS)
    monkeypatch.setattr(room, "available_memory", lambda: 245 * 10**6)
    error = refusal(check_memory, problem, NEEDS)
    assert re.fullmatch(r"training needs 2\d\d MB of memory, and 245 MB are available", error.message)
    assert error.exit_code == 1
    assert "set model.dim to" in error.hint
    assert "set model.min_count to" in error.hint
    adopted = refusal(check_memory, problem, NEEDS, fixed=["model.dim"])
    assert "model.dim" not in adopted.hint
    assert "model.min_count" in adopted.hint
    resumed = refusal(check_memory, problem, NEEDS, fixed=["model.dim", "model.min_count"])
    assert resumed.hint == "train where there is more memory"  # a run that goes on keeps its model
    monkeypatch.setattr(room, "available_memory", lambda: 10**6)
    assert refusal(check_memory, problem, NEEDS).hint == "train where there is more memory"


def test_what_takes_more_memory():
    problem = problem_of(COUNTS, dim=100)
    plain = NEEDS.memory(problem)
    assert replace(NEEDS, compiles=True).memory(problem) == plain + COMPILING
    assert replace(NEEDS, threads=20).memory(problem) > plain
    large = problem_of(np.full(200_000, 1), dim=100)
    taken = 200_000 * 100 * 4  # a matrix of the run that --init-from names
    assert replace(NEEDS, adopts=True).memory(large) > NEEDS.memory(large) + taken / 2


def test_matrices_that_do_not_fit_on_a_cuda_device(monkeypatch):
    problem = problem_of(COUNTS, dim=1000)
    needed = device_bytes(problem, "cuda:3")
    assert needed > 2 * matrix_bytes(problem)  # the deltas of rows take as much again
    asked = []

    def free(device):
        asked.append(device)
        return free.there, 10**12

    monkeypatch.setattr(torch.cuda, "mem_get_info", free)
    needs = Needs("cuda:3", threads=1)
    free.there = needed
    check_memory(problem, needs)
    free.there = needed // 2
    error = refusal(check_memory, problem, needs)
    assert "on cuda:3" in error.message
    assert device_bytes(with_key(problem, dim=value_of("model.dim", error.hint)), "cuda:3") <= free.there
    free.there = needed
    assert "on cuda:3" in refusal(check_memory, problem, replace(needs, processes=2)).message
    assert set(asked) == {"cuda:3"}


# ------------------------------------------------------------------ disk


@pytest.fixture
def disk(monkeypatch):
    """Say how much is free: disk(bytes)."""
    asked = []

    def set_free(free: int) -> list:
        monkeypatch.setattr(shutil, "disk_usage", lambda place: asked.append(place) or Usage(10**15, 0, free))
        return asked

    return set_free


def test_steps_that_do_not_fit_on_the_disk(tmp_path, disk):
    problem = zipf_problem(types=900, model={"dim": 64})
    step, folder, run = step_bytes(problem), tmp_path / "not" / "there", RunConfig(keep_checkpoints=5)
    assert disk(6 * step) == []
    check_disk(problem, run, folder)
    assert disk(6 * step - 1)[-1] == tmp_path
    error = refusal(check_disk, problem, run, folder)
    assert str(folder) in error.message
    assert "model.min_count" not in error.hint  # a step has a row for every id
    keep, dim = value_of("run.keep_checkpoints", error.hint), value_of("model.dim", error.hint)
    assert keep == 4
    check_disk(problem, RunConfig(keep_checkpoints=keep), folder)
    check_disk(zipf_problem(types=900, model={"dim": dim}), run, folder)
    refusal(check_disk, zipf_problem(types=900, model={"dim": dim + 1}), run, folder)
    disk(step)
    error = refusal(check_disk, problem, run, folder)
    assert value_of("run.keep_checkpoints", error.hint) is None  # one and a new one are two
    check_disk(zipf_problem(types=900, model={"dim": 64}, train={"epochs": 0}), run, folder)  # writes one and no more


def test_steps_that_are_there_make_room(tmp_path, disk):
    problem = zipf_problem(types=900, model={"dim": 64})
    step, run = step_bytes(problem), RunConfig(keep_checkpoints=2)
    for number in (1, 2):
        save_step(tmp_path, number, problem, initial_matrices(problem), facts={}, metrics={})
    disk(step)
    check_disk(problem, run, tmp_path, fixed=["model.dim", "model.min_count"])
    disk(step - 1)
    error = refusal(check_disk, problem, run, tmp_path, fixed=["model.dim", "model.min_count"])
    assert error.hint == "free some disk"


# ------------------------------------------------------------------ on the command line

CONFIG = """\
data: {sources: [corpus.txt]}
tokenizer: {encoding: whitespace}
model: {dim: 16, min_count: 1}
train: {epochs: 2}
"""


@pytest.fixture
def here(sgns, tmp_path):
    (tmp_path / "corpus.txt").write_text("".join(f"a{i % 50} b{i % 30} c{i % 7}\n" for i in range(500)))
    (tmp_path / "c.yaml").write_text(CONFIG)
    return tmp_path


def listing(folder: Path) -> dict[str, bytes | None]:
    """All files and folders."""
    return {str(path): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


@pytest.mark.parametrize("lack", ["memory", "disk"])
def test_what_has_no_room_is_refused_before_anything_is_touched(sgns, here, monkeypatch, lack):
    assert sgns("train", "c.yaml").code == 0
    before = listing(here)
    if lack == "memory":
        monkeypatch.setattr(room, "available_memory", lambda: 10**6)
    else:
        monkeypatch.setattr(shutil, "disk_usage", lambda place: Usage(10**9, 10**9, 1000))
    for more in (["-o", "runs/new"], ["--overwrite"], ["--resume", "--set", "train.epochs=3"]):
        for dry in ([], ["--dry-run"]):
            result = sgns("train", "c.yaml", *more, *dry)
            assert (result.code, result.out) == (1, "")
            error, hint = result.err.splitlines()[-2:]
            assert error.startswith("error: ")
            assert lack in hint
    assert listing(here) == before
    assert "--resume" in sgns("train", "c.yaml").err  # what is cheaper to know is said first
    assert sgns("train", "c.yaml", "--resume").code == 0  # nothing is left to train, so nothing is needed


def test_a_container_with_little_memory(sgns, here, monkeypatch):
    group = here / "cgroup"
    group.mkdir()
    for name, text in {"memory.max": "100000000", "memory.current": "90000000", "memory.stat": "file 0"}.items():
        (group / name).write_text(text)
    real = room.available_memory
    monkeypatch.setattr(room, "available_memory", lambda: real(cgroup=group, membership=here / "none"))
    result = sgns("train", "c.yaml", "--set", "model.dim=60000")
    assert result.code == 1
    assert "of memory, and " in result.err
    (group / "memory.max").write_text("max")
    assert sgns("train", "c.yaml", "--dry-run").code == 0
