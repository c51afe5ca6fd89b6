"""Embedded texts as array files, written while the texts come: .npy for one array, .safetensors for texts of any
lengths.

Any number of texts takes the same memory. The shapes are those of docs/formats.md.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sgns_cli.errors import SgnsError, UsageError
from sgns_cli.folders import publish_file, publish_files
from sgns_cli.npy import RowWriter, grow_npy
from sgns_cli.tensors import Described, grow_tensors
from sgns_cli.vectors.embed import Embedder, Tokens, in_groups, join

SUFFIXES = (".npy", ".safetensors")
FLOAT, INT, BOOL = np.dtype("<f4"), np.dtype("<i8"), np.dtype("|b1")

Writers = Mapping[str, RowWriter]


def check_suffix(path: Path) -> None:
    """Raise UsageError unless `path` ends in .npy or .safetensors."""
    if path.suffix not in SUFFIXES:
        raise UsageError(f"{path} is no name for arrays", "end it in .npy or .safetensors")


def mask_path(path: Path) -> Path:
    """Where the mask of FILE.npy goes: FILE.mask.npy."""
    return path.with_suffix(".mask.npy")


def write_texts(path: Path, embedder: Embedder, texts: Iterable[Tokens]) -> tuple[int, ...]:
    """Write every token's vector and return the shape of the vectors.

    .npy: [tokens, dim] for one text, [texts, tokens, dim] for several of one length; raises SgnsError at the first of
    another length. .safetensors: `vectors` [tokens, dim] of all texts one after the other, `ids` [tokens], `offsets`
    [texts + 1].
    """
    texts = iter(texts)
    first = list(islice(texts, 2))
    stacked = path.suffix == ".npy" and len(first) > 1
    length = len(first[0].ids) if first else 0
    row = (length, embedder.model.dim) if stacked else (embedder.model.dim,)
    most = max(embedder.tokens_at_once, length) if stacked else embedder.tokens_at_once
    with _open(path, {"vectors": (FLOAT, row), "ids": (INT, ()), "offsets": (INT, ())}) as arrays:
        for group in _groups(arrays, embedder, chain(first, texts)):
            if stacked and any(len(text.ids) != length for text in group):
                raise SgnsError(
                    f"the texts have different numbers of tokens, and {path} holds one array",
                    "name a .safetensors file, or add --pool mean or --context-length N",
                )
            for part in join(group).parts(most):
                _append(arrays, vectors=embedder.embed(part).reshape(-1, *row))
    return arrays["vectors"].shape


def write_pooled(path: Path, embedder: Embedder, texts: Iterable[Tokens]) -> tuple[int, ...]:
    """Write the mean vector of each text, [texts, dim]; a .safetensors file has `ids` and `offsets` too."""
    row = (embedder.model.dim,)
    with _open(path, {"vectors": (FLOAT, row), "ids": (INT, ()), "offsets": (INT, ())}) as arrays:
        for group in _groups(arrays, embedder, texts):
            _append(arrays, vectors=embedder.pool_batch(group))
    return arrays["vectors"].shape


def write_sequences(path: Path, embedder: Embedder, sequences: Iterable[Tokens], *, length: int) -> tuple[int, ...]:
    """Write sequences as [sequences, length, dim], zero where there is no token: behind the last, or at a word
    without an id.

    `mask` [sequences, length] is true where there is a token. .npy: FILE.mask.npy beside it. .safetensors:
    `vectors`, `ids` (0 where there is no token), `mask`.
    """
    dim = embedder.model.dim
    with _open(path, {"vectors": (FLOAT, (length, dim)), "ids": (INT, (length,)), "mask": (BOOL, (length,))}) as arrays:
        for group in in_groups(sequences, size=lambda _: length, most=embedder.tokens_at_once):
            tokens = join(group)
            mask = np.zeros((len(group), length), dtype=BOOL)
            mask[np.repeat(np.arange(len(group)), [len(one.ids) for one in group]), tokens.positions] = True
            vectors = np.zeros((len(group), length, dim), dtype=FLOAT)
            vectors[mask] = embedder.embed(tokens)
            ids = np.zeros((len(group), length), dtype=INT)
            ids[mask] = tokens.ids
            _append(arrays, vectors=vectors, ids=ids, mask=mask)
    return arrays["vectors"].shape


def _groups(arrays: Writers, embedder: Embedder, texts: Iterable[Tokens]) -> Iterator[list[Tokens]]:
    """The texts in groups, whose ids and offsets are written on the way."""
    total = np.zeros(1, dtype=INT)
    _append(arrays, offsets=total)
    for group in in_groups(texts, size=lambda text: len(text.ids) + 1, most=embedder.tokens_at_once):
        ends = total + np.cumsum([len(text.ids) for text in group])
        _append(arrays, ids=join(group).ids, offsets=ends)
        total = ends[-1:]
        yield group


@contextmanager
def _open(path: Path, rows: Mapping[str, Described]) -> Iterator[Writers]:
    """Yield what takes the rows of each array; complete at the end or, if the body raises, not there.

    `rows` are the dtypes and shapes of single rows. A .npy file holds `vectors`, one beside it `mask`.
    """
    with ExitStack() as stack:
        if path.suffix == ".safetensors":
            yield stack.enter_context(grow_tensors(stack.enter_context(publish_file(path)), rows))
            return
        files = {name: file for name, file in {"mask": mask_path(path), "vectors": path}.items() if name in rows}
        hidden = stack.enter_context(publish_files(list(files.values())))
        yield {
            name: stack.enter_context(grow_npy(file, dtype=rows[name][0], row_shape=rows[name][1]))
            for name, file in zip(files, hidden, strict=True)
        }


def _append(arrays: Writers, **rows: NDArray[Any]) -> None:
    """Write rows to those of the arrays that the file has."""
    for name, more in rows.items():
        if name in arrays:
            arrays[name].append(more)
