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

BLOCK = 32  # centres that share their negatives: see bench/README.md
PART = 64 * BLOCK  # a round that keeps more than this is trained in parts, one after another
HELD_OUT_EPOCH = 2**32 - 1  # the draws of the held-out loss: the same in every epoch and every run

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_S27, _S30, _S31, _S32 = np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_TOKENS, _NEGATIVES = np.uint64(1), np.uint64(2)


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
    """The draws of one round. Centres are first..last-1; the entries around them are context only."""

    rows: NDArray[np.int32]  # [n] training rows of the kept tokens
    places: NDArray[np.int64]  # [n] their positions in the corpus
    low: NDArray[np.int32]  # [n] a centre's window is low..high-1 without the centre itself
    high: NDArray[np.int32]  # [n]
    offsets: NDArray[np.int64]  # [n] a token's position in its document before anything is dropped
    negatives: NDArray[np.int32]  # [blocks * N] training rows


@inline
def mix(number: np.uint64) -> np.uint64:
    """64 bits in, 64 bits out that look random (the finalizer of SplitMix64, Steele et al. 2014)."""
    number = (number ^ (number >> _S30)) * _MIX_1
    number = (number ^ (number >> _S27)) * _MIX_2
    return number ^ (number >> _S31)


@inline
def stream_key(seed: int, epoch: int, stream: np.uint64) -> np.uint64:
    """The key of one stream of draws."""
    return mix(mix(np.uint64(seed) * _GOLDEN + stream) + np.uint64(epoch) * _GOLDEN)


@inline
def bits_at(key: np.uint64, counter: int) -> np.uint64:
    """The 64 random bits of a stream at a counter."""
    return mix(key + np.uint64(counter) * _GOLDEN)


@inline
def _radius(bits: np.uint64, window: int) -> np.int64:
    """Uniform in 1..window, from the low 32 bits (the high ones decide whether the token is kept)."""
    return 1 + np.int64(((bits & _LOW) * np.uint64(window)) >> _S32)


@inline
def _token(corpus: Corpus, place: int) -> np.int64:
    if corpus.words == 1:
        return np.int64(corpus.halves[place])
    return np.int64(corpus.halves[2 * place]) | (np.int64(corpus.halves[2 * place + 1]) << 16)


def new_draws(span: int, window: int, shared: int) -> Draws:
    """Room for the draws of a round over `span` corpus tokens: so many at most are kept."""
    n = span + 2 * window
    return Draws(
        np.empty(n, np.int32),
        np.empty(n, np.int64),
        np.empty(n, np.int32),
        np.empty(n, np.int32),
        np.empty(n, np.int64),
        np.empty((span + BLOCK - 1) // BLOCK * shared, np.int32),
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
) -> tuple[int, int]:
    """Fill `draws` for the span [start, stop) of the corpus; returns the centres as (first, last) into its arrays."""
    key = stream_key(seed, epoch, _TOKENS)
    document = int(np.searchsorted(corpus.documents, start, side="right")) - 1
    left = _look_back(draws, corpus, chances, key, document, start, window)
    first = window
    last = first
    segment = left  # where the kept tokens of the document at hand begin
    place = start
    while place < stop:
        opening = corpus.documents[document]
        closing = min(corpus.documents[document + 1], corpus.end)
        end = min(closing, stop)
        last = _keep(draws, corpus, chances, key, opening, place, end, last)
        reach = last
        if end == stop and last > first:
            reach = _look_ahead(draws, corpus, chances, key, opening, stop, closing, last, window)
        for k in range(max(segment, first), last):
            radius = int(_radius(bits_at(key, draws.places[k]), window))
            draws.low[k] = max(k - radius, segment)
            draws.high[k] = min(k + radius + 1, reach)
        segment = last
        place = end
        document += 1
    _draw_negatives(draws, chances, stream_key(seed, epoch, _NEGATIVES), first, last, shared)
    return first, last


@inline
def _keep(
    draws: Draws,
    corpus: Corpus,
    chances: Chances,
    key: np.uint64,
    opening: int,
    start: int,
    stop: int,
    n: int,
) -> int:
    """Append the kept tokens of [start, stop), a part of one document, at n; returns the new end."""
    for place in range(start, stop):
        token = _token(corpus, place)
        draws.rows[n] = chances.rows[token]
        draws.places[n] = place
        draws.offsets[n] = place - opening
        n += int((bits_at(key, place) >> _S32) < chances.keep[token])
    return n


@inline
def _look_back(
    draws: Draws, corpus: Corpus, chances: Chances, key: np.uint64, document: int, start: int, window: int
) -> int:
    """Put up to `window` kept tokens before `start` at the front of the arrays; returns where they begin."""
    opening = corpus.documents[document]
    n = window
    place = start
    while place > max(opening, corpus.begin) and n > 0:
        place -= 1
        token = _token(corpus, place)
        if (bits_at(key, place) >> _S32) < chances.keep[token]:
            n -= 1
            draws.rows[n] = chances.rows[token]
            draws.places[n] = place
            draws.offsets[n] = place - opening
    return n


@inline
def _look_ahead(
    draws: Draws,
    corpus: Corpus,
    chances: Chances,
    key: np.uint64,
    opening: int,
    place: int,
    closing: int,
    n: int,
    window: int,
) -> int:
    """Append up to `window` kept tokens from `place` on, within the document, at n; returns the new end."""
    limit = n + window
    while place < closing and n < limit:
        n = _keep(draws, corpus, chances, key, opening, place, place + 1, n)
        place += 1
    return n


@inline
def _draw_negatives(draws: Draws, chances: Chances, key: np.uint64, first: int, last: int, shared: int) -> None:
    """For each block `shared` rows from the noise distribution, keyed by the block's first centre."""
    rows = np.uint64(chances.accept.size)
    at = 0
    for centre in range(first, last, BLOCK):
        block_key = bits_at(key, draws.places[centre])
        for k in range(shared):
            bits = bits_at(block_key, k)
            row = np.int32(((bits >> _S32) * rows) >> _S32)
            draws.negatives[at] = row if (bits & _LOW) < chances.accept[row] else chances.alias[row]
            at += 1
