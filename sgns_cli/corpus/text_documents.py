r"""Plain text to documents: files are read in large blocks, decoded as they come, and cut into lines or
paragraphs.

Only \n and \r\n end a line. A byte-order mark at the start is dropped. Memory is a block and the longest
document. Which files are read is sources.py's business.
"""

import bz2
import codecs
import gzip
import lzma
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal, cast

from sgns_cli.errors import SgnsError

BLOCK = 2**20
COMPRESSED = (".gz", ".xz", ".bz2")
BYTE_ORDER_MARK = "\ufeff"
Errors = Literal["strict", "replace"]


@dataclass(frozen=True)
class DocumentBatch:
    """Some documents of one source, in order; none of them is empty, and there may be none."""

    origin: str  # the file's or the data set's name, for people
    first: int  # the number of the first document in its source, from 1
    texts: list[str]
    bytes_read: int  # of this source so far, as it lies on disk
    without_text: int = 0  # records read for this batch that had no text


@dataclass(frozen=True)
class TextBlock:
    text: str
    bytes_read: int


def file_documents(
    path: Path, *, document: Literal["line", "paragraph", "file"], lowercase: bool, errors: Errors
) -> Iterator[DocumentBatch]:
    """The documents of a text file, compressed or not. Raises SgnsError if it is unreadable or not UTF-8."""
    with ExitStack() as stack:
        try:
            raw = stack.enter_context(path.open("rb"))
            stream = stack.enter_context(_decompressed(raw, path.suffix.lower()))
            blocks = read_blocks(stream, str(path), errors=errors, raw=raw)
            yield from stream_documents(blocks, str(path), document=document, lowercase=lowercase)
        except OSError as error:
            raise SgnsError(
                f"cannot read {path}: {error.strerror or error}", "check the file and its rights"
            ) from error
        except (EOFError, zlib.error, lzma.LZMAError) as error:
            raise SgnsError(
                f"cannot unpack {path}: {error}", "the file is damaged or cut short; fetch it again"
            ) from error


def _decompressed(raw: BinaryIO, suffix: str) -> BinaryIO:
    if suffix == ".gz":
        return cast(BinaryIO, gzip.GzipFile(fileobj=raw))
    if suffix == ".xz":
        return cast(BinaryIO, lzma.LZMAFile(raw))
    if suffix == ".bz2":
        return cast(BinaryIO, bz2.BZ2File(raw))
    return raw


def read_blocks(stream: BinaryIO, name: str, *, errors: Errors, raw: BinaryIO | None = None) -> Iterator[TextBlock]:
    """Decode a stream block by block. Raises SgnsError with the offset in `stream` of a byte that is not
    UTF-8.
    """
    data = b""
    offset = 0  # of data[0] in the stream
    start = True
    while True:
        block = stream.read(BLOCK)
        data += block
        try:
            text, used = codecs.utf_8_decode(data, errors, not block)
        except UnicodeDecodeError as error:
            at = offset + error.start
            utf16 = " (it looks like UTF-16)" if at == 0 and data[:2] in (b"\xff\xfe", b"\xfe\xff") else ""
            raise SgnsError(
                f"{name} is not UTF-8 at byte {at}: 0x{data[error.start]:02X}{utf16}",
                "convert it to UTF-8, or give --set data.errors=replace",
            ) from error
        offset += used
        data = data[used:]
        if start and text:
            text = text.removeprefix(BYTE_ORDER_MARK)
            start = False
        if text:
            yield TextBlock(text, raw.tell() if raw and raw.seekable() else offset)
        if not block:
            return


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
    parts = []
    bytes_read = 0
    for block in blocks:
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
    bytes_read = 0
    for lines, bytes_read in _all_lines(blocks):
        texts = []
        for line in lines:
            if line and not line.isspace():
                paragraph.append(line)
            elif paragraph:
                texts.append("\n".join(paragraph))
                paragraph = []
        yield texts, bytes_read
    if paragraph:
        yield ["\n".join(paragraph)], bytes_read


def _all_lines(blocks: Iterator[TextBlock]) -> Iterator[tuple[list[str], int]]:
    """Every line without its end, empty ones too; the last line needs no end."""
    pieces: list[str] = []  # of a line whose end has not come yet
    bytes_read = 0
    for block in blocks:
        bytes_read = block.bytes_read
        end = block.text.rfind("\n")
        if end < 0:
            pieces.append(block.text)
            continue
        pieces.append(block.text[:end])
        text = "".join(pieces) + "\n"
        pieces = [block.text[end + 1 :]]
        yield text.replace("\r\n", "\n")[:-1].split("\n"), bytes_read
    rest = "".join(pieces)
    if rest:
        yield [rest], bytes_read
