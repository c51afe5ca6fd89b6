"""Vectors as tensors of a .safetensors file.

    --rows all        `embeddings` [n_vocab, dim]: row i is token id i; `counts` int64 [n_vocab]
    --rows trained    `embeddings` [R, dim], `ids` int64 [R] rising, `counts` int64 [R]
    --dtype int8      and `scales` float32 [rows]: a vector is its row of `embeddings` times its scale

`counts` is there where counts are known.
"""

from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sgns_cli.tensors import TensorStream, whole, write_tensors
from sgns_cli.vectors.export.selection import Ids, Selection, Written


def write_safetensors(path: Path, selection: Selection) -> Written:
    """Write the file."""
    ids = selection.by_id
    tensors = matrix_streams(selection, ids, scales="scales")
    if selection.rows == "trained":
        tensors["ids"] = whole(ids)
    if selection.model.counts is not None:
        tensors["counts"] = whole(selection.model.counts[ids])
    write_tensors(path, tensors)
    return Written(len(ids))


def matrix_streams(selection: Selection, ids: Ids, *, scales: str, padding: int = 0) -> dict[str, TensorStream]:
    """`embeddings` [R + padding, dim], the padding zero, and for int8 what to multiply each row with by the name
    `scales`.
    """
    shape = (len(ids) + padding, selection.model.dim)
    dtype = np.dtype(selection.dtype).newbyteorder("<")

    def padded(pieces: Iterable[NDArray[Any]]) -> TensorStream:
        return TensorStream(dtype, shape, chain(pieces, [np.zeros((padding, shape[1]), dtype)]))

    if selection.dtype != "int8":
        return {"embeddings": padded(selection.pieces(ids))}
    factors = selection.scales(ids)
    return {
        "embeddings": padded(selection.quantized(ids, factors)),
        scales: whole(np.append(factors, np.zeros(padding, np.float32))),
    }
