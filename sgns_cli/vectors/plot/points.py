"""Which tokens a map shows, and their vectors: queries, the nearest to each, the most frequent as a backdrop.

Knows nothing of places (layout.py) or of how they are drawn (picture.py, page.py).
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sgns_cli.corpus import token_text
from sgns_cli.errors import SgnsError
from sgns_cli.vectors.model import Kind, Model
from sgns_cli.vectors.neighbors import make_space, nearest
from sgns_cli.vectors.query import Query, name_token, query_vectors

Role = Literal["query", "neighbour", "token"]
Near = tuple[int, float]  # the number of a query, and the cosine with it


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
    mean = np.zeros(model.dim, np.float32)
    near: dict[tuple[int, ...], list[Near]] = {}
    if (unique and k) or centre:
        space = make_space(model, kind, centre=centre)
        mean = space.mean
        for query, answers in enumerate(nearest(space, asked, [query.ids for query in unique], k=k)):
            for id, score in zip(answers.ids.tolist(), answers.scores.tolist(), strict=True):
                near.setdefault((id,), []).append((query, score))
    numbers = {query.ids: number for number, query in enumerate(unique)}
    shown: Iterable[tuple[int, ...]] = [*numbers, *near, *((id,) for id in model.by_frequency[:top].tolist())]
    ranks = np.zeros(model.n_vocab, dtype=np.int64)
    ranks[model.by_frequency] = np.arange(1, len(model.by_frequency) + 1)
    points = []
    for ids in dict.fromkeys(shown):
        number = numbers.get(ids)
        one = ids[0] if len(ids) == 1 else None
        points.append(
            Point(
                label=_label(unique[number].text) if one is None and number is not None else name_token(model, ids[0]),
                ids=ids,
                count=None if one is None else model.count(one),
                rank=None if one is None else int(ranks[one]),
                query=number,
                near=tuple(sorted(near.get(ids, []), key=lambda pair: -pair[1])),
            )
        )
    if not points:
        raise SgnsError(f"no token of {model.path} was trained", "choose another model")
    single = model.rows(np.array([point.ids[0] for point in points[len(unique) :]], dtype=np.int64), kind)
    vectors = np.concatenate([asked, single]) - mean
    if not np.isfinite(vectors).all():
        raise SgnsError(f"{model.path} has numbers that are not finite", "use other vectors")
    return points, vectors


def make_scale(model: Model, points: Sequence[Point]) -> Scale:
    """The range of what the colours of `points` show."""
    counted = model.counts is not None
    values = [point.count if counted else point.rank for point in points]
    known = [max(value, 1) for value in values if value is not None] or [1]
    return Scale(counted, min(known), max(known))


def _label(text: str) -> str:
    """A query as it can be shown; of several words, so its spaces stay."""
    return token_text.show(token_text.parse(text)).replace("␣", " ")
