"""Packed files as streams of bytes: .gz, .xz, .bz2, .zst. All of a file is read or an error is raised: Python's own
readers of .xz and .bz2 end without a word where a later stream in the file is damaged.
"""

import bz2
import gzip
import io
import lzma
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Protocol, cast

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

COMPRESSED = (".gz", ".xz", ".bz2", ".zst")
DAMAGED = (EOFError, zlib.error, lzma.LZMAError, zstd.ZstdError)  # and OSErrors without a number
CHUNK = 2**16


class Decompressor(Protocol):
    eof: bool
    needs_input: bool
    unused_data: bytes

    def decompress(self, data: bytes, max_length: int = ..., /) -> bytes: ...


def unpacked(raw: BinaryIO, path: Path) -> BinaryIO:
    """What is in the file open as `raw`, by the suffix of its path. Reading raises one of DAMAGED, or an OSError
    without a number, where it cannot be unpacked.
    """
    suffix = path.suffix.lower()
    if suffix == ".gz":
        return cast(BinaryIO, gzip.GzipFile(fileobj=raw))
    if suffix == ".zst":
        return cast(BinaryIO, zstd.ZstdFile(raw))
    if suffix in (".xz", ".bz2"):
        new = lzma.LZMADecompressor if suffix == ".xz" else bz2.BZ2Decompressor
        return cast(BinaryIO, _Streams(raw, cast(Callable[[], Decompressor], new)))
    return raw


class _Streams(io.RawIOBase):
    """Compressed streams one after the other, with zero bytes between them or at the end, as .xz allows."""

    def __init__(self, raw: BinaryIO, new: Callable[[], Decompressor]) -> None:
        self._raw, self._new = raw, new
        self._decompressor = new()
        self._fresh = True  # whether the stream at hand has not begun

    def read(self, size: int = -1, /) -> bytes:
        """Some bytes, at most `size`; none at the end."""
        while True:
            data = b""
            if self._decompressor.eof:
                data, self._decompressor, self._fresh = self._decompressor.unused_data, self._new(), True
            if not data and self._decompressor.needs_input:
                data = self._raw.read(CHUNK)
                if not data and self._fresh:
                    return b""
                if not data:
                    raise EOFError("Compressed file ended before the end-of-stream marker was reached")
            if self._fresh:
                data = data.lstrip(b"\0")
                if not data:
                    continue
                self._fresh = False
            piece = self._decompressor.decompress(data, size)
            if piece:
                return piece
