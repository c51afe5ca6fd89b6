"""A sample of a corpus that is too large to train a tokenizer on: the same for the same corpus, on every machine."""

import heapq
from collections.abc import Iterable
from dataclasses import dataclass

GOLDEN = 0x9E3779B97F4A7C15  # 2**64 over the golden ratio: its multiples are spread evenly over the range of 64 bits


@dataclass(frozen=True)
class Sample:
    """`texts` in the order of the corpus, with `taken_bytes` of its `bytes` (as UTF-8), from `documents` in all."""

    texts: list[str]
    taken_bytes: int
    documents: int
    bytes: int


def sample_texts(texts: Iterable[str], *, at_most: int) -> Sample:
    """All texts if they have no more than `at_most` bytes, else so many of them, spread evenly over the corpus.

    One pass, and memory for the sample alone. Of a text that is longer than `at_most` characters only the beginning
    counts.
    """
    kept: list[tuple[int, int, str]] = []  # a heap, the next to go first: (-priority, number, text)
    size = total = number = 0
    highest = 2**64  # priority that still gets in
    for number, text in enumerate(texts, start=1):
        total += utf8_length(text)
        priority = number * GOLDEN % 2**64
        if priority > highest:
            continue
        text = text[:at_most]
        heapq.heappush(kept, (-priority, number, text))
        size += utf8_length(text)
        while size > at_most and len(kept) > 1:
            gone, _, text = heapq.heappop(kept)
            highest = -gone
            size -= utf8_length(text)
    kept.sort(key=lambda item: item[1])
    return Sample([text for _, _, text in kept], size, number, total)


def utf8_length(text: str) -> int:
    """Bytes of a text in UTF-8; a lone surrogate counts as one."""
    return len(text) if text.isascii() else len(text.encode(errors="replace"))
