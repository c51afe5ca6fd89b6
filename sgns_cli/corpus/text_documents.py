r"""Plain text to documents: files are read in blocks, decoded as they come, and cut into lines or paragraphs.

Only \n and \r\n end a line. A byte-order mark at the start is dropped. Memory is a block and the longest
document. Which files are read is sources.py's business.
"""

import codecs
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

from sgns_cli.corpus.findings import Findings, looks_like
from sgns_cli.corpus.unpack import DAMAGED, unpacked
from sgns_cli.errors import SgnsError
from sgns_cli.machine import available_memory
from sgns_cli.progress import amount

LONG = 2**28  # characters of one document, from which on it is asked whether there is room for it
A_CHARACTER = 8  # bytes that a character of a document takes until it is ids: the text, copies of it, the ids
BLOCK = 2**20  # one batch: larger ones cost memory, smaller ones the threads that encode them wait for each other more
FEW_NULS = 16  # in the first block: more of them, and more than one byte in ten, make a file no text
BYTE_ORDER_MARK = "\ufeff"
Errors = Literal["strict", "replace"]


@dataclass(frozen=True)
class DocumentBatch:
    """Some documents of one source, in order; there is at least one, and none is empty."""

    origin: str  # the file's or the data set's name, for people
    first: int  # the number of the first document in its source, from 1
    texts: list[str]
    bytes_read: int  # of this source so far, as it lies on disk; of records, characters of text


@dataclass(frozen=True)
class TextBlock:
    text: str
    bytes_read: int


def file_documents(
    path: Path,
    *,
    document: Literal["line", "paragraph", "file"],
    lowercase: bool,
    errors: Errors,
    findings: Findings | None = None,
) -> Iterator[DocumentBatch]:
    """The documents of a text file, compressed or not. Raises SgnsError if it is unreadable or not UTF-8."""
    blocks = file_blocks(path, errors=errors, findings=findings)
    return stream_documents(blocks, str(path), document=document, lowercase=lowercase)


def file_lines(path: Path, *, errors: Errors, findings: Findings | None = None) -> Iterator[tuple[str, int]]:
    """Each line of a file without its end, empty ones too, and the bytes on disk that were read for it."""
    for lines, bytes_read in _all_lines(file_blocks(path, errors=errors, findings=findings)):
        for line in lines:
            yield line, bytes_read


def file_blocks(path: Path, *, errors: Errors, findings: Findings | None = None) -> Iterator[TextBlock]:
    """The text of a file, compressed or not, in blocks. Raises SgnsError if it is unreadable or not UTF-8."""
    with ExitStack() as stack:
        try:
            raw = stack.enter_context(path.open("rb"))
            stream = stack.enter_context(unpacked(raw, path))
            yield from read_blocks(stream, str(path), errors=errors, raw=raw, findings=findings)
        except (OSError, *DAMAGED) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise SgnsError(f"cannot read {path}: {error.strerror}", "check the file and its rights") from error
            raise SgnsError(
                f"cannot unpack {path}: {error}", "the file is damaged or cut short; fetch it again"
            ) from error


