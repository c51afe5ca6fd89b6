"""Which tokens a map shows, and their vectors: queries, the nearest to each, the most frequent as a backdrop.

Knows nothing of places (layout.py) or of how they are drawn (map_picture.py, map_page.py).
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sgns_cli.corpus import token_text
from sgns_cli.errors import SgnsError
from sgns_cli.vectors.choices import Kind
from sgns_cli.vectors.model import Model
from sgns_cli.vectors.neighbors import Space, make_space, mean_row, nearest
from sgns_cli.vectors.query import Query, name_token, query_vectors

Role = Literal["query", "neighbour", "token"]
Near = tuple[int, float]  # the number of a query, and the cosine with it
LONGEST = 40  # characters of a label that is drawn


@dataclass(frozen=True)
class Point:
    """A token, or the mean of those that a query is; `near` are the queries whose neighbour it is, nearest first."""

    label: str
    ids: tuple[int, ...]
    count: int | None  # in the corpus; None for a mean, and where the file has no counts
    rank: int | None  # by frequency among the trained tokens, from 1; None for a mean
    query: int | None = None  # its number, of a query
    near: tuple[Near, ...] = ()

    @property
    def short(self) -> str:
        """The label as it is drawn: cut where it is long."""
        return self.label if len(self.label) <= LONGEST else self.label[: LONGEST - 1] + "…"

    @property
    def role(self) -> Role:
        return "query" if self.query is not None else "neighbour" if self.near else "token"

    @property
    def owner(self) -> int | None:
        """The query in whose colour it is drawn: itself, or the one that it is nearest to."""
        return self.query if self.query is not None else self.near[0][0] if self.near else None


@dataclass(frozen=True)
class Scale:
    """What colours mean: counts, or ranks where a file has no counts; from `low` to `high`, by their logarithm."""

    counted: bool
    low: int
    high: int

    @property
    def title(self) -> str:
        return "times in the corpus" if self.counted else "rank in the file"

    @property
    def ends(self) -> tuple[int, int]:
        """The value of the rarest point, and that of the most frequent one."""
        return (self.low, self.high) if self.counted else (self.high, self.low)

    def shade(self, point: Point) -> float | None:
        """How frequent a point is: from 0, the rarest on the map, to 1; None where that is not known."""
        value = point.count if self.counted else point.rank
        if value is None:
            return None
        if self.low == self.high:
            return 0.5
        part = math.log(max(value, 1) / self.low) / math.log(self.high / self.low)
        return part if self.counted else 1 - part


def choose_points(
    model: Model, queries: Sequence[Query], *, k: int, top: int, kind: Kind = "input", centre: bool = False
) -> tuple[list[Point], NDArray[np.float32]]:
    """The points of a map, each once, the most important first, and their vectors [points, dim], centred if asked.

    Queries, then the `k` nearest to each, then the `top` most frequent trained tokens. Raises SgnsError if that is
    nothing, or not all numbers are finite.
    """
    unique = list({query.ids: query for query in queries}.values())
    asked = query_vectors(model, unique, kind) if unique else np.zeros((0, model.dim), np.float32)
    near: dict[int, list[Near]] = {}
    if unique and k:
        near = _neighbours(make_space(model, kind, centre=centre), unique, asked, k=k)
    points = _make_points(model, unique, near, model.by_frequency[:top].tolist())
    if not points:
        raise SgnsError(f"no token of {model.path} was trained", "choose another model")
    single = model.rows(np.array([point.ids[0] for point in points[len(unique) :]], dtype=np.int64), kind)
    vectors = np.concatenate([asked, single])
    mean = mean_row(model, kind, centre=centre)
    if not (np.isfinite(vectors).all() and np.isfinite(mean).all()):
        raise SgnsError(f"{model.path} has numbers that are not finite", "use other vectors")
    return points, vectors - mean


def _neighbours(
    space: Space, queries: Sequence[Query], vectors: NDArray[np.float32], *, k: int
) -> dict[int, list[Near]]:
    """The `k` nearest of each query by its vector [queries, dim]: by id, whose neighbour it is, the nearest first."""
    near: dict[int, list[Near]] = {}
    for query, answers in enumerate(nearest(space, vectors, [query.ids for query in queries], k=k)):
        for id, score in zip(answers.ids.tolist(), answers.scores.tolist(), strict=True):
            near.setdefault(id, []).append((query, score))
    return {id: sorted(pairs, key=lambda pair: -pair[1]) for id, pairs in near.items()}


def _make_points(
    model: Model, queries: Sequence[Query], near: Mapping[int, Sequence[Near]], frequent: Iterable[int]
) -> list[Point]:
    """A point for each query, whose ids differ, then for each neighbour and each frequent token that is none yet."""
    ranks = np.zeros(model.n_vocab, dtype=np.int64)
    ranks[model.by_frequency] = np.arange(1, len(model.by_frequency) + 1)
    numbers = {query.ids: number for number, query in enumerate(queries)}
    points = []
    for ids in dict.fromkeys([*numbers, *((id,) for id in (*near, *frequent))]):
        number = numbers.get(ids)
        if len(ids) > 1:  # as only queries have
            points.append(Point(_label(queries[numbers[ids]].text), ids, None, None, number))
        else:
            id = ids[0]
            of = tuple(near.get(id, ()))
            points.append(Point(name_token(model, id), ids, model.count(id), int(ranks[id]), number, of))
    return points


def make_scale(model: Model, points: Sequence[Point]) -> Scale:
    """The range of what the colours of `points` show."""
    counted = model.counts is not None
    values = [point.count if counted else point.rank for point in points]
    known = [max(value, 1) for value in values if value is not None] or [1]
    return Scale(counted, min(known), max(known))


def _label(text: str) -> str:
    """A query as it can be shown; of several words, so its spaces stay."""
    return token_text.show(token_text.parse(text)).replace("␣", " ")
