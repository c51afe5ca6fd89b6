"""The GPU engine through Triton's interpreter: its draws are those of draws.py, its kernels are the reference."""

import math
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from problems import random_matrices, zipf_problem

from sgns_cli.training.draws import BLOCK, draw_round, new_draws, reach_of
from sgns_cli.training.engine import initial_matrices, matrix_bytes
from sgns_cli.training.kernels.gpu_draws import DeviceChances, draw_negatives, draw_stretch

os.environ["TRITON_INTERPRET"] = "1"  # before Triton is imported: a kernel is what it is from then on
pytest.importorskip("triton", reason="Triton is not there, which comes for Linux only")

from sgns_cli.training import engines, gpu_engine
from sgns_cli.training.gpu_engine import GpuEngine
from sgns_cli.training.reference_engine import ReferenceEngine

PART = 96  # centres: few, as each block takes the interpreter a tenth of a second


def both_engines(problem, matrices, part=PART, at_once=1):
    """The kernels, and the specification."""
    copies = [{name: matrix.copy() for name, matrix in matrices.items()} for _ in range(2)]
    return (
        GpuEngine(problem, copies[0], device="cpu", part=part, at_once=at_once),
        ReferenceEngine(problem, copies[1], device="cpu", part=part),
    )


def assert_same_matrices(fast, slow, before, dim):
    for name, matrix in fast.matrices().items():
        delta = slow.matrices()[name] - before[name]
        assert np.abs(matrix - before[name] - delta).max() <= 1e-6 + 1e-5 * np.abs(delta).max(), name
        assert not matrix[:, dim:].any()


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("seed", [0, 2**63 + 5])
def test_draws_on_the_device_are_those_of_the_cpu(wide, seed):
    window, span = 7, 700
    problem = zipf_problem(
        documents=60, wide=wide, model={"window": window, "subsample_threshold": 1e-3}, train={"seed": seed % 2**63}
    )
    corpus, chances, shared = problem.corpus, problem.vocabulary.chances, problem.shared_negatives
    chances_there = DeviceChances.of(chances, "cpu")
    ids = (corpus.halves if corpus.words == 1 else corpus.halves.view(np.uint32)).astype(np.int64)
    edges = [*range(1000, 5000, span), 5000]
    seed, epoch = problem.train.seed, 3
    begin, end = reach_of(corpus, chances, seed, epoch, edges[0], edges[-1], window)
    stretch = draw_stretch(corpus, torch.from_numpy(ids[begin:end]), begin, chances_there, seed, epoch, edges, window)
    for start, stop, first, last in zip(edges, edges[1:], stretch.bounds, stretch.bounds[1:], strict=False):
        draws = new_draws(span, window, shared)
        begins, ends = draw_round(draws, corpus, chances, seed, epoch, start, stop, window, shared)
        assert last - first == ends - begins > 0
        shift = first - begins
        around = slice(int(draws.low[begins:ends].min()), int(draws.high[begins:ends].max()))
        there = slice(around.start + shift, around.stop + shift)
        assert stretch.rows[there].tolist() == draws.rows[around].tolist()
        assert stretch.places[there].tolist() == draws.places[around].tolist()
        assert stretch.offsets[first:last].tolist() == draws.offsets[begins:ends].tolist()
        assert stretch.low[first:last].tolist() == (draws.low[begins:ends] + shift).tolist()
        assert stretch.high[first:last].tolist() == (draws.high[begins:ends] + shift).tolist()
        negatives = draw_negatives(chances_there, stretch.places[first:last:BLOCK], seed, epoch, shared)
        assert negatives.flatten().tolist() == draws.negatives[: negatives.numel()].tolist()


CASES = [
    {"dim": 6, "window": 5, "negatives": 5},
    {"dim": 100, "window": 5, "negatives": 5, "positions": "learned", "context_length": 9},
    {"dim": 128, "window": 2, "negatives": 1},
    {"dim": 200, "window": 7, "negatives": 8, "positions": "learned", "context_length": 40},  # columns in tiles
    {"dim": 33, "window": 1, "negatives": 3},
    {"dim": 16, "window": 40, "negatives": 20},  # outputs in tiles
    {"dim": 1, "window": 17, "negatives": 11},
]


@pytest.mark.parametrize("model", CASES, ids=lambda model: f"dim{model['dim']}-window{model['window']}")
def test_the_kernels_compute_the_deltas_of_the_reference(model):
    problem = zipf_problem(model={"min_count": 1, "subsample_threshold": 3e-2, **model}, tokens=500, documents=30)
    matrices = random_matrices(problem, scale=0.8 / math.sqrt(model["dim"]))
    fast, slow = both_engines(problem, matrices)
    close = {"rel": 1e-5, "abs": 1e-6}
    assert fast.evaluate() == pytest.approx(slow.evaluate(), **close)
    stop = min(problem.span, 400)
    assert fast.train(0, 0, stop) == pytest.approx(slow.train(0, 0, stop), **close)
    assert_same_matrices(fast, slow, matrices, model["dim"])


