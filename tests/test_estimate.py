"""What a training would be: pairs against those that it counts, and a dry run that leaves nothing but tokens."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import zipf_corpus, zipf_problem

from sgns_cli.config import ModelConfig, TrainConfig
from sgns_cli.training import estimate, room, setup
from sgns_cli.training.engine import initial_matrices
from sgns_cli.training.engines import make_engine
from sgns_cli.training.estimate import expected_pairs
from sgns_cli.training.problem import make_problem

FIELDS = [
    "documents", "tokens", "trained_rows", "n_vocab", "tokens_total", "rounds", "pairs", "matrix_bytes", "memory_bytes",
    "memory_available_bytes", "checkpoint_bytes", "tokens_per_second", "train_seconds", "compile_seconds", "device",
    "threads",
]  # fmt: skip

# ------------------------------------------------------------------ pairs


def trained_pairs(problem) -> int:
    """What training counts, over all epochs."""
    engine = make_engine(problem, initial_matrices(problem), "cpu", 2)
    return sum(engine.train(epoch, 0, problem.epoch_tokens)[1] for epoch in range(problem.train.epochs))


@pytest.mark.parametrize(
    ("model", "corpus"),
    [
        ({}, {}),
        ({"window": 1}, {}),
        ({"window": 50}, {}),
        ({"subsample_threshold": 0.0, "min_count": 1}, {}),
        ({"subsample_threshold": 1e-4}, {}),
        ({"min_count": 30, "window": 10}, {"documents": 5000}),
        ({}, {"wide": True, "documents": 1}),
        ({"positions": "learned"}, {"types": 5, "documents": 2000}),
    ],
    ids=str,
)
def test_pairs_are_those_that_training_counts(model, corpus):
    problem = zipf_problem(model={"dim": 4, **model}, train={"epochs": 4}, **{"tokens": 40_000, **corpus})
    assert expected_pairs(problem) == pytest.approx(trained_pairs(problem), rel=0.02)


def test_pairs_of_a_sample_are_those_of_the_whole(monkeypatch):
    problem = zipf_problem(model={"window": 8}, tokens=300_000, documents=9000)
    whole = expected_pairs(problem)
    monkeypatch.setattr(estimate, "SAMPLED_TOKENS", 60_000)
    monkeypatch.setattr(estimate, "STRETCH", 20_000)
    assert expected_pairs(problem) == pytest.approx(whole, rel=0.02)
    assert sum(len(ids) for ids, _ in estimate._sample(problem)) == 60_000


@settings(max_examples=50)
@given(lengths=st.lists(st.integers(1, 30), min_size=1, max_size=20), window=st.integers(1, 12))
def test_pairs_where_every_token_is_kept(lengths, window):
    """Then nothing is left to chance but the radius, whose mean can be written down."""
    ids = np.zeros(sum(lengths), np.uint16)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    model = ModelConfig(dim=4, min_count=1, subsample_threshold=0.0, window=window)
    problem = make_problem(ids, offsets, np.bincount(ids), model, TrainConfig(epochs=3))
    trained = np.diff(np.minimum(offsets, problem.epoch_tokens))
    mean = sum(
        min(radius, k) + min(radius, length - 1 - k)
        for length in trained.tolist()
        for k in range(length)
        for radius in range(1, window + 1)
    )
    assert expected_pairs(problem) == pytest.approx(3 * mean / window)


# ------------------------------------------------------------------ the dry run

CONFIG = """\
data: {sources: [corpus.txt]}
tokenizer: {encoding: whitespace}
model: {dim: 8, min_count: 2, subsample_threshold: 1e-2}
train: {epochs: 2}
"""


@pytest.fixture
def here(sgns, tmp_path):
    """The working folder, with a corpus of 250 lines and a config that trains in a blink."""
    ids, _, _ = zipf_corpus(types=60, tokens=3000, documents=1)
    lines = (" ".join(f"w{id}" for id in ids[start : start + 12]) for start in range(0, 3000, 12))
    (tmp_path / "corpus.txt").write_text("".join(f"{line}\n" for line in lines))
    (tmp_path / "c.yaml").write_text(CONFIG)
    return tmp_path


def dry(sgns, *arguments) -> dict:
    result = sgns("train", "c.yaml", "--dry-run", "--json", *arguments)
    assert result.code == 0, result
    (line,) = result.out.splitlines()
    return json.loads(line)


def listing(folder: Path) -> dict[str, bytes | None]:
    return {str(path): path.read_bytes() if path.is_file() else None for path in sorted(folder.rglob("*"))}


def test_a_dry_run_leaves_tokens_and_nothing_else(sgns, here):
    before = listing(here)
    first = dry(sgns)
    new = {Path(path).relative_to(here).parts[:2] for path in listing(here).keys() - before.keys()}
    assert new == {("runs",), ("runs", ".tokens")}
    before = listing(here)
    again = dry(sgns)
    assert listing(here) == before
    measured = ("memory_available_bytes", "tokens_per_second", "train_seconds", "compile_seconds")
    assert {**first, **dict.fromkeys(measured)} == {**again, **dict.fromkeys(measured)}


def test_a_dry_run_says_what_the_run_will_say(sgns, here):
    facts = dry(sgns, "--threads", 2, "--device", "cpu")
    assert list(facts) == FIELDS
    assert (facts["documents"], facts["tokens"], facts["device"], facts["threads"]) == (250, 3000, "cpu", 2)
    assert 0 < facts["tokens_total"] / facts["tokens_per_second"] <= facts["train_seconds"]
    assert facts["compile_seconds"] > 0
    assert facts["matrix_bytes"] == 2 * facts["trained_rows"] * 16 * 4
    assert facts["matrix_bytes"] < facts["memory_bytes"] < facts["memory_available_bytes"]
    result = sgns("train", "c.yaml", "--json", "--device", "cpu")
    *_, report, _ = map(json.loads, result.out.splitlines())
    assert report["tokens_total"] == facts["tokens_total"]
    (step,) = (here / "runs" / "c").glob("step-*")
    assert step.name == f"step-{facts['rounds']:08d}"
    state = json.loads((step / "state.json").read_text())
    assert state["n_vocab"] == facts["n_vocab"]


def test_the_forms_of_a_dry_run(sgns, here):
    result = sgns("train", "c.yaml", "--dry-run")
    names, values = (line.split("\t") for line in result.out.splitlines())
    assert names == FIELDS
    assert dict(zip(names, values, strict=True))["rounds"] == str(dry(sgns)["rounds"])


def test_no_epochs_take_no_time(sgns, here):
    facts = dry(sgns, "--set", "train.epochs=0")
    assert (facts["tokens_total"], facts["rounds"], facts["pairs"], facts["train_seconds"]) == (0, 0, 0, 0)
    assert facts["tokens_per_second"] is None


def test_a_dry_run_of_a_run_that_is_there(sgns, here, monkeypatch):
    assert sgns("train", "c.yaml").code == 0
    before = listing(here / "runs" / "c")
    monkeypatch.setattr(estimate.Estimate, "_probe", lambda self, stopped: (100.0, 2.0, 0.0))
    whole = dry(sgns, "--set", "train.epochs=4")
    assert whole["train_seconds"] == pytest.approx(whole["tokens_total"] / 100 + 2)
    left = dry(sgns, "--set", "train.epochs=4", "--resume")
    assert left["train_seconds"] == pytest.approx(left["tokens_total"] / 2 / 100 + 2)
    assert dry(sgns, "--resume")["train_seconds"] == 0
    adopting = dry(sgns, "--init-from", "runs/c", "-o", "runs/d")
    assert adopting["trained_rows"] == whole["trained_rows"]
    assert listing(here / "runs" / "c") == before
    assert not (here / "runs" / "d").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--resume", "--set", "model.dim=9"], "model.dim"),
        (["--init-from", "nowhere"], "nowhere"),
        (["--init-from", "runs/c", "-o", "new", "--set", "model.dim=9"], "set model.dim to"),
        (["-o", "corpus.txt"], "corpus.txt"),
        (["-o", "new", "--set", "model.min_count=100000"], "model.min_count"),
    ],
)
def test_a_dry_run_refuses_what_training_refuses(sgns, here, arguments, words):
    assert sgns("train", "c.yaml").code == 0
    for dry_run in ([], ["--dry-run"]):
        result = sgns("train", "c.yaml", *arguments, *dry_run)
        assert (result.code, result.out) == (1, "")
        assert words in result.err


def test_compiling_is_noted_and_needs_memory(sgns, here, monkeypatch):
    monkeypatch.setattr(setup, "must_compile", lambda device: False)
    compiled = dry(sgns)
    monkeypatch.setattr(setup, "must_compile", lambda device: True)
    result = sgns("train", "c.yaml", "--dry-run", "--json")
    assert "note: compiling the kernel" in result.err
    assert json.loads(result.out)["memory_bytes"] == compiled["memory_bytes"] + room.COMPILING


def test_a_speed_at_which_training_diverges_is_known_before(sgns, here, monkeypatch):
    class Diverging:
        device, threads, stride = "cpu", 1, 1

        def train(self, epoch, start, stop):
            return np.nan, 1

        def evaluate(self):
            return 0.0, 0

    monkeypatch.setattr(estimate, "start_engine", lambda *arguments: (Diverging(), 0.0))
    result = sgns("train", "c.yaml", "--dry-run")
    assert (result.code, result.out) == (1, "")
    assert "train.learning_rate" in result.err


@pytest.mark.parametrize("kind", ["SIGINT", "SIGTERM"])
def test_a_dry_run_that_is_interrupted_says_nothing(here, kind):
    code = (
        "import sys\n"
        "from sgns_cli.cli import main\n"
        "from sgns_cli.training import estimate\n"
        "estimate.PROBE_SECONDS = 1e6\n"
        "start = estimate.start_engine\n"
        "def tell(*arguments):\n"
        "    engine = start(*arguments)\n"
        "    print('TRAINING', file=sys.stderr, flush=True)\n"
        "    return engine\n"
        "estimate.start_engine = tell\n"
        "sys.exit(main(['train', 'c.yaml', '--dry-run', '--json', '--set', 'train.epochs=1000000000']))\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=here,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
    )
    assert any("TRAINING" in line for line in process.stderr)
    process.send_signal(getattr(signal, kind))
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert "Traceback" not in err
    assert [path.name for path in (here / "runs").iterdir()] == [".tokens"]
