"""The safetensors format, streamed out and mapped in.

The format is a page long: 8 bytes little-endian header length, a JSON header {name: {dtype, shape, data_offsets}}, then
the raw rows. The safetensors library holds a whole tensor in memory to write it and copies it to read it; a matrix of a
big vocabulary must do neither, so these few lines are ours, and the tests check them against the library both ways.
Numpy only.
"""

import json
import math
import os
import shutil
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sgns_cli.errors import SgnsError
from sgns_cli.npy import RowWriter

DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I8": "|i1", "U8": "|u1", "BOOL": "|b1"}
NAMES = {np.dtype(code): name for name, code in DTYPES.items()}
MAX_HEADER = 2**24  # bytes; those of the largest models have some hundred thousand
ALIGNMENT = 8  # of the data in the file, and the size of the largest numbers
MOST_ROWS = 10**18  # for which a header has room
COPIED_AT_ONCE = 2**20

Described = tuple[np.dtype[Any], tuple[int, ...]]  # dtype and shape


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


def write_tensors(path: Path, tensors: Mapping[str, TensorStream]) -> dict[str, int]:
    """Write a .safetensors file piece by piece; returns the CRC-32 of each tensor's bytes, for `check_tensor`.

    Raises ValueError if the pieces do not fill a tensor exactly.
    """
    described = {name: (tensor.dtype, tensor.shape) for name, tensor in tensors.items()}
    order = _aligned(described)
    sums = {}
    with path.open("wb") as file:
        file.write(_header({name: described[name] for name in order}))
        for name in order:
            tensor, start, sums[name] = tensors[name], file.tell(), 0
            for piece in tensor.pieces:
                if piece.size:
                    data = np.ascontiguousarray(piece, dtype=tensor.dtype).data
                    sums[name] = zlib.crc32(data, sums[name])
                    file.write(data)
            if file.tell() - start != tensor.nbytes:
                raise ValueError(f"{name}: wrote {file.tell() - start} bytes of {tensor.nbytes}")
    return sums


def check_tensor(path: Path, name: str, tensor: NDArray[Any], crc: int) -> None:
    """Read a mapped tensor whole and compare its CRC-32. Raises SgnsError if it is not what was written."""
    if (zlib.crc32(tensor.data) if tensor.size else 0) != crc:
        raise _damaged(path, f"tensor {name!r} is not what was written")


@contextmanager
def grow_tensors(path: Path, rows: Mapping[str, Described]) -> Iterator[dict[str, RowWriter]]:
    """Write a .safetensors file of tensors of any number of rows: yield for each name what takes its rows, in any turn.

    `rows` are the dtypes and shapes of single rows. The first tensor goes straight into the file; the others, and it
    too where they would then not be aligned, into files without a name in the same folder, which are appended at the
    end. The header is written last, into room that was left for it.
    """
    room = len(_header({name: (dtype, (MOST_ROWS, *shape)) for name, (dtype, shape) in rows.items()}))
    first, (dtype, shape) = next(iter(rows.items()))
    straight = [first] if math.prod(shape) * dtype.itemsize % ALIGNMENT == 0 else []
    aside = _aligned({name: row for name, row in rows.items() if name not in straight})
    with ExitStack() as stack:
        file = stack.enter_context(path.open("wb"))
        file.write(bytes(room))
        files = {name: stack.enter_context(TemporaryFile(dir=path.parent)) for name in aside}
        writers = {name: RowWriter(files.get(name, file), *row) for name, row in rows.items()}
        yield writers
        for part in files.values():
            part.seek(0)
            shutil.copyfileobj(part, file, COPIED_AT_ONCE)
        file.seek(0)
        file.write(_header({name: (rows[name][0], writers[name].shape) for name in straight + aside}, room=room))


def map_tensors(path: Path) -> dict[str, NDArray[Any]]:
    """Map the tensors of a .safetensors file, read-only and without copying; bfloat16 comes as its raw uint16, and
    those of kinds that are not in DTYPES (float8, say) are left out.

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
    data = np.memmap(path, np.uint8, mode="r")  # one for all: each takes a file descriptor
    mapped = {name: _view(path, name, entry, data[8 + length :]) for name, entry in header.items()}
    if max([0, *(int(entry["data_offsets"][1]) for entry in header.values())]) != size - 8 - length:
        raise _damaged(path, "its tensors do not fill it")
    return {name: tensor for name, tensor in mapped.items() if tensor is not None}


def to_float32(array: NDArray[Any]) -> NDArray[np.float32]:
    """A matrix, or rows of one, as float32: itself where it is so already; uint16 is raw bfloat16 from map_tensors."""
    if array.dtype == np.uint16:
        return (array.astype(np.uint32) << 16).view(np.float32)
    with np.errstate(over="ignore"):  # infinity, which whoever compares rows refuses
        return np.asarray(array, dtype=np.float32)


def _header(tensors: Mapping[str, Described], *, room: int = 0) -> bytes:
    """The beginning of a file that has these tensors in this order, with spaces at its end: at least `room` bytes, and
    so many that the data begins aligned.
    """
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, (dtype, shape) in tensors.items():
        end = offset + math.prod(shape) * dtype.itemsize
        header[name] = {"dtype": NAMES[dtype], "shape": list(shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode().ljust(room - 8)
    text += b" " * (-len(text) % ALIGNMENT)
    return len(text).to_bytes(8, "little") + text


def _aligned(tensors: Mapping[str, Described]) -> list[str]:
    """The largest numbers first, as the library orders them: so each tensor begins at a multiple of their size."""
    return sorted(tensors, key=lambda name: -tensors[name][0].itemsize)


def _view(path: Path, name: str, entry: Any, data: NDArray[np.uint8]) -> NDArray[Any] | None:  # noqa: ANN401 - JSON
    """A tensor among the data of a file; None for numbers of a kind that numpy does not have."""
    try:
        kind = {**DTYPES, "BF16": "<u2"}.get(str(entry["dtype"]))
        shape = tuple(int(extent) for extent in entry["shape"])
        start, end = (int(offset) for offset in entry["data_offsets"])
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise _damaged(path, f"tensor {name!r} is not described as the format asks") from error
    if min((start, *shape)) < 0 or not start <= end <= len(data):
        raise _damaged(path, f"tensor {name!r} does not fit the file")
    if kind is None:
        return None
    if end - start != math.prod(shape) * np.dtype(kind).itemsize:
        raise _damaged(path, f"tensor {name!r} does not fit the file")
    try:
        return data[start:end].view(kind).reshape(shape)
    except (ValueError, OverflowError) as error:
        raise _damaged(path, f"tensor {name!r} has {len(shape)} dimensions") from error


def _damaged(path: Path, why: str) -> SgnsError:
    return SgnsError(f"{path} is no whole safetensors file: {why}", "copy or make the file again")
