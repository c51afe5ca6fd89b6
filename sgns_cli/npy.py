"""The .npy format, written piece by piece.

`numpy.save` writes through C, which loses the system's reason when a disk refuses ("100 requested and 60 written");
here every failure is an OSError that says why. Numpy only; reading is numpy's business.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


def write_npy(path: Path, pieces: Iterable[NDArray[Any]], *, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
    """Write one array of `shape` from pieces whose values follow one another."""
    header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for piece in pieces:
            file.write(np.ascontiguousarray(piece, dtype=dtype).tobytes())
