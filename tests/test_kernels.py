"""The reference against the loss it states, the CPU kernel against the reference, both against planted structure."""

import math

import numpy as np
import pytest
import torch
from problems import clustered_corpus, random_matrices, uneven_problem, zipf_problem
from torch.nn.functional import logsigmoid

from sgns_cli.config import ModelConfig, TrainConfig
from sgns_cli.training.cpu_engine import CpuEngine
from sgns_cli.training.engine import initial_matrices
from sgns_cli.training.kernels import reference
from sgns_cli.training.problem import ROUND_CENTRES, held_out_start, make_problem
from sgns_cli.training.reference_engine import ReferenceEngine


def reference_engine(problem, matrices):
    return ReferenceEngine(problem, matrices, device="cpu")


ENGINES = pytest.mark.parametrize("make_engine", [CpuEngine, reference_engine], ids=["cpu", "reference"])


def copies(matrices):
    return {name: matrix.copy() for name, matrix in matrices.items()}


# --- the reference is what it says


def one_round(*, dim=5, rows=12, blocks=2, window=2, negatives=3, shared=4, seed=0, positions=True):
    """A hand-made round in which negatives clash with contexts and the last block is not full."""
    rng = np.random.default_rng(seed)
    block, context_count = 3, 3 + 2 * window
    centres = torch.tensor(rng.integers(0, rows, (blocks, block)))
    centres[-1, -1] = -1
    contexts = torch.tensor(rng.integers(0, rows, (blocks, context_count)))
    column = torch.arange(context_count)
    middle = torch.arange(block)[:, None] + window
    in_window = ((column - middle).abs() <= window) & (column != middle) & (centres[..., None] >= 0)
    table = lambda count: torch.tensor(rng.normal(size=(count, dim)), dtype=torch.float64)  # noqa: E731
    parameters = reference.Parameters(table(rows), table(rows), table(4) if positions else None)
    places = torch.where(centres < 0, -1, torch.tensor(rng.integers(0, 4, (blocks, block))))
    draws = reference.Round(centres, places, contexts, in_window, torch.tensor(rng.integers(0, rows, (blocks, shared))))
    return parameters, draws, negatives


def pairs_of(draws, negatives):
    """Every (centre row, position row, output row, sign, weight) of a round, by the words of the specification."""
    blocks, shared = draws.negatives.shape
    for m in range(blocks):
        for b, centre in enumerate(draws.centres[m].tolist()):
            contexts = draws.contexts[m][draws.in_window[m, b]].tolist()
            place = int(draws.places[m, b])
            yield from ((centre, place, context, 1.0, 1.0) for context in contexts)
            for negative in draws.negatives[m].tolist() if contexts else ():
                others = sum(context != negative for context in contexts)
                yield centre, place, negative, -1.0, negatives * others / shared


def stated_loss(parameters, draws, negatives):
    loss = torch.zeros((), dtype=torch.float64)
    for centre, place, output, sign, weight in pairs_of(draws, negatives):
        x = parameters.vectors[centre]
        if parameters.positions is not None:
            x = x + parameters.positions[place]
        loss = loss - weight * logsigmoid(sign * (x @ parameters.contexts[output]))
    return loss


@pytest.mark.parametrize("positions", [True, False])
def test_the_reference_descends_the_stated_loss(positions):
    parameters, draws, negatives = one_round(positions=positions)
    tables = [table for table in (parameters.vectors, parameters.contexts, parameters.positions) if table is not None]
    for table in tables:
        table.requires_grad_()
    stated = stated_loss(parameters, draws, negatives)
    gradients = torch.autograd.grad(stated, tables)
    before = [table.detach().clone() for table in tables]
    with torch.no_grad():
        loss, pairs = reference.train_round(parameters, draws, negatives=negatives, learning_rate=1e-6)
        assert reference.round_loss(parameters, draws, negatives=negatives)[0] < loss
    assert loss == pytest.approx(float(stated.detach()))
    assert pairs == int(draws.in_window.sum())
    for table, old, gradient in zip(tables, before, gradients, strict=True):
        assert torch.allclose((old - table) / 1e-6, gradient, rtol=1e-4, atol=1e-7)


