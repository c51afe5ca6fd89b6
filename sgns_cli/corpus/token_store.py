"""A token folder open: a corpus as ids on disk, memory-mapped, with all that is needed to know what it is.

Reads and writes the format whose names token_folder.py owns. What goes into it is build.py's business.
"""

import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from sgns_cli.corpus.tokenizer import Tokenizer, load_tokenizer
from sgns_cli.files import MOST_TOKENIZER, changed_file, checksum, own_file, own_path, sealed, write_json
from sgns_cli.folders import publish_folder
from sgns_cli.npy import write_npy
from sgns_cli.token_folder import COUNTS, DOCUMENTS, FORMAT_VERSION, META, TOKENIZER, TOKENS, damaged, read_meta

TOKENS_AT_ONCE = 2**20
MOST_NPY_HEADER = 2**12  # bytes
MAGIC = b"\x93NUMPY\x01\x00"
NPY = re.compile(  # as npy.py writes it: the header's length, the number of numbers
    re.escape(MAGIC) + rb"(..)\{'descr': '<i8', 'fortran_order': False, 'shape': \((\d{1,18}),\), \} *\n", re.DOTALL
)
DTYPES: dict[str, np.dtype[Any]] = {"uint16": np.dtype("<u2"), "uint32": np.dtype("<u4")}


Stamp = tuple[int, int, int]  # which file it is, how long, and when it was changed last


