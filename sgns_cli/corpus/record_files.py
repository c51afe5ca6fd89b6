"""Records of .jsonl, .csv and .tsv files: the text of one column, as it stands in the file.

Read line by line with Python's own json and csv. `datasets`, which reads the other structured sources, guesses types
from blocks of a file: it turns texts that look like dates into others, and refuses a file for columns nobody asked for.
"""

import csv
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from sgns_cli.config import DataConfig
from sgns_cli.corpus.findings import Findings
from sgns_cli.corpus.text_documents import file_lines
from sgns_cli.errors import SgnsError

MOST_WITHOUT = 100_000  # records at the start that may lack the column
Records = Iterator[tuple[object, int]]  # the column's value, None where there is none; bytes read so far, on disk


def json_records(path: Path, data: DataConfig, findings: Findings) -> Records:
    """The column of each line of a .jsonl file. Raises SgnsError with the line of what is no JSON object."""
    names: set[str] = set()
    seen = False
    number = 0
    for number, (line, bytes_read) in enumerate(file_lines(path, errors=data.errors, findings=findings), start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise SgnsError(f"{path}, line {number}: no JSON: {error}", "correct the line, or leave it out") from error
        if not isinstance(record, dict):
            raise SgnsError(f"{path}, line {number}: no JSON object", 'a line should be like {"text": "..."}')
        if data.column in record:
            seen = True
        elif len(names) < 1000:
            names.update(record)
            if not seen and number > MOST_WITHOUT:
                break
        yield _text(record.get(data.column), path, number, data), bytes_read
    if names and not seen:
        raise missing_column(str(path), data.column, sorted(names))


def table_records(path: Path, data: DataConfig, findings: Findings, *, delimiter: str) -> Records:
    """The column of each row of a .csv or .tsv file, whose first row has the names. Raises SgnsError with the line of
    a row that has more fields than that, or is no row.
    """
    csv.field_size_limit(min(sys.maxsize, 2**31 - 1))  # a field may be a whole text
    bytes_read = 0
    of_row: list[str] = []  # the lines of the row at hand

    def lines() -> Iterator[str]:
        nonlocal bytes_read
        for line, bytes_read in file_lines(path, errors=data.errors, findings=findings):  # noqa: B007 - it is read below
            of_row.append(f"{line}\n")
            yield line + "\n"

    rows = csv.reader(lines(), delimiter=delimiter)
    try:
        header = next(rows, [])
        if header and data.column not in header:
            raise missing_column(str(path), data.column, header)
        place = header.index(data.column) if header else 0
        of_row.clear()
        last: list[str] = []
        for row in rows:
            last = list(of_row)
            of_row.clear()
            if not row:
                continue
            if len(row) > len(header):
                raise SgnsError(
                    f"{path}, line {rows.line_num}: {len(row)} fields, and the header has {len(header)}",
                    'put a field that has the delimiter in it between quotes: "a, b"',
                )
            yield row[place] if place < len(row) else None, bytes_read
        if len(last) > 1 and _is_open(last, delimiter):
            first = rows.line_num - len(last) + 1
            raise SgnsError(f"{path}, line {first}: a quote is opened and never closed", "close it, or write it twice")
    except csv.Error as error:
        raise SgnsError(f"{path}, line {rows.line_num}: {error}", "is it a whole table?") from error


def _is_open(lines: list[str], delimiter: str) -> bool:
    """Whether the last row of a table ends within quotes, which Python's reader passes over but for its strict mode."""
    try:
        list(csv.reader(lines, delimiter=delimiter, strict=True))
    except csv.Error as error:
        return "unexpected end" in str(error)
    return False


def missing_column(origin: str, column: str, there: list[str]) -> SgnsError:
    """What to say of records that lack the column."""
    return SgnsError(
        f"{origin} has no column {column!r}", f"give --set data.column=NAME; the columns are: {', '.join(there)}"
    )


def wrong_type(origin: str, column: str, value: object) -> SgnsError:
    """What to say of a column that holds something else than text."""
    return SgnsError(
        f"{origin}: column {column!r} holds {type(value).__name__}, not text",
        "give --set data.column=NAME with the name of another column",
    )


def _text(value: object, path: Path, number: int, data: DataConfig) -> object:
    if value is not None and not isinstance(value, str):
        raise wrong_type(f"{path}, line {number}", data.column, value)
    return value
