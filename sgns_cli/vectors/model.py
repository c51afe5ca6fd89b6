"""Vectors with their tokens, as queries need them: row i of every matrix belongs to token id i.

Rows are read only where a query needs them, and the tokenizer is loaded when text comes or tokens are shown.
run.py opens a run of sgns so, word_vectors.py and tensor_file.py what other programs wrote; opening.py knows which.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sgns_cli.corpus.tokenizer import Tokenizer
from sgns_cli.errors import SgnsError
from sgns_cli.tensors import to_float32
from sgns_cli.vectors.choices import Kind  # others have it from here

ROWS_AT_ONCE = 2**14


@dataclass(frozen=True)
class Model:
    """What queries need. Row i of every matrix and entry i of `counts` is token id i."""

    path: Path
    embeddings: NDArray[Any]  # [n_vocab, dim]: float32, or what to_float32 makes float32 of
    load_tokenizer: Callable[[], Tokenizer]
    counts: NDArray[np.int64] | None = None  # [n_vocab]; None: a file that has none, its rows by falling count
    min_count: int = 1
    load_contexts: Callable[[], NDArray[np.float32]] | None = None  # [n_vocab, dim]; None: a file that has none
    positions: Literal["none", "learned", "sinusoidal"] = "none"
    context_length: int = 1
    position_rows: NDArray[np.float32] | None = None  # [context_length, dim] if learned
    lowercase: bool = False  # whether texts were lower-cased for training, so that queries are too
    notes: tuple[str, ...] = ()  # what whoever asks should know of how the file was read

    @cached_property
    def tokenizer(self) -> Tokenizer:
        return self.load_tokenizer()

    @cached_property
    def contexts(self) -> NDArray[np.float32]:
        """[n_vocab, dim]: the other matrix of a run, which few questions need. Raises SgnsError without one."""
        if self.load_contexts is None:
            raise SgnsError(f"{self.path} has no contexts", "leave out --vectors, or name a run of sgns")
        return self.load_contexts()

    @cached_property
    def trained(self) -> NDArray[np.bool_]:
        """[n_vocab]: which ids were trained, and so may be answers.

        Without counts: those that have a token of their own, and a row that is not all zero.
        """
        if self.counts is not None:
            trained = np.asarray(self.counts >= self.min_count)
        else:
            tokens = map(self.tokenizer.token_bytes, range(self.n_vocab))
            own = [token is not None and self.tokenizer.id_of(token) == id for id, token in enumerate(tokens)]
            trained = np.array(own, dtype=np.bool_)
            for start in range(0, self.n_vocab, ROWS_AT_ONCE):
                part = slice(start, start + ROWS_AT_ONCE)
                trained[part] &= self.embeddings[part].any(axis=1)
        special = [id for id in self.tokenizer.special_ids if id < len(trained)]
        trained[special] = False
        return trained

    @cached_property
    def by_frequency(self) -> NDArray[np.int64]:
        """The trained ids by falling count, equal ones by rising id; without counts by rising id."""
        ids = np.flatnonzero(self.trained)
        return ids if self.counts is None else ids[np.argsort(-self.counts[ids], kind="stable")]

    def most_frequent(self, ids: Sequence[int]) -> int:
        """The one of `ids` with the highest count, of equal ones the first; without counts the lowest."""
        counts = self.counts
        return min(ids) if counts is None else max(ids, key=lambda id: counts[id])

    def count(self, id: int) -> int | None:
        """How often a token occurs in the corpus, where that is known."""
        return None if self.counts is None else int(self.counts[id])

    @property
    def n_vocab(self) -> int:
        return int(self.embeddings.shape[0])

    @property
    def dim(self) -> int:
        return int(self.embeddings.shape[1])

    def rows(self, ids: NDArray[np.integer[Any]] | slice, kind: Kind = "input") -> NDArray[np.float32]:
        """[len(ids), dim]: the vectors of `ids`; a slice of one float32 matrix is a view, not a copy."""
        if kind == "input":
            return to_float32(self.embeddings[ids])
        if kind == "context":
            return self.contexts[ids]
        return to_float32(self.embeddings[ids]) + self.contexts[ids]

    def encode(self, text: str) -> NDArray[np.uint32]:
        """The ids of a text, read as the texts of training were."""
        return self.tokenizer.encode(self.as_trained(text))

    def unknown(self, text: str) -> dict[int, str]:
        """What of a text has no id, by its place among the text's tokens; only whitespace words can have none."""
        return self.tokenizer.unknown(self.as_trained(text))

    def as_trained(self, text: str) -> str:
        """A text as those of training were read."""
        return text.lower() if self.lowercase else text
