"""A model as an object: what `sgns_cli.load` returns. The same answers as the query commands give."""

import operator
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args, overload

import numpy as np
from numpy.typing import NDArray

from sgns_cli.errors import SgnsError
from sgns_cli.vectors.analogy import analogies, similarities
from sgns_cli.vectors.choices import Kind
from sgns_cli.vectors.embed import Embedder
from sgns_cli.vectors.model import Model
from sgns_cli.vectors.neighbors import Answers, Space, make_space, mean_row, nearest
from sgns_cli.vectors.query import Query, name_token, query_vectors, resolve_id, resolve_query

Vectors = NDArray[np.float32]


@dataclass(frozen=True)
class Neighbor:
    """An answer: a token as it is shown, its id and bytes, how often it was trained, and the cosine."""

    token: str
    id: int
    bytes: bytes
    count: int | None
    score: float


class Embeddings:
    """Vectors of tokens, memory-mapped; row i is token id i.

    A text asks for what `sgns neighbors` would take it for: the token, its variant with a space that was trained most
    often, or the mean of its tokens; an int is a token id. SgnsError is raised where nothing of it was trained.
    """

    def __init__(self, model: Model, *, vectors: Kind = "input", centre: bool = False) -> None:
        if vectors not in get_args(Kind):
            raise ValueError(f"vectors is {vectors!r} and should be one of {', '.join(get_args(Kind))}")
        self.model = model
        self._kind = vectors
        self._centre = centre

    def __repr__(self) -> str:
        return f"<{len(self)} x {self.dim} embeddings of {self.model.path}>"

    def __len__(self) -> int:
        return self.model.n_vocab

    @property
    def dim(self) -> int:
        return self.model.dim

    @property
    def vectors(self) -> Vectors:
        """[n_vocab, dim]: row i is token id i; zero where it was not trained."""
        return self.model.rows(slice(None), self._kind)

    def encode(self, text: str) -> NDArray[np.int64]:
        """[N]: the ids of a text."""
        return self.model.encode(text).astype(np.int64)

    def query(self, text: str | int) -> Query:
        """Which trained ids a text or an id means, with notes that say why."""
        if isinstance(text, str):
            return resolve_query(self.model, text)
        return resolve_id(self.model, operator.index(text))

    def __contains__(self, text: str | int) -> bool:
        """Whether anything of a text or an id was trained."""
        try:
            return bool(self.query(text).ids)
        except SgnsError:
            return False

    def __iter__(self) -> Iterator[Vectors]:
        """The rows, in the order of ids."""
        return iter(self.vectors)

    def __getitem__(self, text: str | int) -> Vectors:
        """[dim]: the vector of a text or an id."""
        vector: Vectors = self._rows(self.query(text))[0]
        return vector

    def neighbors(self, text: str | int, *, k: int = 10) -> list[Neighbor]:
        """The k trained tokens nearest to a text or an id by cosine, best first."""
        query = self.query(text)
        return self._answers(nearest(self._space, self._rows(query), [query.ids], k=k)[0])

    def analogy(self, a: str | int, b: str | int, c: str | int, *, k: int = 10) -> list[Neighbor]:
        """The k trained tokens nearest to b - a + c: a is to b as c is to what?"""
        question = [self.query(text) for text in (a, b, c)]
        return self._answers(analogies(self.model, self._space, [question], self._kind, k=k)[0])

    def similarity(self, a: str | int, b: str | int) -> float:
        """The cosine of two texts."""
        return float(similarities(self.model, [[self.query(a), self.query(b)]], self._kind, self._mean)[0])

    @overload
    def embed(self, texts: str, *, pool: Literal["none", "mean"] = ..., positions: bool | None = ...) -> Vectors: ...
    @overload
    def embed(self, texts: list[str], *, pool: Literal["mean"], positions: bool | None = ...) -> Vectors: ...
    @overload
    def embed(
        self, texts: list[str], *, pool: Literal["none"] = ..., positions: bool | None = ...
    ) -> list[Vectors]: ...
    def embed(
        self, texts: str | list[str], *, pool: Literal["none", "mean"] = "none", positions: bool | None = None
    ) -> Vectors | list[Vectors]:
        """Input embeddings: for each token its vector plus that of its position, where the model has positions and
        its input vectors are asked.

        A text gives [N, dim], several a list of those; with `pool` "mean" it is [dim], and [texts, dim].
        """
        embedder = Embedder(self.model, self._kind, positions)
        tokens = embedder.tokenize_batch([texts] if isinstance(texts, str) else texts)
        each = embedder.pool_batch(tokens) if pool == "mean" else [embedder.embed(text) for text in tokens]
        return each[0] if isinstance(texts, str) else each

    @cached_property
    def _space(self) -> Space:
        return make_space(self.model, self._kind, centre=self._centre)

    @cached_property
    def _mean(self) -> Vectors:
        return mean_row(self.model, self._kind, centre=self._centre)

    def _rows(self, query: Query) -> Vectors:
        return query_vectors(self.model, [query], self._kind)

    def _answers(self, answers: Answers) -> list[Neighbor]:
        model = self.model
        return [
            Neighbor(name_token(model, id), id, model.tokenizer.token_bytes(id) or b"", model.count(id), score)
            for id, score in zip(answers.ids.tolist(), answers.scores.tolist(), strict=True)
        ]
