"""Numbers at the ends of their ranges, numbers that are none, and memory that gives out: training ends well, or in two
lines that say where, and what is on disk stays.
"""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from sgns_cli.training import setup
from sgns_cli.training.engines import make_engine
from sgns_cli.training.vocabulary import CERTAIN, make_vocabulary

CONFIG = """\
data: {sources: [text.txt]}
tokenizer: {encoding: whitespace}
model: {dim: 8, min_count: 1, subsample_threshold: 0}
train: {epochs: 2}
"""
TEXTS = {
    "two hundred types": "".join(f"w{i % 200} w{i * i % 200} w{i % 7} w0\n" for i in range(600)),
    "two types": "a b\n" * 200,
    "one type": "a " * 50 + "\n",
    "one document": "a b c d e f " * 80 + "\n",
    "one token": "a\n",
}
EXTREMES = {
    "a high learning rate": ["train.learning_rate=10"],
    "a learning rate at the end of float32": ["train.learning_rate=3e38"],
    "the least model": ["model.dim=1", "model.window=1", "model.negatives=1", "train.learning_rate=10"],
    "wide windows": ["model.window=1000", "model.negatives=1000"],
    "nearly nothing kept": ["model.subsample_threshold=1e-320"],
    "noise of rare tokens": ["model.noise_power=-2", "model.positions=learned", "model.context_length=1"],
    "one large round": ["train.epochs=1", "train.seed=9223372036854775807", "model.subsample_threshold=1"],
}


@pytest.fixture
def here(tmp_path, sgns):
    (tmp_path / "text.txt").write_text(TEXTS["two hundred types"])
    (tmp_path / "c.yaml").write_text(CONFIG)
    return tmp_path


def set_all(settings: list[str]) -> list[str]:
    return [part for setting in settings for part in ("--set", setting)]


def steps(here: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in sorted((here / "runs/c").glob("step-*/*"))}


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("extreme", EXTREMES)
def test_extreme_configs_end_well(sgns, here, text, extreme):
    (here / "text.txt").write_text(TEXTS[text])
    result = sgns("train", "c.yaml", "--json", *set_all(EXTREMES[extreme]))
    if result.code:
        assert (result.code, result.out) == (1, ""), result
        assert extreme == "a learning rate at the end of float32"
        assert "training diverged" in result.err
        return
    last = json.loads(result.out.splitlines()[-1])
    for loss in (last["loss"], last["held_out_loss"]):
        assert loss is None or np.isfinite(loss)
    (step,) = (here / "runs/c").glob("step-*")
    for name in ("model.safetensors", "training.safetensors"):
        assert all(np.isfinite(tensor).all() for tensor in load_file(step / name).values())


@pytest.mark.parametrize("counts", [[2**40] * 3, [2**62, 1], [2**40, 2**39, 7, 1]])
def test_counts_of_a_large_corpus(counts):
    for power in (-2, 0, 0.75, 2):
        vocabulary = make_vocabulary(
            np.array(counts, np.int64), min_count=1, subsample_threshold=1e-3, noise_power=power
        )
        chances = vocabulary.chances
        assert 0 < vocabulary.kept_fraction <= 1
        assert (chances.keep <= CERTAIN).all()
        accept = chances.accept.astype(np.float64) / CERTAIN
        drawn = (accept + np.bincount(chances.alias, 1 - accept, minlength=len(counts))) / len(counts)
        wanted = np.array(counts, np.float64) ** power
        assert drawn == pytest.approx(wanted / wanted.sum(), abs=1e-8)


# ------------------------------------------------------------------ what fails in the middle

OFTEN = ["--set", "run.checkpoint_minutes=1e-6", "--set", "train.epochs=40"]


def failing(monkeypatch, fail) -> None:
    """The engine of the CPU, but that `fail(engine, number)` comes before each stretch that it trains."""

    def make(problem, matrices, device, threads):
        engine = make_engine(problem, matrices, device, threads)
        train, count = engine.train, [0]

        def train_or_fail(epoch, start, stop):
            count[0] += stop > start
            answer = fail(engine, count[0]) if stop > start else None
            return answer or train(epoch, start, stop)

        engine.train = train_or_fail
        return engine

    monkeypatch.setattr(setup, "make_engine", make)


def spoil(engine, number) -> None:
    matrices = {name: matrix.copy() for name, matrix in engine.matrices().items()}
    matrices["contexts"][2, 1] = -np.inf
    if number == 3:
        engine.matrices = lambda: matrices


def no_memory(engine, number) -> None:
    if number == 3:
        raise MemoryError


@pytest.mark.parametrize(
    ("fail", "words"),
    [
        (
            lambda engine, number: (np.nan, 100) if number == 3 else None,
            ["the loss is nan at step", "learning rate 0.02"],
        ),
        (spoil, ["not finite at step", "learning rate 0.02"]),
        (no_memory, ["not enough memory", "--resume"]),
    ],
    ids=["loss", "matrix", "memory"],
)
def test_a_failure_in_the_middle_names_the_last_good_checkpoint(sgns, here, monkeypatch, fail, words):
    assert sgns("train", "c.yaml", "-o", "runs/undisturbed", *OFTEN).code == 0
    with monkeypatch.context() as patch:
        failing(patch, fail)
        result = sgns("train", "c.yaml", *OFTEN)
    assert (result.code, result.out) == (1, "")
    what, hint = result.err.splitlines()[-2:]
    kept = steps(here)
    last = sorted({path.parent.name for path in kept})[-1]
    assert f"the last good checkpoint is runs/c/{last}" in what
    for word in words:
        assert word in what + hint
    assert sgns("neighbors", "w0", "--model", "runs/c").code == 0
    assert steps(here) == kept
    assert sgns("train", "c.yaml", "--resume", *OFTEN).code == 0
    *_, mine = sorted((here / "runs/c").glob("step-*"))
    for name in ("model.safetensors", "training.safetensors"):
        assert (mine / name).read_bytes() == (here / "runs/undisturbed" / mine.name / name).read_bytes()
    log = [json.loads(line)["step"] for line in (here / "runs/c/metrics.jsonl").read_text().splitlines()]
    assert log == sorted(set(log))


def test_a_failure_before_the_first_checkpoint_leaves_nothing(sgns, here, monkeypatch):
    failing(monkeypatch, lambda engine, number: (np.nan, 100))
    result = sgns("train", "c.yaml")
    assert result.code == 1
    assert "checkpoint is" not in result.err
    assert not (here / "runs/c").exists()


def test_a_loss_that_is_worse_than_none_is_noted(sgns, here, monkeypatch):
    assert "know nothing" not in sgns("train", "c.yaml").err

    def worse(engine, number):
        engine.evaluate = lambda: (43.0, 10)

    failing(monkeypatch, worse)
    result = sgns("train", "c.yaml", "--overwrite")
    assert result.code == 0
    assert "a loss of 4.3 is above the 4.1589 of vectors that know nothing: lower train.learning_rate" in result.err
