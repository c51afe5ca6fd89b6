"""The .npy format, written row by row: an array may become longer while it is written.

`numpy.save` writes through C, which loses the system's reason when a disk refuses ("100 requested and 60 written");
here every failure is an OSError that says why. Numpy only; reading is numpy's business.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray


class RowWriter:
    """Rows written to a file one after another, and counted."""

    def __init__(self, file: BinaryIO, dtype: np.dtype[Any], row_shape: tuple[int, ...]) -> None:
        self._file = file
        self._dtype = dtype
        self._row_shape = row_shape
        self._rows = 0

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of all rows so far: [rows, *row_shape]."""
        return (self._rows, *self._row_shape)

    def append(self, rows: NDArray[Any]) -> None:
        """Write more rows, [n, *row_shape]. Raises ValueError for rows of another shape."""
        if rows.shape[1:] != self._row_shape:
            raise ValueError(f"rows of shape {rows.shape[1:]} for a file of rows of shape {self._row_shape}")
        if rows.size:
            self._file.write(np.ascontiguousarray(rows, dtype=self._dtype).data)
        self._rows += len(rows)


@contextmanager
def grow_npy(path: Path, *, dtype: np.dtype[Any], row_shape: tuple[int, ...]) -> Iterator[RowWriter]:
    """Write an array of any number of rows: yield what takes them; the number goes into the header at the end."""
    with path.open("wb") as file:
        _write_header(file, dtype, (0, *row_shape))
        begin = file.tell()
        rows = RowWriter(file, dtype, row_shape)
        yield rows
        file.seek(0)
        _write_header(file, dtype, rows.shape)  # as long as before: numpy leaves the first number room to grow
        if file.tell() != begin:
            raise ValueError(f"the header of {path} became {file.tell()} bytes, where there is room for {begin}")


def write_npy(path: Path, pieces: Iterable[NDArray[Any]], *, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
    """Write one array of `shape` from pieces, [n, *shape[1:]] each. Raises ValueError if they do not fill it."""
    with grow_npy(path, dtype=dtype, row_shape=shape[1:]) as array:
        for piece in pieces:
            array.append(piece)
        if array.shape != shape:
            raise ValueError(f"{path}: wrote {array.shape} of {shape}")


def _write_header(file: BinaryIO, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
    header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)