def test_steps_are_limited_by_the_curvature_of_the_row():
    parameters, draws, negatives = one_round()
    bends = torch.zeros(len(parameters.vectors), dtype=torch.float64)
    change = torch.zeros_like(parameters.vectors)
    for centre, place, output, sign, weight in pairs_of(draws, negatives):
        x = parameters.vectors[centre] + parameters.positions[place]
        o = parameters.contexts[output]
        s = x @ o
        bends[centre] += weight * torch.tanh(s / 2) / (2 * s) * (o @ o)
        change[centre] += sign * weight * torch.sigmoid(-sign * s) * o
    limit = 2 / 3 / bends  # three tables share what is safe
    rate = float(limit[bends > 0].median())
    expected = parameters.vectors + torch.clamp(limit, max=rate)[:, None] * change
    assert (limit[bends > 0] < rate).any()
    reference.train_round(parameters, draws, negatives=negatives, learning_rate=rate)
    assert torch.allclose(parameters.vectors, expected)


def test_a_negative_equal_to_the_positive_does_not_count():
    """Two types that alternate: every context of a 0 is a 1, so of the negatives only the 0s may push."""
    column = torch.tensor([[0, 1, 0]])
    draws = reference.Round(
        centres=torch.tensor([[1]]),
        places=torch.tensor([[0]]),
        contexts=column,
        in_window=torch.tensor([[[True, False, True]]]),
        negatives=torch.tensor([[0, 0, 1, 1]]),
    )
    parameters = reference.Parameters(torch.zeros(2, 3), torch.zeros(2, 3), None)
    loss, pairs = reference.round_loss(parameters, draws, negatives=5)
    assert pairs == 2
    assert loss == pytest.approx(2 * math.log(2) + 5 * 2 / 4 * 2 * math.log(2))


# --- the CPU kernel is the reference

CASES = [
    {"dim": 6, "window": 5, "negatives": 5},
    {"dim": 100, "window": 5, "negatives": 5, "positions": "learned", "context_length": 9},
    {"dim": 128, "window": 2, "negatives": 1},
    {"dim": 300, "window": 7, "negatives": 10},
    {"dim": 33, "window": 1, "negatives": 3, "positions": "learned", "context_length": 1024},
    {"dim": 1, "window": 12, "negatives": 5},
    {"dim": 16, "window": 40, "negatives": 20},
]


@pytest.mark.parametrize("model", CASES, ids=lambda model: f"dim{model['dim']}-window{model['window']}")
@pytest.mark.parametrize("tokens", [1, 17, 640, 3000])
def test_the_cpu_kernel_computes_the_deltas_of_the_reference(model, tokens):
    corpus = {"tokens": tokens + 30, "documents": max(1, tokens // 12)} if tokens > 17 else {"types": 4, "tokens": 30}
    problem = zipf_problem(model={"min_count": 1, "subsample_threshold": 3e-2, **model}, **corpus)
    stop = min(tokens, problem.span)
    matrices = random_matrices(problem, scale=0.8 / math.sqrt(model["dim"]))
    fast, slow = CpuEngine(problem, copies(matrices)), reference_engine(problem, copies(matrices))
    close = {"rel": 1e-5, "abs": 1e-6}
    assert fast.train(0, 0, stop) == pytest.approx(slow.train(0, 0, stop), **close)
    for name, matrix in fast.matrices().items():
        delta = slow.matrices()[name] - matrices[name]
        assert np.abs(matrix - matrices[name] - delta).max() <= 1e-6 + 1e-5 * np.abs(delta).max()
        assert not matrix[:, model["dim"] :].any()
    assert fast.evaluate() == pytest.approx(slow.evaluate(), **close)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 8.0])
def test_they_agree_where_scores_are_tiny_and_where_sigmoids_are_saturated(scale):
    problem = zipf_problem(model={"dim": 24})
    matrices = random_matrices(problem, scale=scale)
    fast, slow = CpuEngine(problem, copies(matrices)), reference_engine(problem, copies(matrices))
    assert fast.train(0, 0, 500) == pytest.approx(slow.train(0, 0, 500), rel=1e-5)
    for name, matrix in fast.matrices().items():
        assert matrix == pytest.approx(slow.matrices()[name], rel=1e-4, abs=1e-5 * scale)


def test_a_round_that_keeps_too_many_tokens_is_trained_in_parts():
    problem = uneven_problem()
    matrices = random_matrices(problem)
    fast, slow = CpuEngine(problem, copies(matrices)), reference_engine(problem, copies(matrices))
    assert fast.train(0, 0, problem.span) == pytest.approx(slow.train(0, 0, problem.span), rel=1e-5)
    assert fast.matrices()["vectors"] == pytest.approx(slow.matrices()["vectors"], abs=1e-4)


