"""Our .safetensors files against the library's own readers: written at once, and grown row by row."""

import errno
import json
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
import safetensors.torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open

from sgns_cli.npy import RowWriter
from sgns_cli.tensors import DTYPES, Described, TensorStream, grow_tensors, map_tensors, whole, write_tensors

FLOAT, INT, BOOL = np.dtype("<f4"), np.dtype("<i8"), np.dtype("|b1")
ROWS: dict[str, Described] = {"vectors": (FLOAT, (3,)), "ids": (INT, ()), "offsets": (INT, ()), "mask": (BOOL, (5,))}


def random_rows(row: Described, length: int) -> np.ndarray:
    dtype, shape = row
    return np.random.default_rng(length).integers(0, 2 if dtype == BOOL else 100, (length, *shape)).astype(dtype)


def layout(path: Path) -> tuple[int, dict[str, dict]]:
    """Where the data of a file begins, and its header."""
    data = path.read_bytes()
    begin = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:begin])
    assert begin + max(entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__") == len(
        data
    )
    return begin, {name: entry for name, entry in header.items() if name != "__metadata__"}


def check(path: Path, expected: dict[str, np.ndarray]) -> None:
    """Every reader finds these arrays in the file, and each begins at a multiple of the size of its numbers."""
    begin, header = layout(path)
    assert begin % 8 == 0
    for entry in header.values():
        assert entry["data_offsets"][0] % np.dtype(DTYPES[entry["dtype"]]).itemsize == 0
    torchs = safetensors.torch.load_file(path)
    with safe_open(path, "np") as file:
        opened = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - it is no mapping
    read = safetensors.numpy.load_file(path), {name: one.numpy() for name, one in torchs.items()}, opened
    for arrays in (*read, map_tensors(path)):
        assert arrays.keys() == expected.keys()
        for name, array in arrays.items():
            assert (array.dtype, array.shape) == (expected[name].dtype, expected[name].shape)
            assert np.array_equal(array, expected[name])


@pytest.mark.parametrize("rows", [0, 1, 2, 7])
def test_the_library_reads_what_is_written_at_once(tmp_path: Path, rows: int) -> None:
    arrays = {name: random_rows(row, rows) for name, row in ROWS.items()}
    write_tensors(tmp_path / "x.safetensors", {name: whole(array) for name, array in arrays.items()})
    check(tmp_path / "x.safetensors", arrays)


def test_pieces_must_fill_a_tensor(tmp_path: Path) -> None:
    short = TensorStream(INT, (2,), [np.zeros(1, INT)])
    with pytest.raises(ValueError, match="ids: wrote 8 bytes of 16"):
        write_tensors(tmp_path / "x.safetensors", {"ids": short})


@settings(max_examples=40)
@given(
    shapes=st.dictionaries(
        st.sampled_from(["vectors", "ids", "mask", "a name\nfor \U0001f40e"]),
        st.tuples(st.sampled_from([FLOAT, INT, BOOL]), st.lists(st.integers(0, 5), max_size=2).map(tuple)),
        min_size=1,
    ),
    data=st.data(),
)
def test_the_library_reads_what_grew(
    tmp_path_factory: pytest.TempPathFactory, shapes: dict[str, Described], data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("grown")
    written = {name: [np.zeros((0, *shape), dtype)] for name, (dtype, shape) in shapes.items()}
    turns = data.draw(st.lists(st.tuples(st.sampled_from(sorted(shapes)), st.integers(0, 9)), max_size=12))
    with grow_tensors(folder / "x.safetensors", shapes) as writers:
        for name, length in turns:
            rows = random_rows(shapes[name], length)
            writers[name].append(rows)
            written[name].append(rows)
        shown = {name: writer.shape for name, writer in writers.items()}
    arrays = {name: np.concatenate(pieces) for name, pieces in written.items()}
    assert shown == {name: array.shape for name, array in arrays.items()}
    check(folder / "x.safetensors", arrays)
    assert [path.name for path in folder.iterdir()] == ["x.safetensors"]


def test_rows_that_keep_the_others_aligned_go_straight_into_the_file(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    for dim, straight in ((4, True), (3, False)):
        with grow_tensors(path, {**ROWS, "vectors": (FLOAT, (dim,))}) as writers:
            begin = path.stat().st_size
            writers["ids"].append(np.arange(2**20))
            assert path.stat().st_size == begin
            writers["vectors"].append(np.zeros((2**20, dim), FLOAT))
            assert (path.stat().st_size > 2**20) is straight
        assert layout(path)[1]["vectors"]["data_offsets"][0] == (0 if straight else 2**23)


def test_a_failure_leaves_no_file_beside_it(tmp_path: Path) -> None:
    with pytest.raises(OSError) as caught, grow_tensors(tmp_path / "x.safetensors", ROWS) as writers:
        writers["ids"].append(np.arange(10))
        raise OSError(errno.ENOSPC, "No space left on device")
    assert caught.value.errno == errno.ENOSPC
    assert [path.name for path in tmp_path.iterdir()] == ["x.safetensors"]


def test_rows_of_another_shape_are_refused(tmp_path: Path) -> None:
    with grow_tensors(tmp_path / "x.safetensors", ROWS) as writers:
        assert isinstance(writers["vectors"], RowWriter)
        with pytest.raises(ValueError, match=r"rows of shape \(4,\)"):
            writers["vectors"].append(np.zeros((2, 4)))
