"""word2vec's two formats and GloVe's, as gensim's KeyedVectors reads them; word_vectors.py reads them here.

    word2vec text      "R dim" in the first line, then a line a row: name, dim numbers
    word2vec binary    the same first line, then for each row: name, a space, dim float32, a newline
    GloVe              text without the first line

Numbers have as many digits as it takes to read the same float back.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from sgns_cli.vectors.export.selection import NamedRows, Selection, Written, name_rows

DIGITS = {"float32": b"%.9g", "float16": b"%.5g"}
LINES_AT_ONCE = 1000


def write_word2vec(path: Path, selection: Selection) -> Written:
    """Write word2vec text."""
    return _write_text(path, selection, header=True)


def write_glove(path: Path, selection: Selection) -> Written:
    """Write GloVe text."""
    return _write_text(path, selection, header=False)


def write_word2vec_binary(path: Path, selection: Selection) -> Written:
    """Write word2vec binary, byte for byte as word2vec.c does."""
    named = name_rows(selection)
    with path.open("wb") as file:
        file.write(_header(selection, named))
        for names, rows in _batches(selection, named):
            vectors = rows.astype("<f4", copy=False)
            file.writelines(b"%b %b\n" % (name, row.tobytes()) for name, row in zip(names, vectors, strict=True))
    return Written(len(named.ids), named.notes)


def _write_text(path: Path, selection: Selection, *, header: bool) -> Written:
    named = name_rows(selection)
    line = b" ".join([b"%b", *[DIGITS[selection.dtype]] * selection.model.dim]) + b"\n"
    with path.open("wb") as file:
        if header:
            file.write(_header(selection, named))
        for names, rows in _batches(selection, named):
            file.writelines(line % (name, *row) for name, row in zip(names, rows.tolist(), strict=True))
    return Written(len(named.ids), named.notes)


def _header(selection: Selection, named: NamedRows) -> bytes:
    return b"%d %d\n" % (len(named.ids), selection.model.dim)


def _batches(selection: Selection, named: NamedRows) -> Iterator[tuple[list[bytes], NDArray[Any]]]:
    """Names and their vectors, few enough at once that Python's own numbers of them take little memory."""
    at = 0
    for piece in selection.pieces(named.ids):
        for start in range(0, len(piece), LINES_AT_ONCE):
            rows = piece[start : start + LINES_AT_ONCE]
            yield named.names[at : at + len(rows)], rows
            at += len(rows)
