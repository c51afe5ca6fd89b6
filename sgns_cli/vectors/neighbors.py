"""The nearest rows by cosine, for many queries at once.

A Space is the rows that may be answers, with their norms computed once. Scores come from matrix products in
float32; the few rows that can be among the answers are then scored again in float64, so that the order, ties
included, does not depend on how many queries were asked together.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sgns_cli.errors import SgnsError
from sgns_cli.vectors.choices import Kind
from sgns_cli.vectors.model import ROWS_AT_ONCE, Model

SCORES_BYTES = 64 * 2**20  # of one batch of scores
SLACK = 2e-6  # by how much a float32 cosine may be off


@dataclass(frozen=True)
class Space:
    """R rows that may be answers. `ids` rise; `mean` is what was subtracted from the rows."""

    ids: NDArray[np.int64]  # [R]
    rows: NDArray[np.float32]  # [R, dim]
    norms: NDArray[np.float32]  # [R]
    mean: NDArray[np.float32]  # [dim]


@dataclass(frozen=True)
class Answers:
    """Of one query, best first; equal scores by rising id."""

    ids: NDArray[np.int64]
    scores: NDArray[np.float64]


def make_space(
    model: Model, kind: Kind = "input", *, ids: NDArray[np.int64] | None = None, centre: bool = False
) -> Space:
    """The rows of `ids`, which rise, or all trained rows of `model`, without a copy where they lie together.

    `centre` subtracts the mean of all trained rows. Raises SgnsError if numbers are not finite.
    """
    ids = np.flatnonzero(model.trained) if ids is None else ids
    together = len(ids) > 0 and ids[-1] - ids[0] + 1 == len(ids)
    rows = np.asarray(model.rows(slice(int(ids[0]), int(ids[-1]) + 1) if together else ids, kind))
    mean = mean_row(model, kind, centre=centre)
    if centre:
        rows = rows - mean
    norms = lengths(rows)
    if not np.isfinite(norms).all():
        id = int(ids[~np.isfinite(norms)][0])
        raise SgnsError(f"{model.path}: row {id} has numbers that are not finite, or too large", "use other vectors")
    return Space(ids=ids, rows=rows, norms=norms, mean=mean)


def mean_row(model: Model, kind: Kind, *, centre: bool) -> NDArray[np.float32]:
    """[dim]: what is subtracted from vectors before they are compared: the mean trained row, or nothing."""
    total = np.zeros(model.dim)
    ids = np.flatnonzero(model.trained) if centre else np.zeros(0, np.int64)
    for start in range(0, len(ids), ROWS_AT_ONCE):
        total += model.rows(ids[start : start + ROWS_AT_ONCE], kind).sum(axis=0, dtype=np.float64)
    return np.asarray(total / max(len(ids), 1), dtype=np.float32)


def lengths(rows: NDArray[Any]) -> NDArray[Any]:
    """[R]: the length of each row [R, dim]; also of tiny ones, whose squares float32 does not have."""
    squares = np.einsum("rd,rd->r", rows, rows)
    tiny = np.flatnonzero(squares < np.finfo(np.float32).tiny)
    found = np.sqrt(squares)
    if len(tiny):
        wide = rows[tiny].astype(np.float64)
        found[tiny] = np.sqrt(np.einsum("rd,rd->r", wide, wide))
    return np.asarray(found)


def nearest(space: Space, vectors: NDArray[np.float32], exclude: Sequence[Sequence[int]], *, k: int) -> list[Answers]:
    """For each of `vectors` [Q, dim] the k rows of the highest cosine, without its ids in `exclude`.

    There are fewer than k where fewer rows are left. A zero vector has cosine 0 with everything.
    """
    return nearest_to_directions(space, vectors - space.mean, exclude, k=k)


def nearest_to_directions(
    space: Space, directions: NDArray[np.float32], exclude: Sequence[Sequence[int]], *, k: int
) -> list[Answers]:
    """As `nearest`, for `directions` [Q, dim] that need no mean subtracted."""
    norms = np.maximum(space.norms, np.finfo(np.float32).tiny)  # what is shorter is found too, and looked at exactly
    scale = 1 / np.where(space.norms > 0, norms, np.inf)
    batch = max(1, SCORES_BYTES // max(1, 4 * len(space.ids)))
    answers: list[Answers] = []
    for start in range(0, len(directions), batch):
        part = units(directions[start : start + batch])
        scores = part @ space.rows.T  # [batch, R]
        scores *= scale
        for offset, query in enumerate(part):
            answers.append(_best(space, query, scores[offset], exclude[start + offset], k))
    return answers


def _best(
    space: Space, query: NDArray[np.float32], scores: NDArray[np.float32], exclude: Sequence[int], k: int
) -> Answers:
    places = np.searchsorted(space.ids, list(exclude))
    places = places[places < len(space.ids)]
    places = places[np.isin(space.ids[places], list(exclude))]
    scores[places] = -np.inf
    k = min(k, len(scores) - len(np.unique(places)))
    if k <= 0:
        return Answers(np.zeros(0, np.int64), np.zeros(0))
    least = np.partition(scores, len(scores) - k)[len(scores) - k]
    near = np.flatnonzero(scores >= least - SLACK)
    exact = cosines(space.rows[near], query)
    order = np.lexsort((space.ids[near], -exact))[:k]
    return Answers(space.ids[near][order], exact[order])


def units(vectors: NDArray[Any]) -> NDArray[Any]:
    """[Q, dim] -> [Q, dim]: each row at length one; a zero row stays."""
    found = lengths(vectors)
    return np.asarray(vectors / np.where(found > 0, found, np.inf)[:, None])


def cosines(rows: NDArray[np.float32], vectors: NDArray[np.float32]) -> NDArray[np.float64]:
    """[R]: the cosine of each row [R, dim] with a vector [dim], or with the same row of others [R, dim], each by itself
    in float64; 0 for zero vectors.
    """
    wide, others = rows.astype(np.float64), vectors.astype(np.float64)
    norms = np.sqrt((wide * wide).sum(axis=1) * (others * others).sum(axis=-1))
    products = (wide * others).sum(axis=1)
    return np.asarray(np.divide(products, norms, out=np.zeros(len(rows)), where=norms > 0))
