"""Vectors that word2vec, GloVe, fastText or gensim wrote: word2vec text and binary, GloVe text.

    word2vec text      "R dim" in the first line, then a line a row: name, dim numbers
    word2vec binary    the same first line, then for each row: name, a space, dim float32, mostly a newline
    GloVe              text without the first line

Files are read in one pass into one matrix; row i is token id i. They say nothing of counts, and are sorted by them as
a rule. Numpy only.
"""

import mmap
import os
import warnings
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from sgns_cli.errors import SgnsError
from sgns_cli.vectors.model import Model
from sgns_cli.vectors.names import tokens_of

BOM = b"\xef\xbb\xbf"
LINES_AT_ONCE = 1000
LONGEST_LINE = 2**22  # of the first lines; of a row, by its numbers
LONGEST_NAME = 2**16  # bytes
LONGEST_NUMBER = 64
SAMPLED = 64  # lines of a GloVe file, which show how many numbers a row has
PACKED = {
    b"\x1f\x8b\x08": "gzip",
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
    b"PK\x03\x04": "zip",
    b"\x28\xb5\x2f\xfd": "zstd",
}


def open_word_vectors(path: Path) -> Model:
    """Read a file of word vectors. Raises SgnsError that names the line or row if it is broken."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            start = len(BOM) if file.read(len(BOM)) == BOM else 0
            file.seek(start)
            header = _header(path, file.readline(LONGEST_LINE), size)
            if header is None:
                file.seek(start)
                names, matrix = _read_glove(path, file)
            elif _is_text(file, header[1]):
                names, matrix = _read_lines(path, file, *header, first=2)
                if file.readline().strip():
                    raise _broken(path, f"it announces {header[0]} rows and has more")
            else:
                names, matrix = _read_binary(path, file, *header)
    except OSError as error:
        raise SgnsError(f"cannot read {path}: {error.strerror}", "check the path") from error
    tokenizer, notes = tokens_of(names)
    return Model(path=path, embeddings=matrix, load_tokenizer=lambda: tokenizer, notes=notes)


def _header(path: Path, line: bytes, size: int) -> tuple[int, int] | None:
    """Rows and dim of word2vec's first line; None for a line that may be a row. Raises SgnsError for neither."""
    fields = line.split()
    if len(fields) == 2 and all(field.isdigit() and len(field) < 19 for field in fields):
        rows, dim = map(int, fields)
        if rows < 1 or dim < 1:
            raise _broken(path, f"its first line says {rows} rows of {dim} numbers")
        if rows * (2 * dim + 1) > size:  # a digit and a space for each number, at the least
            raise _broken(path, f"it announces {rows} rows of {dim} numbers, more than {size} bytes can hold")
        return rows, dim
    if packed := next((kind for magic, kind in PACKED.items() if line.startswith(magic)), None):
        raise SgnsError(f"{path} is packed with {packed}", "unpack it first")
    if len(fields) < 3 or _numbers(fields[-1]) is None:  # rows of one number are no GloVe file that anybody made
        raise SgnsError(
            f"{path} is no file of vectors: its first line is neither `ROWS DIM` nor a word with numbers",
            "name a run folder, or a word2vec, GloVe or .safetensors file",
        )
    return None


def _is_text(file: BinaryIO, dim: int) -> bool:
    """Whether a row of text follows; the file is where it was afterwards."""
    start = file.tell()
    fields = file.readline(LONGEST_LINE).split()
    file.seek(start)
    tails = (_numbers(b" ".join(fields[first:])) for first in (1, -dim))  # the second, of a name with spaces
    return any(values is not None and len(values) > 0 for values in tails)


def _read_glove(path: Path, file: BinaryIO) -> tuple[list[bytes], NDArray[np.float32]]:
    """Most of the first lines have one name and dim numbers; names with spaces in them are few."""
    start = file.tell()
    size = os.fstat(file.fileno()).st_size
    widths = Counter(len(line.split()) - 1 for line in islice(_lines(file, LONGEST_LINE), SAMPLED) if line.strip())
    dim = min(widths, key=lambda width: (-widths[width], width))
    file.seek(start)
    rows = 0
    last = b"\n"
    while block := file.read(LONGEST_LINE):
        if len(block) == LONGEST_LINE and b"\n" not in block:
            raise _broken(path, f"there is no end of a line in {LONGEST_LINE} bytes")
        rows += block.count(b"\n")
        last = block[-1:]
    rows += last != b"\n"
    file.seek(start)
    if dim < 1:
        raise _broken(path, "it has a line without numbers")
    if rows * (2 * dim + 1) > size:
        raise _broken(path, f"it begins with rows of {dim} numbers, and has {rows} lines in {size} bytes")
    return _read_lines(path, file, rows, dim, first=1)