def test_rounds_have_the_length_they_should():
    problem = zipf_problem(tokens=60_000, documents=50)
    assert problem.span * problem.vocabulary.kept_fraction == pytest.approx(ROUND_CENTRES, rel=0.01)
    assert problem.epoch_rounds == math.ceil(problem.epoch_tokens / problem.span)


# --- both engines train


@ENGINES
def test_the_loss_before_the_first_step(make_engine):
    """ln 2 for each pair, and for the negatives their mean weight: K, less what collides."""
    problem = zipf_problem(model={"dim": 10, "negatives": 5}, types=2000, tokens=20_000)
    engine = make_engine(problem, initial_matrices(problem))
    loss, pairs = engine.evaluate()
    assert pairs > 100
    few_collide = 6 * math.log(2)
    assert 0.8 * few_collide < loss / pairs < few_collide


@ENGINES
def test_planted_clusters_come_back_as_neighbours(make_engine):
    ids, offsets, counts = clustered_corpus()
    problem = make_problem(ids, offsets, counts, ModelConfig(dim=16, subsample_threshold=0.0), TrainConfig(epochs=5))
    engine = make_engine(problem, initial_matrices(problem))
    first = engine.evaluate()[0]
    for epoch in range(problem.train.epochs):
        engine.train(epoch, 0, problem.epoch_tokens)
    assert engine.evaluate()[0] < 0.8 * first
    vectors = np.zeros((len(counts), 16), np.float32)
    vectors[problem.vocabulary.ids] = engine.matrices()["vectors"]
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    similar = unit @ unit.T
    np.fill_diagonal(similar, -1)
    nearest = np.argsort(-similar, axis=1)[:, :7]
    assert (nearest // 8 == np.arange(len(counts))[:, None] // 8).all()


@ENGINES
def test_learned_positions_learn_where_a_token_stands(make_engine):
    """Types 0 and 1 differ only in what follows at even and odd places: positions must carry the difference."""
    rng = np.random.default_rng(0)
    documents = np.stack([np.zeros(4000, int), rng.integers(1, 4, 4000), np.zeros(4000, int)], axis=1)
    documents[:, 2] = 4
    ids = documents.astype(np.uint16).reshape(-1)
    offsets = np.arange(0, len(ids) + 1, 3, dtype=np.int64)
    model = ModelConfig(dim=8, window=1, subsample_threshold=0.0, positions="learned", context_length=4)
    problem = make_problem(ids, offsets, np.bincount(ids), model, TrainConfig(epochs=3))
    start = initial_matrices(problem)["positions"].copy()
    engine = make_engine(problem, initial_matrices(problem))
    for epoch in range(3):
        engine.train(epoch, 0, problem.epoch_tokens)
    moved = np.abs(engine.matrices()["positions"] - start).max(axis=1)
    assert (moved[:3] > 0.1).all()
    assert moved[3] == 0  # no document is that long


def test_start_values_are_uniform_and_follow_the_seed():
    problem = zipf_problem(model={"dim": 20, "positions": "learned"})
    matrices = initial_matrices(problem)
    assert not matrices["contexts"].any()
    for name in ("vectors", "positions"):
        matrix = matrices[name][:, :20]
        assert np.abs(matrix).max() <= 2 / 20
        assert matrix.std() == pytest.approx(4 / 20 / math.sqrt(12), rel=0.05)
    again = initial_matrices(problem)
    other = initial_matrices(zipf_problem(model={"dim": 20, "positions": "learned"}, train={"seed": 2}))
    assert (again["vectors"] == matrices["vectors"]).all()
    assert (other["vectors"] != matrices["vectors"]).any()


@pytest.mark.parametrize(
    ("lengths", "start"),
    [
        ([10] * 300, 2970),  # the last 3 of 300 documents
        ([1000], 990),  # one document: the last 1 % of its tokens
        ([20] * 50, 990),  # fewer than 100 documents: likewise
        ([5], 5),  # too little to hold anything out
        ([10] * 99 + [500_000], 400_990),  # never more than 100,000 tokens
    ],
)
def test_what_is_held_out(lengths, start):
    assert held_out_start(np.concatenate([[0], np.cumsum(lengths)])) == start