def test_rounds_in_parts_and_stretches_are_those_of_the_reference(monkeypatch):
    problem = zipf_problem(tokens=900, documents=30, wide=True, model={"subsample_threshold": 0.1, "negatives": 2})
    problem = replace(problem, span=190)  # 5 rounds: of two parts each, the last shorter
    monkeypatch.setattr(gpu_engine, "STRETCH", 2 * 190)
    matrices = random_matrices(problem)
    fast, slow = both_engines(problem, matrices, at_once=3)
    sums = [fast.train(1, 0, 380), fast.train(1, 380, problem.epoch_tokens)]
    expected = slow.train(1, 0, problem.epoch_tokens)
    assert tuple(map(sum, zip(*sums, strict=True))) == pytest.approx(expected, rel=1e-5)
    assert_same_matrices(fast, slow, matrices, problem.model.dim)
    assert not fast._tables.deltas.any()
    assert not fast._tables.curvature.any()


def test_rounds_that_keep_nothing_train_nothing():
    problem = zipf_problem(types=3, tokens=3000, model={"subsample_threshold": 1e-12})
    matrices = random_matrices(problem)
    fast = both_engines(problem, matrices)[0]
    assert fast.train(0, 0, problem.epoch_tokens) == (0.0, 0)
    assert all((fast.matrices()[name] == matrix).all() for name, matrix in matrices.items())


def test_matrices_that_lose_their_numbers_say_so():
    """A curvature that is no number must not stop a row from becoming one too."""
    problem = zipf_problem(tokens=300, documents=5)
    matrices = random_matrices(problem)
    matrices["contexts"][0] = np.nan
    fast = both_engines(problem, matrices)[0]
    loss, pairs = fast.train(0, 0, problem.epoch_tokens)
    assert pairs > 0
    assert math.isnan(loss)
    assert np.isnan(fast.matrices()["vectors"]).any()


def test_each_device_has_its_kernel(monkeypatch):
    kernels = [engines.kernel_of(device) for device in ("cpu", "cuda", "cuda:1", "mps")]
    assert kernels == ["cpu", "gpu", "gpu", "reference"]
    assert engines.round_centres("cuda") == 4 * engines.round_centres("cpu") == 4 * engines.round_centres("mps")
    assert engines.notes_of("cpu") == []
    assert "many times slower" in engines.notes_of("mps")[0]
    assert len(engines.notes_of("cuda")) == 1  # that bytes may differ
    monkeypatch.setattr("triton.__version__", "3.4.1+git5")
    assert engines.kernel_of("cuda") == "reference"
    monkeypatch.setattr(engines, "find_spec", lambda name: None)
    assert engines.kernel_of("cuda") == "reference"
    assert "pip install triton" in engines.notes_of("cuda")[0]


def test_what_the_device_must_have_room_for():
    problem = zipf_problem(model={"negatives": 20})
    fast = both_engines(problem, initial_matrices(problem), part=gpu_engine.PART)[0]
    groups = (fast._tables, fast._draws, fast._parts, fast._sums)
    held = sum(tensor.numel() * tensor.element_size() for group in groups for tensor in group)
    assert held < engines.device_bytes(problem, "cuda")  # bench/gpu.py compares it with what a GPU came to hold
    assert engines.device_bytes(problem, "mps") == matrix_bytes(problem)


def test_the_kernels_compile_for_a_gpu(tmp_path):
    """To machine code, which needs no GPU; in a process of its own, as kernels are interpreted in this one."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment |= {"TRITON_CACHE_DIR": str(tmp_path), "TRITON_DEFAULT_FP_FUSION": "1"}
    script = Path(__file__).with_name("gpu_compile.py")
    done = subprocess.run([sys.executable, script, "90"], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    sizes = dict(line.split() for line in done.stdout.splitlines())
    assert sizes.keys() == {"add_deltas", "move_rows"}
    assert all(int(shared) <= 48 * 1024 for shared in sizes.values())  # bytes that every GPU has for a program


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
def test_on_a_gpu_the_kernels_are_the_reference(tmp_path):
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    bench = Path(__file__).parents[1] / "bench" / "gpu.py"
    command = [sys.executable, bench, "--only", "parity", "-o", tmp_path / "gpu.json"]
    subprocess.run(command, env=environment, check=True)