def _read_lines(
    path: Path, file: BinaryIO, rows: int, dim: int, *, first: int
) -> tuple[list[bytes], NDArray[np.float32]]:
    """`rows` lines of text; `first` is the number of the first."""
    names: list[bytes] = []
    matrix = np.empty((rows, dim), dtype=np.float32)
    longest = LONGEST_NAME + LONGEST_NUMBER * dim
    lines = _lines(file, longest)
    while len(names) < rows:
        batch = list(islice(lines, min(LINES_AT_ONCE, rows - len(names))))
        number = first + len(names)
        if not batch:
            raise _broken(path, f"it announces {rows} rows and ends after {len(names)}")
        if len(max(batch, key=len)) == longest:
            raise _broken(path, f"a line after line {number - 1} is longer than a name and {dim} numbers")
        found, part = _parse(batch, dim) or _parse_slowly(path, batch, number, dim)
        if not np.isfinite(part).all():
            at = int(np.flatnonzero(~np.isfinite(part).all(axis=1))[0])
            raise _broken(path, f"line {number + at} has a number that is not finite")
        matrix[len(names) : len(names) + len(batch)] = part
        names += found
    return names, matrix


def _lines(file: BinaryIO, longest: int) -> Iterator[bytes]:
    """The lines of a file; of one that is longer than that, pieces."""
    return iter(lambda: file.readline(longest), b"")


def _parse(lines: list[bytes], dim: int) -> tuple[list[bytes], NDArray[np.float32]] | None:
    """The names and numbers of lines that have one space between any two fields, as nearly all do; else None."""
    names, _, texts = zip(*(line.strip().partition(b" ") for line in lines), strict=True)
    if any(text.count(b" ") != dim - 1 for text in texts):
        return None
    values = _numbers(b" ".join(texts))
    return None if values is None or len(values) != len(lines) * dim else (list(names), values.reshape(-1, dim))


def _parse_slowly(path: Path, lines: list[bytes], first: int, dim: int) -> tuple[list[bytes], NDArray[np.float32]]:
    """Any other lines: names with spaces in them, tabs. Raises SgnsError for the first line that is no row."""
    names = []
    part = np.empty((len(lines), dim), dtype=np.float32)
    for row, line in enumerate(lines):
        name, *fields = line.strip().rsplit(None, dim) or [b""]
        if len(fields) != dim:
            raise _broken(path, f"line {first + row} has {len(fields) + bool(name)} fields, a row has {dim + 1}")
        values = _numbers(b" ".join(fields))
        if values is None or len(values) != dim:
            raise _broken(path, f"line {first + row} has something else than {dim} numbers behind its word")
        if b" " in name and _numbers(name.split()[-1]) is not None:
            raise _broken(path, f"line {first + row} has more than {dim} numbers behind its word")
        names.append(name)
        part[row] = values
    return names, part


def _read_binary(path: Path, file: BinaryIO, rows: int, dim: int) -> tuple[list[bytes], NDArray[np.float32]]:
    names: list[bytes] = []
    matrix = np.empty((rows, dim), dtype=np.float32)
    width = 4 * dim
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        at = file.tell()
        for row in range(rows):
            space = data.find(b" ", at, at + LONGEST_NAME)
            if space < 0 and at + LONGEST_NAME < len(data):
                raise _broken(path, f"row {row + 1} has a name of more than {LONGEST_NAME} bytes")
            if space < 0 or space + 1 + width > len(data):
                raise _broken(path, f"it announces {rows} rows and ends in row {row + 1}")
            names.append(data[at:space].lstrip(b"\n"))
            matrix[row] = np.frombuffer(data, "<f4", dim, space + 1)
            at = space + 1 + width
        if data[at : at + 2].strip():
            raise _broken(path, f"it announces {rows} rows and has more")
    finite = np.isfinite(matrix).all(axis=1)
    if not finite.all():
        row = int(np.flatnonzero(~finite)[0])
        raise _broken(path, f"row {row + 1} ({names[row].decode(errors='replace')}) has a number that is not finite")
    return names, matrix


def _numbers(text: bytes) -> NDArray[np.float32] | None:
    """All numbers in some text, or None if something else is in it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", DeprecationWarning)  # of what is no number
            return np.fromstring(text.decode("ascii"), dtype=np.float32, sep=" ")
    except (ValueError, DeprecationWarning):
        return None


def _broken(path: Path, why: str) -> SgnsError:
    return SgnsError(f"{path} is broken: {why}", "mend the file, or make it again")
