"""The .npy files that we write are numpy's, and a disk that refuses says why."""

import errno
import resource
from pathlib import Path

import numpy as np
import pytest

from sgns_cli.npy import grow_npy, write_npy

FLOAT = np.dtype("<f4")


@pytest.mark.parametrize("dtype", ["<f4", "<i8", "|b1"])
@pytest.mark.parametrize("shape", [(4, 3), (12,), (2, 2, 3), (0, 3)])
def test_numpy_reads_it(tmp_path: Path, dtype: str, shape: tuple[int, ...]) -> None:
    array = np.random.default_rng(0).normal(size=shape).astype(dtype)
    pieces = (array[start : start + 3] for start in range(0, len(array), 3))
    write_npy(tmp_path / "pieces.npy", pieces, dtype=np.dtype(dtype), shape=shape)
    np.save(tmp_path / "numpys.npy", array)
    loaded = np.load(tmp_path / "pieces.npy")
    assert (loaded.dtype, loaded.shape) == (array.dtype, shape)
    assert (tmp_path / "pieces.npy").read_bytes() == (tmp_path / "numpys.npy").read_bytes()


@pytest.mark.parametrize("row_shape", [(), (1,), (0, 10**9), (3, 0, 10**4, 10**4), (0, *[2] * 20)])
def test_an_array_grows(tmp_path: Path, row_shape: tuple[int, ...]) -> None:
    lengths = [1, 0, 9, 10**5 if 0 in row_shape else 90, 1]
    rows = [np.full((length, *row_shape), length, dtype=FLOAT) for length in lengths]
    with grow_npy(tmp_path / "x.npy", dtype=FLOAT, row_shape=row_shape) as array:
        assert array.shape == (0, *row_shape)
        for some in rows:
            array.append(some)
        assert array.shape == (sum(lengths), *row_shape)
    np.save(tmp_path / "numpys.npy", np.concatenate(rows))
    assert (tmp_path / "x.npy").read_bytes() == (tmp_path / "numpys.npy").read_bytes()


def test_pieces_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"wrote \(2, 3\) of \(4, 3\)"):
        write_npy(tmp_path / "x.npy", [np.zeros((2, 3))], dtype=FLOAT, shape=(4, 3))
    with pytest.raises(ValueError, match=r"rows of shape \(2,\) for a file of rows of shape \(3,\)"):
        write_npy(tmp_path / "x.npy", [np.zeros((6, 2))], dtype=FLOAT, shape=(4, 3))


def test_a_disk_that_refuses_says_why(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(OSError) as caught:
            write_npy(tmp_path / "x.npy", [np.zeros(10_000)], dtype=np.dtype("<f8"), shape=(10_000,))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert caught.value.errno == errno.EFBIG
