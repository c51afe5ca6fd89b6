"""Embedded texts as array files, written piece by piece: .npy for one array, .safetensors for texts of any
lengths.

Only the ids are held in memory; vectors are computed as they are written. The shapes are those of
docs/formats.md.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sgns_cli.errors import SgnsError, UsageError
from sgns_cli.folders import publish_file
from sgns_cli.npy import write_npy
from sgns_cli.tensors import TensorStream, whole, write_tensors
from sgns_cli.vectors.embed import Embedder, Tokens, Vectors

SUFFIXES = (".npy", ".safetensors")


@dataclass(frozen=True)
class Rows:
    """An array to write: its shape, and its rows in pieces."""

    shape: tuple[int, ...]
    pieces: Iterator[Vectors]


def check_suffix(path: Path) -> None:
    """Raise UsageError unless `path` ends in .npy or .safetensors."""
    if path.suffix not in SUFFIXES:
        raise UsageError(f"{path} is no name for arrays", "end it in .npy or .safetensors")


def mask_path(path: Path) -> Path:
    """Where the mask of FILE.npy goes: FILE.mask.npy."""
    return path.with_suffix(".mask.npy")


def write_texts(path: Path, embedder: Embedder, texts: Sequence[Tokens]) -> tuple[int, ...]:
    """Write every token's vector and return the shape of the vectors.

    .npy: [tokens, dim] for one text, [texts, tokens, dim] for several of one length. .safetensors: `vectors`
    [tokens, dim] of all texts one after the other, `ids` [tokens], `offsets` [texts + 1].
    """
    dim = embedder.model.dim
    lengths = {len(text.ids) for text in texts}
    total = sum(len(text.ids) for text in texts)
    pieces = (embedder.embed(text) for text in texts)
    if path.suffix == ".safetensors":
        return _write_safetensors(path, Rows((total, dim), pieces), _ids_and_offsets(texts))
    if len(texts) > 1 and len(lengths) > 1:
        raise SgnsError(
            f"the texts have different numbers of tokens, and {path} holds one array",
            "name a .safetensors file, or add --pool mean or --context-length N",
        )
    shape = (total, dim) if len(texts) == 1 else (len(texts), *lengths, dim)
    return _write_npy(path, Rows(shape, pieces))


def write_pooled(path: Path, embedder: Embedder, texts: Sequence[Tokens]) -> tuple[int, ...]:
    """Write the mean vector of each text, [texts, dim]; a .safetensors file has `ids` and `offsets` too."""
    rows = Rows((len(texts), embedder.model.dim), (embedder.pool(text) for text in texts))
    if path.suffix == ".safetensors":
        return _write_safetensors(path, rows, _ids_and_offsets(texts))
    return _write_npy(path, rows)


def write_sequences(path: Path, embedder: Embedder, sequences: Sequence[Tokens], *, length: int) -> tuple[int, ...]:
    """Write sequences as [sequences, length, dim], zero where there is no token: behind the last, or at a word
    without an id.

    `mask` [sequences, length] is true where there is a token. .npy: FILE.mask.npy beside it. .safetensors:
    `vectors`, `ids` (0 in the padding), `mask`.
    """
    rows = Rows((len(sequences), length, embedder.model.dim), _padded(embedder, sequences, length))
    mask = np.zeros((len(sequences), length), dtype=np.bool_)
    for row, sequence in zip(mask, sequences, strict=True):
        row[sequence.positions] = True
    if path.suffix == ".safetensors":
        padded = np.zeros(mask.shape, dtype=np.int64)
        padded[mask] = _all_ids(sequences)
        return _write_safetensors(path, rows, {"ids": padded, "mask": mask})
    shape = _write_npy(path, rows)
    with publish_file(mask_path(path)) as hidden:
        write_npy(hidden, [mask], dtype=mask.dtype, shape=mask.shape)
    return shape


def _padded(embedder: Embedder, sequences: Sequence[Tokens], length: int) -> Iterator[Vectors]:
    for sequence in sequences:
        vectors = np.zeros((length, embedder.model.dim), dtype=np.float32)
        vectors[sequence.positions] = embedder.embed(sequence)
        yield vectors


def _all_ids(texts: Sequence[Tokens]) -> NDArray[np.int64]:
    return np.concatenate([*(text.ids for text in texts), np.zeros(0, np.int64)])


def _ids_and_offsets(texts: Sequence[Tokens]) -> dict[str, NDArray[np.int64]]:
    offsets = np.zeros(len(texts) + 1, dtype=np.int64)
    offsets[1:] = np.cumsum([len(text.ids) for text in texts])
    return {"ids": _all_ids(texts), "offsets": offsets}


def _write_npy(path: Path, rows: Rows) -> tuple[int, ...]:
    with publish_file(path) as hidden:
        write_npy(hidden, rows.pieces, dtype=np.dtype("<f4"), shape=rows.shape)
    return rows.shape


def _stream(array: NDArray[Any]) -> TensorStream:
    return whole(array) if array.size else TensorStream(array.dtype, array.shape, [])


def _write_safetensors(
    path: Path,
    rows: Rows,
    beside: Mapping[str, NDArray[Any]],
) -> tuple[int, ...]:
    vectors = TensorStream(np.dtype("<f4"), rows.shape, (piece for piece in rows.pieces if piece.size))
    with publish_file(path) as hidden:
        write_tensors(hidden, {"vectors": vectors, **{name: _stream(array) for name, array in beside.items()}})
    return rows.shape
