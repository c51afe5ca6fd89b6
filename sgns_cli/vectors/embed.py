"""Texts as input embeddings: token vector plus position vector, as a language model reads them.

    ids        [N]        row i of the embeddings for each
    positions  [N]        0, 1, 2, ... in each text and in each sequence; row p of the positional matrix is added
    vectors    [N, dim]   the sum

A token has the same token vector wherever it stands, and another input embedding at every position. Texts come in
groups and the vectors of long ones in parts, so that any number of them takes the same memory. Writing arrays to files
is arrays.py's business.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from sgns_cli.vectors.choices import Kind
from sgns_cli.vectors.model import Model
from sgns_cli.vectors.query import name_token

Ids = NDArray[np.int64]
Vectors = NDArray[np.float32]
T = TypeVar("T")
NAMED = 5  # tokens that a note names
UNKNOWN_AT_MOST = 1000  # unknown words that are told apart, to name the most frequent
NUMBERS_AT_ONCE = 2**22  # of vectors in memory: 16 MB


def in_groups(items: Iterable[T], *, size: Callable[[T], int], most: int) -> Iterator[list[T]]:
    """Items in groups whose sizes add up to `most` at most; one that is larger is a group by itself.

    A group that is full comes at once, before the next item is asked for:

    >>> list(in_groups([1, 1, 1, 5, 2], size=lambda item: item, most=2))
    [[1, 1], [1], [5], [2]]
    """
    group: list[T] = []
    filled = 0
    for item in items:
        more = size(item)
        if group and filled + more > most:
            yield group
            group, filled = [], 0
        group.append(item)
        filled += more
        if filled >= most:
            yield group
            group, filled = [], 0
    if group:
        yield group


@dataclass(frozen=True)
class Tokens:
    """A text, or a sequence of one. `unknown` are its whitespace words that have no id: they keep their places."""

    ids: Ids  # [N]
    positions: Ids  # [N], rising in each text
    unknown: tuple[str, ...] = ()

    @property
    def length(self) -> int:
        """Places in the text, those of unknown words among them."""
        return len(self.ids) + len(self.unknown)

    def parts(self, most: int) -> Iterator["Tokens"]:
        """The ids and positions in parts of at most so many."""
        for start in range(0, len(self.ids), most):
            yield Tokens(self.ids[start : start + most], self.positions[start : start + most])


def _in_places(ids: Ids, unknown: Mapping[int, str]) -> Tokens:
    places = np.arange(len(ids) + len(unknown))
    return Tokens(ids, np.delete(places, list(unknown)) if unknown else places, tuple(unknown.values()))


def join(texts: Sequence[Tokens]) -> Tokens:
    """Texts one after the other, each with its own positions."""
    return Tokens(
        np.concatenate([text.ids for text in texts]),
        np.concatenate([text.positions for text in texts]),
        tuple(chain.from_iterable(text.unknown for text in texts)),
    )


@dataclass(frozen=True)
class Embedder:
    """How ids become vectors: from which matrix, and whether positions are added."""

    model: Model
    kind: Kind = "input"
    positions: bool | None = None  # None: where the model has them, to its input vectors

    @property
    def adds_positions(self) -> bool:
        wanted = self.kind != "context" if self.positions is None else self.positions
        return wanted and self.model.positions != "none"

    @property
    def tokens_at_once(self) -> int:
        """How many vectors to hold in memory."""
        return max(1, NUMBERS_AT_ONCE // self.model.dim)

    def tokenize(self, text: str) -> Tokens:
        """The ids of a text and their places in it. A token beyond the last row of the matrix is unknown too."""
        return self.tokenize_batch([text])[0]

    def tokenize_batch(self, texts: Sequence[str]) -> list[Tokens]:
        """The same for several texts in one call of the tokenizer."""
        model = self.model
        asked = [model.as_trained(text) for text in texts]
        encoded, lengths = model.tokenizer.encode_batch(asked)
        ids = encoded.astype(np.int64)
        ends = np.cumsum(lengths)
        each = [
            _in_places(ids[end - length : end], model.tokenizer.unknown(text))
            for text, length, end in zip(asked, lengths.tolist(), ends.tolist(), strict=True)
        ]
        return each if ids.max(initial=0) < model.n_vocab else [self._with_rows(tokens) for tokens in each]

    def _with_rows(self, tokens: Tokens) -> Tokens:
        has_row = tokens.ids < self.model.n_vocab
        beyond = [name_token(self.model, id) for id in tokens.ids[~has_row].tolist()]
        return Tokens(tokens.ids[has_row], tokens.positions[has_row], (*tokens.unknown, *beyond))

    def embed(self, tokens: Tokens) -> Vectors:
        """[N, dim]: the input embeddings of a text, a part or a sequence of one, or of several that were joined."""
        vectors = np.asarray(self.model.rows(tokens.ids, self.kind))
        if self.adds_positions:
            vectors += position_vectors(self.model, tokens.positions)
        return vectors

    def pool(self, tokens: Tokens) -> Vectors:
        """[dim]: the mean over the tokens of a text; zero for a text without tokens."""
        mean: Vectors = self.pool_batch([tokens])[0]
        return mean

    def pool_batch(self, texts: Sequence[Tokens]) -> Vectors:
        """[len(texts), dim]: the mean over the tokens of each text; zero for a text without tokens.

        Sums are float64, and those of a text depend on no other: any grouping gives the same numbers.
        """
        most = self.tokens_at_once
        sums = np.zeros((len(texts), self.model.dim))
        parts = ((row, part) for row, text in enumerate(texts) for part in text.parts(most))
        for group in in_groups(parts, size=lambda part: len(part[1].ids), most=most):
            vectors = self.embed(join([part for _, part in group]))
            end = 0
            for row, part in group:
                begin, end = end, end + len(part.ids)
                sums[row] += np.add.reduce(vectors[begin:end], axis=0, dtype=np.float64)
        numbers = np.array([max(1, len(text.ids)) for text in texts])
        return np.asarray(sums / numbers[:, None], dtype=np.float32)


def position_vectors(model: Model, positions: Ids) -> Vectors:
    """[N, dim]: the rows of the positional matrix for positions [N]; past its end they begin again at 0."""
    positions = positions % model.context_length
    if model.position_rows is not None:
        return np.asarray(model.position_rows[positions])
    if model.positions == "sinusoidal":
        different, of_each = np.unique(positions, return_inverse=True)
        return sinusoids(different, dim=model.dim)[of_each]
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


def cut_sequences(tokens: Tokens, *, length: int, stride: int) -> Iterator[Tokens]:
    """The sequences of `length` places that start every `stride` places; the last one may be shorter.

    It ends with the first sequence that reaches the end of the text:

    >>> text = Tokens(np.arange(5), np.arange(5))
    >>> [part.ids.tolist() for part in cut_sequences(text, length=3, stride=2)]
    [[0, 1, 2], [2, 3, 4]]
    """
    starts = np.arange(0, tokens.length, stride)
    starts = starts[(starts == 0) | (starts - stride + length < tokens.length)]
    borders = np.searchsorted(tokens.positions, [starts, starts + length]).T
    for start, (begin, end) in zip(starts, borders, strict=True):
        yield Tokens(tokens.ids[begin:end], tokens.positions[begin:end] - start)


@dataclass
class Tally:
    """What is worth a note after any number of texts: those without tokens, words and tokens that have no
    vector, positions past the end.
    """

    embedder: Embedder
    texts: int = 0
    tokens: int = 0
    longest: int = 0
    empty: int = 0
    first_empty: list[int] = field(default_factory=list)
    untrained: Counter[int] = field(default_factory=Counter)
    missing: int = 0
    unknown: Counter[str] = field(default_factory=Counter)  # the first UNKNOWN_AT_MOST of those that are missing

    def add(self, texts: Sequence[Tokens], *, sequence: int | None = None) -> None:
        """Count the next texts, which may be cut into sequences of so many places."""
        for number, text in enumerate(texts, start=self.texts):
            if len(text.ids) == 0:
                self.empty += 1
                if len(self.first_empty) <= NAMED:
                    self.first_empty.append(number)
        tokens = join(texts)
        longest = max(text.length for text in texts)
        self.texts += len(texts)
        self.tokens += len(tokens.ids)
        self.longest = max(self.longest, longest if sequence is None else min(sequence, longest))
        self.untrained.update(tokens.ids[~self.embedder.model.trained[tokens.ids]].tolist())
        self.missing += len(tokens.unknown)
        for word in tokens.unknown:
            if word in self.unknown or len(self.unknown) < UNKNOWN_AT_MOST:
                self.unknown[word] += 1

    def notes(self) -> Iterator[str]:
        model = self.embedder.model
        if self.empty:
            has = "1 text has" if self.empty == 1 else f"{self.empty} texts have"
            yield f"{has} no tokens: {_some([f'text {number}' for number in self.first_empty])}"
        if self.missing:
            names = [word for word, _ in self.unknown.most_common(NAMED + 1)]
            words = "words" if model.tokenizer.kind == "whitespace" else "tokens"
            of = f"{self.missing} of {self.tokens + self.missing} {words}"
            yield f"{of} are not in the vocabulary and are left out: {_some(names)}"
        if missing := self.untrained.total():
            names = [name_token(model, id) for id, _ in self.untrained.most_common(NAMED + 1)]
            yield f"{missing} of {self.tokens} tokens were never trained and have zero vectors: {_some(names)}"
        if self.embedder.adds_positions and self.longest > model.context_length:
            yield (
                f"{self.longest} tokens are more than the context length {model.context_length}: "
                "positions past it begin again at 0"
            )


def _some(names: list[str]) -> str:
    return ", ".join([*names[:NAMED], *(["..."] if len(names) > NAMED else [])])
