"""Texts as input embeddings: token vector plus position vector, as a language model reads them.

    ids        [N]        row i of the embeddings for each
    positions  [N]        0, 1, 2, ... in each text and in each sequence; row p of the positional matrix is added
    vectors    [N, dim]   the sum

A token has the same token vector wherever it stands, and another input embedding at every position. Writing
arrays to files is arrays.py's business.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sgns_cli.vectors.model import Kind, Model
from sgns_cli.vectors.query import name_token

Ids = NDArray[np.int64]
Vectors = NDArray[np.float32]
NAMED = 5  # tokens that a note names


@dataclass(frozen=True)
class Tokens:
    """A text, or a sequence of one. `unknown` are its whitespace words that have no id: they keep their places."""

    ids: Ids  # [N]
    positions: Ids  # [N], rising
    unknown: tuple[str, ...] = ()

    @property
    def length(self) -> int:
        """Places in the text, those of unknown words among them."""
        return len(self.ids) + len(self.unknown)


@dataclass(frozen=True)
class Embedder:
    """How ids become vectors: from which matrix, and whether positions are added."""

    model: Model
    kind: Kind = "input"
    positions: bool = True

    def tokenize(self, text: str) -> Tokens:
        """The ids of a text and their places in it."""
        ids = self.model.encode(text).astype(np.int64)
        unknown = self.model.unknown(text)
        known = np.ones(len(ids) + len(unknown), dtype=np.bool_)
        known[list(unknown)] = False
        return Tokens(ids, np.flatnonzero(known), tuple(unknown.values()))

    def embed(self, tokens: Tokens) -> Vectors:
        """[N, dim]: the input embeddings of one text or sequence."""
        vectors = np.array(self.model.rows(tokens.ids, self.kind))
        if self.positions and self.model.positions != "none":
            vectors += position_vectors(self.model, tokens.positions)
        return vectors

    def pool(self, tokens: Tokens) -> Vectors:
        """[dim]: the mean over the tokens of a text; zero for a text without tokens."""
        if len(tokens.ids) == 0:
            return np.zeros(self.model.dim, dtype=np.float32)
        return np.asarray(self.embed(tokens).mean(axis=0, dtype=np.float64), dtype=np.float32)


def position_vectors(model: Model, positions: Ids) -> Vectors:
    """[N, dim]: the rows of the positional matrix for positions [N]; past its end they begin again at 0."""
    positions = positions % model.context_length
    if model.position_rows is not None:
        return np.asarray(model.position_rows[positions])
    if model.positions == "sinusoidal":
        return sinusoids(positions, dim=model.dim)
    return np.zeros((len(positions), model.dim), dtype=np.float32)


def sinusoids(positions: Ids, *, dim: int) -> Vectors:
    """[N, dim]: sin(p / 10000^(2i/dim)) in column 2i, the cosine of the same in column 2i + 1.

    Vaswani et al., Attention Is All You Need, section 3.5. An odd dim ends with a sine.
    """
    even = np.arange(0, dim, 2)
    angles = positions[:, None] / 10000.0 ** (even / dim)
    table = np.empty((len(positions), dim), dtype=np.float32)
    table[:, 0::2] = np.sin(angles)
    table[:, 1::2] = np.cos(angles[:, : dim // 2])
    return table


def cut_sequences(tokens: Tokens, *, length: int, stride: int) -> list[Tokens]:
    """The sequences of `length` places that start every `stride` places; the last one may be shorter.

    It ends with the first sequence that reaches the end of the text:

    >>> text = Tokens(np.arange(5), np.arange(5))
    >>> [part.ids.tolist() for part in cut_sequences(text, length=3, stride=2)]
    [[0, 1, 2], [2, 3, 4]]
    """
    starts = np.arange(0, tokens.length, stride)
    starts = starts[(starts == 0) | (starts - stride + length < tokens.length)]
    borders = np.searchsorted(tokens.positions, [starts, starts + length]).T
    return [
        Tokens(tokens.ids[begin:end], tokens.positions[begin:end] - start)
        for start, (begin, end) in zip(starts.tolist(), borders.tolist(), strict=True)
    ]


@dataclass
class Tally:
    """What is worth a note after any number of texts: those without tokens, words and tokens that have no
    vector, positions past the end.
    """

    embedder: Embedder
    texts: int = 0
    tokens: int = 0
    longest: int = 0
    empty: list[int] = field(default_factory=list)
    untrained: Counter[int] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)

    def add(self, text: Tokens, *, sequence: int | None = None) -> None:
        """Count the next text, which may be cut into sequences of so many places."""
        if len(text.ids) == 0:
            self.empty.append(self.texts)
        self.texts += 1
        self.tokens += len(text.ids)
        self.longest = max(self.longest, text.length if sequence is None else min(sequence, text.length))
        self.untrained.update(text.ids[~self.embedder.model.trained[text.ids]].tolist())
        self.unknown.update(text.unknown)

    def notes(self) -> Iterator[str]:
        model = self.embedder.model
        if self.empty:
            has = "1 text has" if len(self.empty) == 1 else f"{len(self.empty)} texts have"
            yield f"{has} no tokens: {_some([f'text {number}' for number in self.empty])}"
        if missing := self.unknown.total():
            names = [word for word, _ in self.unknown.most_common(NAMED + 1)]
            words = self.tokens + missing
            yield f"{missing} of {words} words are not in the vocabulary and are left out: {_some(names)}"
        if missing := self.untrained.total():
            names = [name_token(model, id) for id, _ in self.untrained.most_common(NAMED + 1)]
            yield f"{missing} of {self.tokens} tokens were never trained and have zero vectors: {_some(names)}"
        adds_positions = self.embedder.positions and model.positions != "none"
        if adds_positions and self.longest > model.context_length:
            yield (
                f"{self.longest} tokens are more than the context length {model.context_length}: "
                "positions past it begin again at 0"
            )


def _some(names: list[str]) -> str:
    return ", ".join([*names[:NAMED], *(["..."] if len(names) > NAMED else [])])
