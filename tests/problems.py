"""Small corpora and problems for the tests of training."""

import numpy as np
from numpy.typing import NDArray

from sgns_cli.config import ModelConfig, TrainConfig
from sgns_cli.training.draws import PART
from sgns_cli.training.engine import Matrices, initial_matrices
from sgns_cli.training.problem import Problem, make_problem


def zipf_corpus(
    *, types: int = 300, tokens: int = 6000, documents: int = 200, seed: int = 0, wide: bool = False
) -> tuple[NDArray[np.generic], NDArray[np.int64], NDArray[np.int64]]:
    """Ids drawn by Zipf's law, cut into documents at random (one-token ones among them): ids, offsets, counts."""
    rng = np.random.default_rng(seed)
    chances = 1 / np.arange(1, types + 1)
    ids = rng.choice(types, size=tokens, p=chances / chances.sum())
    cuts = rng.integers(1, tokens, documents)
    offsets = np.unique(np.concatenate([[0], cuts, cuts[: documents // 4] - 1, [tokens]])).astype(np.int64)
    return ids.astype(np.uint32 if wide else np.uint16), offsets, np.bincount(ids, minlength=types)


def zipf_problem(*, model: dict | None = None, train: dict | None = None, **corpus) -> Problem:
    ids, offsets, counts = zipf_corpus(**corpus)
    model = {"dim": 20, "min_count": 2, "subsample_threshold": 1e-2, **(model or {})}
    train = {"epochs": 2, **(train or {})}
    return make_problem(ids, offsets, counts, ModelConfig(**model), TrainConfig(**train))


def uneven_problem() -> Problem:
    """A corpus that begins with its rare tokens: its first round keeps three times what may be trained at once."""
    rare = np.repeat(np.arange(1, 601, dtype=np.uint16), 10)
    ids = np.concatenate([rare, np.zeros(200_000, np.uint16)])
    offsets = np.array([0, len(ids)], np.int64)
    model = ModelConfig(dim=8, min_count=1, subsample_threshold=1e-5)
    problem = make_problem(ids, offsets, np.bincount(ids), model, TrainConfig(epochs=1))
    assert problem.span > len(rare) > 2 * PART
    return problem


def clustered_corpus(
    *, clusters: int = 6, size: int = 8, documents: int = 3000, length: int = 12, seed: int = 3
) -> tuple[NDArray[np.uint16], NDArray[np.int64], NDArray[np.int64]]:
    """Documents whose tokens all come from one cluster: token t belongs to cluster t // size."""
    rng = np.random.default_rng(seed)
    which = rng.integers(0, clusters, documents)
    ids = (which[:, None] * size + rng.integers(0, size, (documents, length))).astype(np.uint16).reshape(-1)
    offsets = np.arange(0, documents * length + 1, length, dtype=np.int64)
    return ids, offsets, np.bincount(ids, minlength=clusters * size)


def random_matrices(problem: Problem, scale: float = 0.3, seed: int = 0) -> Matrices:
    """Matrices as in the middle of training: the contexts are not zero."""
    rng = np.random.default_rng(seed)
    matrices = initial_matrices(problem)
    for matrix in matrices.values():
        matrix[:, : problem.model.dim] = rng.normal(scale=scale, size=(len(matrix), problem.model.dim))
    return matrices
