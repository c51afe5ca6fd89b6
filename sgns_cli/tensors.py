"""The safetensors format, streamed out and mapped in.

The format is a page long: 8 bytes little-endian header length, a JSON header {name: {dtype, shape, data_offsets}}, then
the raw rows. The safetensors library holds a whole tensor in memory to write it and copies it to read it; a matrix of a
big vocabulary must do neither, so these few lines are ours, and the tests check them against the library both ways.
Numpy only.
"""

import json
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sgns_cli.errors import SgnsError

DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I8": "|i1", "U8": "|u1", "BOOL": "|b1"}
NAMES = {np.dtype(code): name for name, code in DTYPES.items()}
MAX_HEADER = 100_000_000  # the library's own limit


@dataclass(frozen=True)
class TensorStream:
    """A tensor to write: its shape, and its rows in pieces (arrays whose bytes follow one another)."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    pieces: Iterable[NDArray[Any]]

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


def whole(array: NDArray[Any]) -> TensorStream:
    """An array at hand as a stream of one piece."""
    return TensorStream(array.dtype, array.shape, [array])


def write_tensors(path: Path, tensors: Mapping[str, TensorStream]) -> None:
    """Write a .safetensors file piece by piece. Raises ValueError if the pieces do not fill a tensor exactly."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, tensor in tensors.items():
        end = offset + tensor.nbytes
        header[name] = {"dtype": NAMES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # so that the data begins aligned
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little"))
        file.write(text)
        for name, tensor in tensors.items():
            start = file.tell()
            for piece in tensor.pieces:
                if piece.size:
                    file.write(np.ascontiguousarray(piece, dtype=tensor.dtype).data)
            if file.tell() - start != tensor.nbytes:
                raise ValueError(f"{name}: wrote {file.tell() - start} bytes of {tensor.nbytes}")


def map_tensors(path: Path) -> dict[str, NDArray[Any]]:
    """Map every tensor of a .safetensors file, read-only and without copying; bfloat16 comes as its raw uint16.

    Raises SgnsError if the file is missing or is not whole: every size is checked against the file's length first.
    """
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            length = int.from_bytes(file.read(8), "little")
            if size < 8 or length > min(size - 8, MAX_HEADER):
                raise _damaged(path, "the header is cut short")
            header = json.loads(file.read(length))
    except OSError as error:
        raise SgnsError(f"cannot read {path}: {error.strerror}", "check the path") from error
    except (ValueError, RecursionError) as error:
        raise _damaged(path, "the header is not JSON") from error
    if not isinstance(header, dict):
        raise _damaged(path, "the header is not an object")
    header.pop("__metadata__", None)
    return {name: _map(path, name, entry, 8 + length, size) for name, entry in header.items()}


def to_float32(array: NDArray[Any]) -> NDArray[np.float32]:
    """A matrix, or rows of one, as float32: itself where it is so already; uint16 is raw bfloat16 from map_tensors."""
    if array.dtype == np.uint16:
        return (array.astype(np.uint32) << 16).view(np.float32)
    return np.asarray(array, dtype=np.float32)


def _map(path: Path, name: str, entry: Any, base: int, size: int) -> NDArray[Any]:  # noqa: ANN401 - any JSON value
    try:
        dtype = np.dtype({**DTYPES, "BF16": "<u2"}[entry["dtype"]])
        shape = tuple(int(extent) for extent in entry["shape"])
        start, end = (int(offset) for offset in entry["data_offsets"])
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(path, f"tensor {name!r} is not described as the format asks") from error
    if min((start, *shape)) < 0 or end - start != math.prod(shape) * dtype.itemsize or base + end > size:
        raise _damaged(path, f"tensor {name!r} does not fit the file")
    if start == end:
        return np.zeros(shape, dtype)
    return np.memmap(path, dtype=dtype, mode="r", offset=base + start, shape=shape)


def _damaged(path: Path, why: str) -> SgnsError:
    return SgnsError(f"{path} is no whole safetensors file: {why}", "copy or make the file again")
