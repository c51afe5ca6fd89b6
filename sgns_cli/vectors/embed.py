"""Texts as input embeddings: token vector plus position vector, as a language model reads them.

ids       [N]          row i of the embeddings for each positions [N]          0, 1, 2, ... in each text and
in each sequence; row p of the positional matrix is added vectors   [N, dim]     the sum

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
NAMED = 5  # untrained tokens that a note names


@dataclass(frozen=True)
class Embedder:
    """How ids become vectors: from which matrix, and whether positions are added."""

    model: Model
    kind: Kind = "input"
    positions: bool = True

    def tokenize(self, text: str) -> Ids:
        """[N]: the ids of a text."""
        return self.model.encode(text).astype(np.int64)

    def embed(self, ids: Ids) -> Vectors:
        """[N, dim]: the input embeddings of one text or sequence, whose positions start at 0."""
        vectors = np.array(self.model.rows(ids, self.kind))
        if self.positions and self.model.positions != "none":
            vectors += position_vectors(self.model, np.arange(len(ids)))
        return vectors

    def pool(self, ids: Ids) -> Vectors:
        """[dim]: the mean over the tokens of a text; zero for a text without tokens."""
        if len(ids) == 0:
            return np.zeros(self.model.dim, dtype=np.float32)
        return np.asarray(self.embed(ids).mean(axis=0, dtype=np.float64), dtype=np.float32)


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


def cut_sequences(ids: Ids, *, length: int, stride: int) -> list[Ids]:
    """The sequences of `length` tokens that start every `stride` tokens; the last one may be shorter.

    It ends with the first sequence that reaches the end of the text:

    >>> [part.tolist() for part in cut_sequences(np.arange(5), length=3, stride=2)]
    [[0, 1, 2], [2, 3, 4]]
    """
    starts = range(0, len(ids), stride)
    return [ids[start : start + length] for start in starts if start == 0 or start - stride + length < len(ids)]


@dataclass
class Tally:
    """What is worth a note after any number of texts: tokens never trained, positions past the end."""

    embedder: Embedder
    tokens: int = 0
    empty: int = 0
    longest: int = 0
    untrained: Counter[int] = field(default_factory=Counter)

    def add(self, ids: Ids) -> None:
        """Count one text or sequence."""
        self.tokens += len(ids)
        self.empty += len(ids) == 0
        self.longest = max(self.longest, len(ids))
        self.untrained.update(ids[~self.embedder.model.trained[ids]].tolist())

    def notes(self) -> Iterator[str]:
        model = self.embedder.model
        if self.empty:
            yield f"{self.empty} {'text has' if self.empty == 1 else 'texts have'} no tokens"
        if missing := self.untrained.total():
            names = [name_token(model, id) for id, _ in self.untrained.most_common(NAMED)]
            more = ", ..." if len(self.untrained) > NAMED else ""
            yield (
                f"{missing} of {self.tokens} tokens were never trained and have zero vectors: {', '.join(names)}{more}"
            )
        adds_positions = self.embedder.positions and model.positions != "none"
        if adds_positions and self.longest > model.context_length:
            yield (
                f"{self.longest} tokens are more than the context length {model.context_length}: "
                "positions past it begin again at 0"
            )
