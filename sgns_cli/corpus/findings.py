"""What a pass over a source finds that people should know of: records without text, NUL bytes, replaced bytes; and
what a file that is no text looks like.

Findings are said at the end and stop nothing.
"""

from collections.abc import Iterator
from dataclasses import dataclass

REPLACEMENT = "\ufffd"
MAGIC = {  # the first bytes of files that are often taken for text
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
    b"\x1f\x8b": "a .gz file",
    b"\xfd7zXZ\x00": "a .xz file",
    b"BZh": "a .bz2 file",
    b"(\xb5/\xfd": "a .zst file",
    b"PK\x03\x04": "a .zip file",
    b"%PDF-": "a PDF file",
    b"PAR1": "a .parquet file",
}


@dataclass
class Findings:
    """Of one source; `origin` is its name for people."""

    origin: str
    without_text: int = 0  # records
    nul_bytes: int = 0
    first_nul: int = 0  # its offset
    replaced: int = 0  # places where bytes were not UTF-8

    def look(self, text: str, data: bytes, offset: int) -> None:
        """Take note of a piece of text, and of the bytes that it was decoded from, which begin at `offset`."""
        if 0 in data:
            if not self.nul_bytes:
                self.first_nul = offset + data.index(0)
            self.nul_bytes += data.count(0)
        if REPLACEMENT in text:
            self.replaced += text.count(REPLACEMENT) - data.count(REPLACEMENT.encode())

    def notes(self, column: str) -> Iterator[str]:
        """For people; `column` is where records have their text."""
        if self.without_text:
            yield f"{self.origin}: {_count(self.without_text, 'record')} without text in {column!r}, left out"
        if self.nul_bytes:
            yield f"{self.origin}: {_count(self.nul_bytes, 'NUL byte')} in the text, the first at byte {self.first_nul}"
        if self.replaced:
            yield f"{self.origin}: {_count(self.replaced, 'place')} not UTF-8, replaced by U+FFFD"


def looks_like(data: bytes, *, at_start: bool) -> str:
    """A few words on bytes that are no text, to end a sentence with, or nothing. `at_start`: of their file."""
    if at_start:
        for magic, kind in MAGIC.items():
            if data.startswith(magic):
                return f" (it looks like {kind})"
        zeros = [data[parity::2].count(0) for parity in (0, 1)]
        if max(zeros) > len(data) // 4 and min(zeros) < max(zeros) // 10:
            return " (it looks like UTF-16)"
    return " (it looks like a binary file)" if 0 in data else ""


def _count(number: int, of: str) -> str:
    return f"{number:,} {of}" if number == 1 else f"{number:,} {of}s"
