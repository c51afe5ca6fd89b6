"""The draws of training: which tokens are kept, how far a window reaches, which negatives a block meets.

Every draw is a function of (seed, epoch, position in the corpus) alone: no generator, no state, so any round can be
drawn by itself, in any order, and by any thread. This is the only place that draws; a kernel is given what it makes.

A *round* is a fixed span of the corpus; its kept tokens are the centres, cut into blocks of BLOCK. Windows reach over
kept tokens, also those just outside the span, never into another document, never outside the region trained on.

Letters: n kept tokens of a round with those around it, R training rows, N negatives a block.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sgns_cli.training.compiled import inline, jit
from sgns_cli.training.unchecked import item, put

BLOCK = 32  # centres that share their negatives: see bench/README.md
PART_BLOCKS = 64  # a round of more blocks than this is trained in parts, one after another
PART = PART_BLOCKS * BLOCK  # centres of a part
HELD_OUT_EPOCH = 2**32 - 1  # the draws of the held-out loss: the same in every epoch and every run

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
MIX_2 = np.uint64(0x94D049BB133111EB)
_S27, _S30, _S31, _S32 = np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
TOKENS, NEGATIVES = np.uint64(1), np.uint64(2)


class Corpus(NamedTuple):
    """What is trained on: a region [begin, end) of the token ids on disk."""

    halves: NDArray[np.uint16]  # [tokens * words] token ids as little-endian 16-bit words
    words: int  # 1, or 2 for 32-bit ids (one compiled kernel serves both)
    documents: NDArray[np.int64]  # [documents + 1] start offsets
    begin: int
    end: int


class Chances(NamedTuple):
    """What the draws are made from, by token id and by training row (vocabulary.py makes it)."""

    rows: NDArray[np.int32]  # [n_vocab] training row of a token id, -1 if it is not trained
    keep: NDArray[np.uint64]  # [n_vocab] kept if 32 random bits are below this; 0 if it is not trained
    accept: NDArray[np.uint64]  # [R] alias table of the noise: stay at a row if 32 random bits are below this,
    alias: NDArray[np.int32]  # [R] else take this row


class Draws(NamedTuple):
    """The draws of a round, or of several. Centres are first..last-1; the entries around them are context only."""

    rows: NDArray[np.int32]  # [n] training rows of the kept tokens
    places: NDArray[np.int64]  # [n] their positions in the corpus
    low: NDArray[np.int32]  # [n] a centre's window is low..high-1 without the centre itself
    high: NDArray[np.int32]  # [n]
    offsets: NDArray[np.int64]  # [n] a centre's position in its document before anything is dropped
    negatives: NDArray[np.int32]  # [blocks * N] training rows


@inline
def mix(number: np.uint64) -> np.uint64:
    """64 bits in, 64 bits out that look random (the finalizer of SplitMix64, Steele et al. 2014)."""
    number = (number ^ (number >> _S30)) * MIX_1
    number = (number ^ (number >> _S27)) * MIX_2
    return number ^ (number >> _S31)


@inline
def stream_key(seed: int, epoch: int, stream: np.uint64) -> np.uint64:
    """The key of one stream of draws."""
    return mix(mix(np.uint64(seed) * GOLDEN + stream) + np.uint64(epoch) * GOLDEN)


@inline
def bits_at(key: np.uint64, counter: int) -> np.uint64:
    """The 64 random bits of a stream at a counter."""
    return mix(key + np.uint64(counter) * GOLDEN)


@inline
def _radius(bits: np.uint64, window: int) -> np.int32:
    """Uniform in 1..window, from the low 32 bits (the high ones decide whether the token is kept)."""
    return np.int32(1 + (((bits & _LOW) * np.uint64(window)) >> _S32))


@inline
def _token(corpus: Corpus, chances: Chances, place: int) -> np.int64:
    """The id at a place; one that is not in the vocabulary, as when the file is changed meanwhile, is the last one."""
    if corpus.words == 1:
        id = np.int64(item(corpus.halves, place))
    else:
        id = np.int64(item(corpus.halves, 2 * place)) | (np.int64(item(corpus.halves, 2 * place + 1)) << 16)
    return min(id, np.int64(chances.rows.size - 1))


def most_blocks(span: int) -> int:
    """Blocks of a round that keeps every one of its `span` tokens."""
    return (span + BLOCK - 1) // BLOCK


def new_draws(span: int, window: int, shared: int, rounds: int = 1) -> Draws:
    """Room for the draws of `rounds` rounds over `span` corpus tokens each, one after another in every array."""
    n = rounds * (span + 2 * window)
    return Draws(
        np.empty(n, np.int32),
        np.empty(n, np.int64),
        np.empty(n, np.int32),
        np.empty(n, np.int32),
        np.empty(n, np.int64),
        np.empty(rounds * most_blocks(span) * shared, np.int32),
    )


@jit
def draw_round(
    draws: Draws,
    corpus: Corpus,
    chances: Chances,
    seed: int,
    epoch: int,
    start: int,
    stop: int,
    window: int,
    shared: int,
    at: int = 0,
    negatives_at: int = 0,
) -> tuple[int, int]:
    """Draw the round over the span [start, stop) of the corpus into `draws`, from entry `at` and `negatives_at` on.

    Returns the centres as (first, last) into its arrays.
    """
    key = stream_key(seed, epoch, TOKENS)
    document = _document_at(corpus.documents, start)
    first = at + window
    last = first
    segment = _look_back(draws, corpus, chances, key, item(corpus.documents, document), start, first, window)
    place = start
    while place < stop:  # a document at a time; the kept tokens of the one at hand begin at `segment`
        opening = item(corpus.documents, document)
        closing = min(item(corpus.documents, document + 1), corpus.end)
        end = min(closing, stop)
        centre = last
        last = _keep(draws, corpus, chances, key, place, end, last, window)
        reach = last
        if end == stop and last > first:
            reach = _look_ahead(draws, corpus, chances, key, stop, closing, last, window)
        for k in range(centre, last):
            radius = item(draws.high, k)
            put(draws.low, k, max(k - radius, segment))
            put(draws.high, k, min(k + radius + 1, reach))
            put(draws.offsets, k, item(draws.places, k) - opening)
        segment = last
        place = end
        document += 1
    _draw_negatives(draws, chances, stream_key(seed, epoch, NEGATIVES), first, last, shared, negatives_at)
    return first, last


@inline
def _document_at(documents: NDArray[np.int64], place: int) -> int:
    """The document that a place of the corpus lies in, by bisection."""
    low, high = 0, documents.size - 1
    while high - low > 1:
        middle = (low + high) // 2
        if item(documents, middle) <= place:
            low = middle
        else:
            high = middle
    return low


@inline
def _keep(
    draws: Draws, corpus: Corpus, chances: Chances, key: np.uint64, start: int, stop: int, n: int, window: int
) -> int:
    """Append the kept tokens of [start, stop) at n, their radii in `high`; returns the new end."""
    for place in range(start, stop):
        token = _token(corpus, chances, place)
        bits = bits_at(key, place)
        put(draws.rows, n, item(chances.rows, token))
        put(draws.places, n, place)
        put(draws.high, n, _radius(bits, window))
        n += int((bits >> _S32) < item(chances.keep, token))
    return n


@inline
def _look_back(
    draws: Draws, corpus: Corpus, chances: Chances, key: np.uint64, opening: int, start: int, first: int, window: int
) -> int:
    """Put up to `window` kept tokens of the document before `start` in front of `first`; returns where they begin."""
    n = first
    place = start
    while place > max(opening, corpus.begin) and n > first - window:
        place -= 1
        if _is_kept(corpus, chances, key, place):
            n -= 1
            put(draws.rows, n, item(chances.rows, _token(corpus, chances, place)))
            put(draws.places, n, place)
    return n


@inline
def _look_ahead(
    draws: Draws, corpus: Corpus, chances: Chances, key: np.uint64, place: int, closing: int, n: int, window: int
) -> int:
    """Append up to `window` kept tokens from `place` on, within the document, at n; returns the new end."""
    limit = n + window
    while place < closing and n < limit:
        n = _keep(draws, corpus, chances, key, place, place + 1, n, window)
        place += 1
    return n


@jit
def reach_of(
    corpus: Corpus, chances: Chances, seed: int, epoch: int, start: int, stop: int, window: int
) -> tuple[int, int]:
    """What the windows of the tokens [start, stop) reach over: a stretch of the corpus around them.

    On either side it has `window` kept tokens of the document that goes on there, or the rest of it.
    """
    key = stream_key(seed, epoch, TOKENS)
    opening = max(item(corpus.documents, _document_at(corpus.documents, start)), corpus.begin)
    closing = min(item(corpus.documents, _document_at(corpus.documents, stop - 1) + 1), corpus.end)
    begin, missing = start, window
    while begin > opening and missing > 0:
        begin -= 1
        missing -= int(_is_kept(corpus, chances, key, begin))
    end, missing = stop, window
    while end < closing and missing > 0:
        missing -= int(_is_kept(corpus, chances, key, end))
        end += 1
    return begin, end


@inline
def _is_kept(corpus: Corpus, chances: Chances, key: np.uint64, place: int) -> bool:
    return bool((bits_at(key, place) >> _S32) < item(chances.keep, _token(corpus, chances, place)))


@jit
def count_kept(
    by_row: NDArray[np.int64],
    by_position: NDArray[np.int64],
    corpus: Corpus,
    chances: Chances,
    seed: int,
    epoch: int,
    start: int,
    stop: int,
) -> None:
    """Add the kept tokens of [start, stop) to the counts by training row [R], and to those by position in a document,
    modulo their number [context_length], which may be 0.
    """
    key = stream_key(seed, epoch, TOKENS)
    document = _document_at(corpus.documents, start)
    place = start
    while place < stop:
        opening = item(corpus.documents, document)
        end = min(item(corpus.documents, document + 1), stop)
        for at in range(place, end):
            kept = int(_is_kept(corpus, chances, key, at))
            row = max(item(chances.rows, _token(corpus, chances, at)), 0)  # what is not trained is never kept
            put(by_row, row, item(by_row, row) + kept)
            if by_position.size:
                position = (at - opening) % by_position.size
                put(by_position, position, item(by_position, position) + kept)
        place = end
        document += 1


@inline
def _draw_negatives(
    draws: Draws, chances: Chances, key: np.uint64, first: int, last: int, shared: int, at: int
) -> None:
    """For each block `shared` rows from the noise distribution, keyed by the block's first centre."""
    rows = np.uint64(chances.accept.size)
    for centre in range(first, last, BLOCK):
        block_key = bits_at(key, item(draws.places, centre))
        for k in range(shared):
            bits = bits_at(block_key, k)
            row = np.int64(((bits >> _S32) * rows) >> _S32)
            # Read in any case: a branch would be guessed wrong half the time.
            other = np.int64(item(chances.alias, row))
            put(draws.negatives, at + k, row if (bits & _LOW) < item(chances.accept, row) else other)
        at += shared
