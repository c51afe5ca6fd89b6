"""A sample of a corpus that is too large to train a tokenizer on: the same for the same corpus, on every machine."""

import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

GOLDEN = 0x9E3779B97F4A7C15  # 2**64 over the golden ratio: its multiples are spread evenly over the range of 64 bits
PIECES = 64  # a sample has at least so many: longer texts are cut


@dataclass(frozen=True)
class Sample:
    """`texts` in the order of the corpus, with `taken_bytes` of its `bytes` (as UTF-8)."""

    texts: list[str]
    taken_bytes: int
    bytes: int


def sample_texts(texts: Iterable[str], *, at_most: int) -> Sample:
    """All texts if they have no more than `at_most` bytes, else so many of them, spread evenly over the corpus; then
    pieces of texts that are longer than a PIECES-th of that.

    One pass; memory is that of the sample and some 140 bytes for each of its texts.
    """
    length = max(1, at_most // PIECES)
    kept: list[tuple[int, int, int, str]] = []  # a heap of -priority, number, text, piece: the next to go comes first
    size = total = number = 0
    highest = 2**64  # priority that still gets in
    for index, text in enumerate(texts):
        for start in range(0, len(text), length):
            piece = text if len(text) <= length else text[start : start + length]
            number += 1
            total += utf8_length(piece)
            priority = number * GOLDEN % 2**64
            if priority > highest:
                continue
            heapq.heappush(kept, (-priority, number, index, piece))
            size += utf8_length(piece)
            while size > at_most and len(kept) > 1:
                gone, *_, piece = heapq.heappop(kept)
                highest = -gone
                size -= utf8_length(piece)
    kept.sort(key=lambda item: item[1])
    if size < total:
        return Sample([piece for *_, piece in kept], size, total)
    whole = groupby(kept, key=lambda item: item[2])
    return Sample(["".join([piece for *_, piece in pieces]) for _, pieces in whole], size, total)


def utf8_length(text: str) -> int:
    """Bytes of a text in UTF-8; a lone surrogate counts as one."""
    return len(text) if text.isascii() else len(text.encode(errors="replace"))