@dataclass(frozen=True, eq=False)
class TokenStore:
    """An open token folder. Document d is tokens[documents[d]:documents[d + 1]]."""

    folder: Path
    tokens: NDArray[Any]  # [tokens] uint16 or uint32, mapped read-only
    documents: NDArray[np.int64]  # [documents + 1], mapped read-only
    counts: NDArray[np.int64]  # [n_vocab]
    meta: dict[str, Any]
    stamps: dict[str, Stamp]  # of the mapped files, when they were opened

    def check_unchanged(self) -> None:
        """Raise SgnsError if a mapped file was written to since it was opened; one that was replaced or removed is
        still as it was for whoever has it mapped.
        """
        for name, stamp in self.stamps.items():
            with suppress(FileNotFoundError):
                now = _stamp(self.folder / name)
                if now[0] == stamp[0] and now != stamp:
                    raise damaged(self.folder, f"{name} was changed while it was in use")

    @property
    def n_documents(self) -> int:
        return len(self.documents) - 1

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the tokens, the documents and the tokenizer, whatever they were made from."""
        parts = [self.meta["checksums"][TOKENS], self.meta["checksums"][DOCUMENTS]]
        parts += [self.meta["dtype"], self.meta["tokenizer"]["fingerprint"]]
        return hashlib.sha256(" ".join(parts).encode()).hexdigest()

    def tokenizer(self) -> Tokenizer:
        """The tokenizer that made these ids."""
        folder = own_path(self.folder, TOKENIZER)
        names = {name: name.removeprefix(f"{TOKENIZER}/") for name in self.meta["checksums"] if "/" in name}
        tokenizer = load_tokenizer(
            folder, checksums={short: self.meta["checksums"][name] for name, short in names.items()}
        )
        if tokenizer.n_vocab != len(self.counts):
            raise damaged(self.folder, f"its tokenizer has {tokenizer.n_vocab} ids, and {COUNTS} {len(self.counts)}")
        return tokenizer


def open_token_store(folder: Path, *, verify: bool = False) -> TokenStore:
    """Map a token folder. Sizes are always checked against meta.json; `verify` reads it all, checks its SHA-256s, and
    that its ids, documents and counts are what training takes them for.

    Raises SgnsError if it is no token folder, or damaged.
    """
    meta = read_meta(folder)
    try:
        n_tokens, n_documents = int(meta["tokens"]), int(meta["documents"])
        n_vocab = int(meta["tokenizer"]["n_vocab"])
        dtype = DTYPES[meta["dtype"]]
        checksums = dict(meta["checksums"])
        facts = [checksums[TOKENS], checksums[DOCUMENTS], meta["tokenizer"]["fingerprint"]]
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise damaged(folder, f"{META} lacks what it should say") from error
    if not all(isinstance(fact, str) for fact in facts) or n_tokens < 1 or n_documents < 1:
        raise damaged(folder, f"{META} lacks what it should say")
    if own_file(folder, TOKENS).stat().st_size != n_tokens * dtype.itemsize:
        raise damaged(folder, f"{TOKENS} has not the size of {n_tokens} tokens")
    documents = _map_array(own_file(folder, DOCUMENTS), n_documents + 1)
    stamps = {name: _stamp(folder / name) for name in (TOKENS, DOCUMENTS)}
    mapped_counts = _map_array(own_file(folder, COUNTS), n_vocab)
    if verify:
        small = {name: sha256 for name, sha256 in checksums.items() if name not in (TOKENS, DOCUMENTS, COUNTS)}
        changed = changed_file(folder, small, at_most=MOST_TOKENIZER) or changed_file(folder, checksums)
        if changed:
            raise damaged(folder, f"{changed} is not what was written")
    tokens = np.memmap(folder / TOKENS, dtype=dtype, mode="r")
    counts = np.array(mapped_counts)
    if documents[0] != 0 or documents[-1] != n_tokens or counts.sum() != n_tokens:
        raise damaged(folder, "its files do not fit each other")
    if verify:
        _check_ids(folder, tokens, documents, counts)
    return TokenStore(folder, tokens, documents, counts, meta, stamps)


def _stamp(path: Path) -> Stamp:
    status = path.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns


def _check_ids(folder: Path, tokens: NDArray[Any], documents: NDArray[np.int64], counts: NDArray[np.int64]) -> None:
    """Count the ids again, and look whether documents follow one another: kernels do not look where they read."""
    found = np.zeros_like(counts)
    at_once = max(TOKENS_AT_ONCE, 4 * len(counts))
    for start in range(0, len(tokens), at_once):
        ids = tokens[start : start + at_once]
        if ids.max() >= len(counts):
            raise damaged(folder, f"{TOKENS} has an id beyond those of its tokenizer")
        found += np.bincount(ids, minlength=len(counts))
    if (found != counts).any():
        raise damaged(folder, f"{COUNTS} is not how often its ids occur")
    for start in range(0, len(documents), TOKENS_AT_ONCE):
        if (np.diff(documents[start : start + TOKENS_AT_ONCE + 1]) < 1).any():
            raise damaged(folder, f"{DOCUMENTS} does not rise")


def _map_array(path: Path, length: int) -> NDArray[np.int64]:
    """Map a .npy file of `length` numbers. numpy would read its header as Python."""
    try:
        with path.open("rb") as file:
            header = NPY.match(file.read(MOST_NPY_HEADER))
            size = os.fstat(file.fileno()).st_size
    except OSError as error:
        raise damaged(path.parent, f"{path.name} cannot be read") from error
    if header is None or header.end() != len(MAGIC) + 2 + int.from_bytes(header[1], "little"):
        raise damaged(path.parent, f"{path.name} is no array of int64 numbers")
    if int(header[2]) != length or size != header.end() + 8 * length:
        raise damaged(path.parent, f"{path.name} is not {length} int64 numbers")
    return np.memmap(path, "<i8", mode="r", offset=header.end(), shape=(length,))


def dtype_for(n_vocab: int) -> np.dtype[Any]:
    """The type of ids on disk: two bytes where they suffice."""
    return DTYPES["uint16" if n_vocab <= 2**16 else "uint32"]


def add_counts(counts: NDArray[np.int64], ids: NDArray[np.uint32]) -> NDArray[np.int64]:
    """Counts by id with those of more ids; longer where one of them needs it."""
    more = np.bincount(ids, minlength=len(counts))
    more[: len(counts)] += counts
    return more


class TokenWriter:
    """Streams documents into a hidden token folder; memory is a batch and the counts. See
    `write_token_store`.
    """

    def __init__(self, folder: Path, tokens: BinaryIO, starts: BinaryIO, dtype: np.dtype[Any]) -> None:
        self.folder = folder
        self.dtype = dtype
        self.n_tokens = 0
        self.n_documents = 0
        self.counts = np.zeros(0, dtype=np.int64)
        self._tokens = tokens
        self._starts = starts  # the numbers of documents.npy; its header needs to know how many

    def add(self, ids: NDArray[np.uint32], lengths: NDArray[np.int64]) -> None:
        """Append documents: their ids one after the other, and how many each has; those of no tokens are
        dropped.
        """
        lengths = lengths[lengths > 0]
        if len(ids) == 0:
            return
        starts = self.n_tokens + np.cumsum(lengths) - lengths
        self._starts.write(starts.astype("<i8").tobytes())
        self._tokens.write(ids.astype(self.dtype, copy=False).data)
        self.counts = add_counts(self.counts, ids)
        self.n_tokens += len(ids)
        self.n_documents += len(lengths)

    def finish(
        self, tokenizer: Tokenizer, facts: Mapping[str, Any], *, new_ids: NDArray[np.uint32] | None = None
    ) -> None:
        """Write all but the tokens. `new_ids[id]`, if given, is what each id written so far becomes."""
        self._starts.write(np.int64(self.n_tokens).astype("<i8").tobytes())
        self._starts.close()
        self._tokens.close()
        counts = np.zeros(tokenizer.n_vocab, dtype="<i8")
        if new_ids is None:
            counts[: len(self.counts)] = self.counts
        else:
            counts[new_ids] = self.counts
            self.dtype = dtype_for(tokenizer.n_vocab)
            _renumber(self.folder / TOKENS, new_ids, self.dtype)
        _write_documents(self.folder / DOCUMENTS, Path(self._starts.name), self.n_documents + 1)
        write_npy(self.folder / COUNTS, [counts], dtype=counts.dtype, shape=counts.shape)
        (self.folder / TOKENIZER).mkdir()
        tokenizer.save(self.folder / TOKENIZER)
        names = [TOKENS, DOCUMENTS, COUNTS]
        names += sorted(f"{TOKENIZER}/{path.name}" for path in (self.folder / TOKENIZER).iterdir())
        meta = {
            "format_version": FORMAT_VERSION,
            "tokens": self.n_tokens,
            "documents": self.n_documents,
            "types": int(np.count_nonzero(counts)),
            "dtype": self.dtype.name,
            "tokenizer": {
                "kind": tokenizer.kind,
                "name": tokenizer.name,
                "n_vocab": tokenizer.n_vocab,
                "fingerprint": tokenizer.fingerprint,
            },
            **facts,
            "checksums": {name: checksum(self.folder / name) for name in names},
        }
        write_json(self.folder / META, sealed(meta))


@contextmanager
def write_token_store(folder: Path, dtype: np.dtype[Any], *, overwrite: bool = False) -> Iterator[TokenWriter]:
    """Yield a writer; the folder appears when the body ends well, which must have called `finish`."""
    with publish_folder(folder, overwrite=overwrite) as hidden:
        starts_path = hidden / "starts.raw"
        with (hidden / TOKENS).open("wb") as tokens, starts_path.open("wb") as starts:
            yield TokenWriter(hidden, tokens, starts, dtype)
        starts_path.unlink()


def _write_documents(path: Path, raw: Path, length: int) -> None:
    """Put the header of the .npy format before the numbers in `raw`."""
    with raw.open("rb") as numbers:
        chunks = iter(lambda: numbers.read(2**20), b"")
        pieces = (np.frombuffer(chunk, dtype="<i8") for chunk in chunks)
        write_npy(path, pieces, dtype=np.dtype("<i8"), shape=(length,))


def _renumber(path: Path, new_ids: NDArray[np.uint32], dtype: np.dtype[Any]) -> None:
    """Rewrite a file of uint32 ids through a table, in chunks."""
    renumbered = path.with_name("renumbered.raw")
    with path.open("rb") as old, renumbered.open("wb") as new:
        while chunk := old.read(4 * TOKENS_AT_ONCE):
            new.write(new_ids[np.frombuffer(chunk, dtype="<u4")].astype(dtype).tobytes())
    renumbered.replace(path)
