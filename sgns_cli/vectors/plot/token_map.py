"""A map of tokens: points, their places, and the words around them, however it is drawn."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sgns_cli.vectors.choices import Kind, Method
from sgns_cli.vectors.model import Model
from sgns_cli.vectors.plot.layout import Layout, lay_out
from sgns_cli.vectors.plot.points import Point, Scale, choose_points, make_scale
from sgns_cli.vectors.query import Query
from sgns_cli.vectors.records import Record, token_fields

NAMES = {"pca": "PCA", "tsne": "t-SNE"}
TITLED = 5  # queries that a title names
DECIMALS = 6  # of a place in records


@dataclass(frozen=True)
class TokenMap:
    """What is drawn; the first of `points` are the queries."""

    title: str
    source: str  # which vectors
    method: Method
    points: list[Point]
    layout: Layout
    scale: Scale

    @property
    def axes(self) -> tuple[str, str]:
        """The names of the axes; "" where they mean nothing."""
        if self.layout.shares is None:
            return "", ""
        first, second = (percent(share) for share in self.layout.shares)
        named = "principal component, {} of the variance"
        return f"first {named.format(first)}", f"second {named.format(second)}"

    @property
    def method_name(self) -> str:
        """PCA (23 % of the variance), or t-SNE."""
        shares = self.layout.shares
        return NAMES[self.method] + ("" if shares is None else f" ({percent(sum(shares))} of the variance)")

    @property
    def summary(self) -> str:
        """How many points, and how they were laid out."""
        number = len(self.points)
        return f"{number:,} token{'' if number == 1 else 's'}, {self.method_name}"

    @property
    def subtitle(self) -> str:
        return f"{self.source} · {self.summary}"


def make_map(
    model: Model,
    queries: Sequence[Query],
    *,
    k: int,
    top: int,
    method: Method = "pca",
    kind: Kind = "input",
    centre: bool = False,
) -> TokenMap:
    """A map of `queries`, the `k` tokens nearest to each by cosine, and the `top` most frequent tokens.

    Raises SgnsError if there is nothing to show, or too little for t-SNE.
    """
    points, vectors = choose_points(model, queries, k=k, top=top, kind=kind, centre=centre)
    names = [point.label for point in points if point.query is not None]
    return TokenMap(
        title=_title(names, k, _backdrop(model, min(top, len(model.by_frequency)))),
        source=f"{model.path} · {kind} vectors{', centred' if centre else ''}",
        method=method,
        points=points,
        layout=lay_out(vectors, method),
        scale=make_scale(model, points),
    )


def map_records(model: Model, shown: TokenMap) -> Iterator[Record]:
    """One record a point; a mean of several tokens has no id and no bytes."""
    for point, (x, y) in zip(shown.points, shown.layout.places.tolist(), strict=True):
        mean = {"token": point.label, "id": None, "bytes": ""}
        fields = token_fields(model, point.ids[0]) if len(point.ids) == 1 else mean
        yield {**fields, "count": point.count, "x": round(x, DECIMALS), "y": round(y, DECIMALS)}


def percent(share: float) -> str:
    """A share in words: 23 %, 4.5 %."""
    return f"{100 * share:.0f} %" if share >= 0.095 or share == 0 else f"{100 * share:.1f} %"


def _backdrop(model: Model, top: int) -> str:
    if top < 2:
        return ("", "the first token" if model.counts is None else "the most frequent token")[top]
    return f"the first {top:,} tokens" if model.counts is None else f"the {top:,} most frequent tokens"


def _title(queries: list[str], k: int, backdrop: str) -> str:
    left = len(queries) - TITLED
    parts = [*queries[:TITLED], *([f"{left} more"] if left > 0 else [])]
    if queries and k:
        parts.append("its nearest tokens" if len(queries) == 1 else "their nearest tokens")
    if backdrop:
        parts.append(backdrop if queries else backdrop[0].upper() + backdrop[1:])
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
