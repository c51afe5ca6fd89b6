"""What an export writes: which rows, from which matrix, as which numbers, and under which names."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sgns_cli.corpus.token_text import to_byte_alphabet
from sgns_cli.errors import SgnsError
from sgns_cli.vectors.choices import Dtype, Kind, Rows
from sgns_cli.vectors.model import ROWS_AT_ONCE, Model
from sgns_cli.vectors.query import name_token

Ids = NDArray[np.int64]


@dataclass(frozen=True)
class Selection:
    """Vectors to write: rows of one matrix of a model, as numbers of one type."""

    model: Model
    kind: Kind
    rows: Rows
    dtype: Dtype

    @property
    def by_id(self) -> Ids:
        """[R]: the ids to write, rising."""
        return np.arange(self.model.n_vocab) if self.rows == "all" else np.flatnonzero(self.model.trained)

    @property
    def by_count(self) -> Ids:
        """[R]: the ids to write by falling count, those that were not trained behind them by id."""
        trained = self.model.by_frequency
        return np.concatenate([trained, np.flatnonzero(~self.model.trained)]) if self.rows == "all" else trained

    def pieces(self, ids: Ids) -> Iterator[NDArray[np.float32] | NDArray[np.float16]]:
        """The vectors of some ids, some rows at a time, rounded to float16 where that is asked for.

        Raises SgnsError if a number is too large for float16.
        """
        for start in range(0, len(ids), ROWS_AT_ONCE):
            some = ids[start : start + ROWS_AT_ONCE]
            rows = self.model.rows(some, self.kind)
            if self.dtype == "float16":
                with np.errstate(over="ignore"):
                    half = rows.astype(np.float16)
                self._check(some, np.isfinite(half), "a number that float16 cannot hold")
                yield half
            else:
                yield rows

    def scales(self, ids: Ids) -> NDArray[np.float32]:
        """[R]: what to multiply each row of int8 with; the largest number of a row is 127 times that."""
        found = [np.zeros(0, np.float32)]
        for piece, start in zip(self.pieces(ids), range(0, len(ids), ROWS_AT_ONCE), strict=True):
            found.append(np.abs(piece).max(axis=1).astype(np.float32) / np.float32(127))
            self._check(ids[start : start + len(piece)], np.isfinite(found[-1])[:, None], "a number that is not finite")
        return np.concatenate(found)

    def quantized(self, ids: Ids, scales: NDArray[np.float32]) -> Iterator[NDArray[np.int8]]:
        """The vectors of some ids as int8, some rows at a time: each row divided by its scale and rounded."""
        divisors = np.where(scales > 0, scales, np.inf).astype(np.float32)[:, None]
        for piece, start in zip(self.pieces(ids), range(0, len(ids), ROWS_AT_ONCE), strict=True):
            steps = np.rint(piece / divisors[start : start + len(piece)])
            yield np.clip(steps, -127, 127).astype(np.int8)

    def _check(self, ids: Ids, fits: NDArray[np.bool_], why: str) -> None:
        if not fits.all():
            id = int(ids[int(np.flatnonzero(~fits.all(axis=1))[0])])
            raise SgnsError(f"the vector of {name_token(self.model, id)} (id {id}) has {why}", "use --dtype float32")


@dataclass(frozen=True)
class Written:
    """What was written: how many rows, and what whoever reads them should know."""

    rows: int
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class NamedRows:
    """Rows that have a name each, no two the same, by falling count."""

    ids: Ids  # [R]
    names: list[bytes]  # [R]
    notes: tuple[str, ...]


def name_rows(selection: Selection) -> NamedRows:
    """Name the rows as lines of text can: a word as it is, a BPE's token in GPT-2's byte alphabet.

    So is every name where one of them has white space in it, as lists of other programs may have. Holes have no name
    and no row; nor has an empty token, nor one that is the same as that of a row before.
    """
    tokenizer = selection.model.tokenizer
    ids: dict[bytes, int] = {}
    left_out = 0
    for id in selection.by_count.tolist():
        token = tokenizer.token_bytes(id)
        if token is not None and (not token or ids.setdefault(token, id) != id):
            left_out += 1
    notes = []
    if left_out:
        notes.append(f"{left_out} rows are left out: their token is empty, or that of a row before")
    names = list(ids)
    texts = [name.decode("utf-8", "surrogateescape") for name in names]
    if tokenizer.kind == "bpe" or any(text.split() != [text] for text in texts):
        names = [to_byte_alphabet(name).encode() for name in names]
        notes.append("names are in GPT-2's byte alphabet: Ġ is a space, Ċ a newline")
    elif not all(map(_is_utf_8, texts)):
        notes.append('some names are no UTF-8 and stay as they are: gensim needs unicode_errors="surrogateescape"')
    return NamedRows(np.array(list(ids.values()), dtype=np.int64), names, tuple(notes))


def _is_utf_8(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)
