"""The tokenizer that takes every whitespace-separated string as a token: words, item ids, walks on a graph.

Its vocabulary comes from the corpus: `GrowingVocabulary` gives ids as strings turn up, `by_falling_count`
puts them in their final order. A string outside the vocabulary has no id and is left out.
"""

import hashlib
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sgns_cli.errors import SgnsError
from sgns_cli.files import MOST_TOKENIZER, read_whole, write_json

VOCABULARY = "vocabulary.txt"
DESCRIPTION = "tokenizer.json"


class WhitespaceTokenizer:
    """A fixed list of strings; a string's id is its place in the list, its first one where it has several.

    Bytes that are not UTF-8, as lists of other programs have, are lone surrogates in them.
    """

    kind: Literal["bpe", "whitespace"] = "whitespace"
    name = "whitespace"
    special_ids: frozenset[int] = frozenset()

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens

    @cached_property
    def _ids(self) -> dict[str, int]:
        ids: dict[str, int] = {}
        for id, token in enumerate(self._tokens):
            ids.setdefault(token, id)
        return ids

    @property
    def n_vocab(self) -> int:
        return len(self._tokens)

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(b"whitespace\n" + _lines(self._tokens)).hexdigest()

    def encode(self, text: str) -> NDArray[np.uint32]:
        ids = self._ids
        return np.array([ids[word] for word in text.split() if word in ids], dtype=np.uint32)

    def encode_batch(self, texts: Sequence[str]) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        pieces = [self.encode(text) for text in texts]
        ids = np.concatenate(pieces) if pieces else np.zeros(0, np.uint32)
        return ids, np.array([len(piece) for piece in pieces], dtype=np.int64)

    def unknown(self, text: str) -> dict[int, str]:
        return {place: word for place, word in enumerate(text.split()) if word not in self._ids}

    def token_bytes(self, id: int) -> bytes | None:
        return self._tokens[id].encode("utf-8", "surrogateescape") if 0 <= id < len(self._tokens) else None

    def id_of(self, token: bytes) -> int | None:
        return self._ids.get(token.decode("utf-8", "surrogateescape"))

    def save(self, folder: Path) -> None:
        (folder / VOCABULARY).write_bytes(_lines(self._tokens))
        write_json(folder / DESCRIPTION, {"format_version": 1, "kind": self.kind, "name": self.name})


def load_whitespace(folder: Path) -> WhitespaceTokenizer:
    """Read a vocabulary that `save` wrote. Raises SgnsError if it is missing or damaged."""
    path = folder / VOCABULARY
    try:
        text = read_whole(path, at_most=MOST_TOKENIZER).decode()
    except OSError as error:
        raise SgnsError(f"cannot read {path}: {error.strerror}", "make the folder again") from error
    except UnicodeDecodeError as error:
        raise SgnsError(f"{path} is damaged: not UTF-8 at byte {error.start}", "make the folder again") from error
    tokens = text.split("\n")  # splitlines would also break at characters that are not ends of lines here
    if tokens.pop() or len(set(tokens)) != len(tokens) or "" in tokens:
        raise SgnsError(f"{path} is damaged: not a list of distinct tokens", "make the folder again")
    return WhitespaceTokenizer(tokens)


class GrowingVocabulary:
    """Ids in order of first occurrence, while the corpus is being read."""

    def __init__(self) -> None:
        self._ids = _NextId()

    def encode_batch(self, texts: Iterable[str]) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        words: list[str] = []
        lengths = []
        for text in texts:
            found = text.split()
            words += found
            lengths.append(len(found))
        ids = np.fromiter(map(self._ids.__getitem__, words), np.uint32, len(words))
        return ids, np.array(lengths, dtype=np.int64)

    def by_falling_count(self, counts: NDArray[np.int64]) -> tuple[WhitespaceTokenizer, NDArray[np.uint32]]:
        """The final tokenizer, and the final id of each first id; equal counts keep the order of first
        occurrence.
        """
        order = np.argsort(-counts, kind="stable")
        renumbered = np.empty(len(order), dtype=np.uint32)
        renumbered[order] = np.arange(len(order), dtype=np.uint32)
        tokens = list(self._ids)
        return WhitespaceTokenizer([tokens[id] for id in order]), renumbered


class _NextId(dict[str, int]):
    def __missing__(self, word: str) -> int:
        self[word] = id = len(self)
        return id


def _lines(tokens: list[str]) -> bytes:
    return "".join(f"{token}\n" for token in tokens).encode("utf-8", "surrogateescape")
