"""The words of a test set among the tokens of a model: which rows they are, and which rows may be answers.

Words are compared without regard to case, as gensim does by default: by str.upper(). A word is the most frequent
candidate that is spelt so, spaces at the token's ends left aside. With BPE a word that no candidate is spelt like is
the mean of its tokens, and joins the candidates of its file: it may be the answer that is expected.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sgns_cli.vectors.choices import Kind
from sgns_cli.vectors.model import Model
from sgns_cli.vectors.neighbors import Space, lengths, make_space
from sgns_cli.vectors.query import Query, query_vectors


@dataclass(frozen=True)
class Candidates:
    """The N most frequent trained tokens of a model: what is looked up, and what may be an answer."""

    model: Model
    kind: Kind
    space: Space  # [N, dim]
    ids: dict[str, list[int]]  # by key, the most frequent first


@dataclass(frozen=True)
class Words:
    """The words of one file. Those that are no candidate of their own have ids from n_vocab on in `space`."""

    space: Space  # [N + M, dim]: the candidates, then M words
    ids: dict[str, list[int]]  # by key: all candidates that are spelt so, the first one stands for the word
    single: int  # how many words are one token,
    means: int  # how many the mean of several,
    missing: int  # and how many neither

    def id(self, word: str) -> int | None:
        """The id in `space` of the row that stands for a word; None if it was not found."""
        ids = self.ids.get(key_of(word))
        return ids[0] if ids else None

    def rows(self, ids: NDArray[np.int64]) -> NDArray[np.float32]:
        """[len(ids), dim]: the rows of ids in `space`."""
        return self.space.rows[np.searchsorted(self.space.ids, ids)]


def key_of(word: str) -> str:
    """What is equal for words that differ in case only: "Straße" -> "STRASSE"."""
    return word.upper()


def make_candidates(model: Model, kind: Kind = "input", *, restrict: int, centre: bool = False) -> Candidates:
    """The `restrict` most frequent trained tokens; `centre` subtracts the mean of all that were trained."""
    ids = model.by_frequency[:restrict]
    by_key: dict[str, list[int]] = {}
    for id in ids.tolist():
        by_key.setdefault(_token_key(model, id), []).append(id)
    return Candidates(model, kind, make_space(model, kind, ids=np.sort(ids), centre=centre), by_key)


def find_words(candidates: Candidates, words: Iterable[str]) -> Words:
    """Look up the words of a file; of those that differ in case only, the first one is cut into tokens."""
    model = candidates.model
    ids: dict[str, list[int]] = {}
    added: list[Query] = []
    single, missing = 0, 0
    for key, word in _by_key(words).items():
        if key in candidates.ids:
            ids[key] = candidates.ids[key]
            single += 1
        elif parts := _trained_parts(model, word):
            ids[key] = [model.n_vocab + len(added)]
            added.append(Query(word, parts))
            single += len(parts) == 1  # a token that is trained, and not among the N
        else:
            missing += 1
    space = _with_rows(candidates, added) if added else candidates.space
    return Words(space, ids, single=single, means=len(ids) - single, missing=missing)


def _token_key(model: Model, id: int) -> str:
    token = model.tokenizer.token_bytes(id) or b""
    return key_of(token.strip(b" ").decode("utf-8", "surrogateescape"))


def _by_key(words: Iterable[str]) -> dict[str, str]:
    first: dict[str, str] = {}
    for word in words:
        first.setdefault(key_of(word), word)
    return first


def _trained_parts(model: Model, word: str) -> tuple[int, ...]:
    """The tokens of a word with a space before it or without, whichever are fewer; none if one was not trained."""
    if model.tokenizer.kind == "whitespace":
        return ()
    parts = min((model.encode(f" {word}"), model.encode(word)), key=len).tolist()
    return tuple(parts) if all(id < model.n_vocab and model.trained[id] for id in parts) else ()


def _with_rows(candidates: Candidates, added: list[Query]) -> Space:
    """The space of the candidates and, after them, of words that are means of tokens."""
    model, space = candidates.model, candidates.space
    rows = query_vectors(model, added, candidates.kind) - space.mean
    return Space(
        ids=np.concatenate([space.ids, model.n_vocab + np.arange(len(added))]),
        rows=np.concatenate([space.rows, rows]),
        norms=np.concatenate([space.norms, lengths(rows)]),
        mean=space.mean,
    )