def read_blocks(
    stream: BinaryIO, name: str, *, errors: Errors, raw: BinaryIO | None = None, findings: Findings | None = None
) -> Iterator[TextBlock]:
    """Decode a stream block by block. Raises SgnsError with the offset in `stream` of a byte that is not UTF-8, and
    for a stream that looks like no text at all, unless errors are to be replaced.
    """
    findings = findings or Findings(name)
    data = b""
    offset = 0  # of data[0] in the stream
    start = True
    while True:
        block = stream.read(BLOCK)
        data += block
        try:
            text, used = codecs.utf_8_decode(data, errors, not block)
        except UnicodeDecodeError as error:
            wrong = f"is not UTF-8 at byte {offset + error.start}: 0x{data[error.start]:02X}"
            raise _no_text(name, wrong, data, offset) from error
        findings.look(text, data[:used], offset)
        if errors == "strict" and offset == 0 and findings.nul_bytes > max(FEW_NULS, used // 10):
            raise _no_text(name, f"is no text: {findings.nul_bytes:,} of its first {used:,} bytes are NUL", data, 0)
        offset += used
        data = data[used:]
        if start and text:
            text = text.removeprefix(BYTE_ORDER_MARK)
            start = False
        if text:
            yield TextBlock(text, raw.tell() if raw and raw.seekable() else offset)
        if not block:
            return


def _no_text(name: str, wrong: str, data: bytes, offset: int) -> SgnsError:
    return SgnsError(
        f"{name} {wrong}{looks_like(data, at_start=offset == 0)}",
        "convert it to UTF-8, leave it out, or give --set data.errors=replace",
    )


def stream_documents(
    blocks: Iterator[TextBlock],
    origin: str,
    *,
    document: Literal["line", "paragraph", "file"],
    lowercase: bool,
) -> Iterator[DocumentBatch]:
    """Cut decoded blocks into documents, a batch for about each block."""
    cut = {"line": _lines, "paragraph": _paragraphs, "file": _whole}[document]
    number = 1
    for texts, bytes_read in cut(blocks):
        if texts:
            batch = [text.lower() for text in texts] if lowercase else texts
            yield DocumentBatch(origin, number, batch, bytes_read)
            number += len(texts)


def _whole(blocks: Iterator[TextBlock]) -> Iterator[tuple[list[str], int]]:
    parts: list[str] = []
    length = bytes_read = 0
    for block in blocks:
        length = _grown(length, block.text)
        parts.append(block.text)
        bytes_read = block.bytes_read
    text = "".join(parts)
    yield ([text] if text else []), bytes_read


def _lines(blocks: Iterator[TextBlock]) -> Iterator[tuple[list[str], int]]:
    for lines, bytes_read in _all_lines(blocks):
        yield [line for line in lines if line], bytes_read


def _paragraphs(blocks: Iterator[TextBlock]) -> Iterator[tuple[list[str], int]]:
    """Runs of lines joined by a newline; a line with nothing but whitespace in it is blank."""
    paragraph: list[str] = []
    length = bytes_read = 0
    for lines, bytes_read in _all_lines(blocks):
        texts = []
        for line in lines:
            if line and not line.isspace():
                length = _grown(length, line)
                paragraph.append(line)
            elif paragraph:
                texts.append("\n".join(paragraph))
                paragraph, length = [], 0
        yield texts, bytes_read
    if paragraph:
        yield ["\n".join(paragraph)], bytes_read


def _all_lines(blocks: Iterator[TextBlock]) -> Iterator[tuple[list[str], int]]:
    """Every line without its end, empty ones too; the last line needs no end."""
    pieces: list[str] = []  # of a line whose end has not come yet
    length = bytes_read = 0
    for block in blocks:
        bytes_read = block.bytes_read
        end = block.text.rfind("\n")
        if end < 0:
            length = _grown(length, block.text)
            pieces.append(block.text)
            continue
        pieces.append(block.text[:end])
        text = "".join([*pieces, "\n"])
        pieces, length = [block.text[end + 1 :]], 0
        yield text.replace("\r\n", "\n")[:-1].split("\n"), bytes_read
    rest = "".join(pieces)
    if rest:
        yield [rest], bytes_read


def _grown(length: int, more: str) -> int:
    """The length of a document that becomes longer. Raises SgnsError if there is no room for it: a small packed file
    may hold a line without an end.
    """
    before, length = length, length + len(more)
    if length // LONG > before // LONG and A_CHARACTER * length > (there := available_memory()):
        raise SgnsError(
            f"a document of more than {length:,} characters has no room in memory ({amount(there, 'B')} are available)",
            "cut it into lines, or read it where there is more memory",
        )
    return length
