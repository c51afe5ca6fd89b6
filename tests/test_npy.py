"""The .npy files that we write are numpy's, and a disk that refuses says why."""

import errno
import resource
from pathlib import Path

import numpy as np
import pytest

from sgns_cli.npy import write_npy


@pytest.mark.parametrize("dtype", ["<f4", "<i8", "|b1"])
@pytest.mark.parametrize("shape", [(4, 3), (12,), (2, 2, 3), (0, 3)])
def test_numpy_reads_it(tmp_path: Path, dtype: str, shape: tuple[int, ...]) -> None:
    array = np.random.default_rng(0).normal(size=shape).astype(dtype)
    write_npy(tmp_path / "pieces.npy", iter(array), dtype=np.dtype(dtype), shape=shape)
    np.save(tmp_path / "numpys.npy", array)
    loaded = np.load(tmp_path / "pieces.npy")
    assert (loaded.dtype, loaded.shape) == (array.dtype, shape)
    assert (tmp_path / "pieces.npy").read_bytes() == (tmp_path / "numpys.npy").read_bytes()


def test_a_disk_that_refuses_says_why(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(OSError) as caught:
            write_npy(tmp_path / "x.npy", [np.zeros(10_000)], dtype=np.dtype("<f8"), shape=(10_000,))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert caught.value.errno == errno.EFBIG
