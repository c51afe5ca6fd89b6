"""What the CPU kernel works on: the tables, the numbers of the objective, the room of a thread and of a round.

Letters, here and in the other cpu_*.py: R training rows, D floats a row (dim padded to 16 with zeros), B = 32 centres a
block, C context rows a block (B + 2 * window, padded to 4), N negatives a block (a multiple of 16), P = C + N output
rows. Arrays are flat; row r begins at r * D. A *tile* is 4 centres by 4 output rows of a [B, P] matrix, 16 numbers that
lie together (simd.py); tile (c, g) begins at (c * P/4 + g) * 16. In the work space of a thread the rows of a block lie
in *strips* of 64 columns, [D/64, rows, 64], so that a strip of all rows stays in the first-level cache.

A row of any table has a *key*: r in vectors, R + r in contexts, 2R + r in positions. A *slot* is a row's place in a
block: B of centres, P of output rows and, where positions are learned, B of their places. So a block has S slots.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sgns_cli.training.compiled import aligned_zeros, inline
from sgns_cli.training.draws import BLOCK, PART
from sgns_cli.training.kernels.simd import address, prefetch
from sgns_cli.training.unchecked import item, put

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
STRIP = 64  # columns
TILES = BLOCK // 4  # tiles of centres a block
MOST_BITS = 11  # of a digit, when slots are sorted by key


class Tables(NamedTuple):
    """The parameters: vectors [R, D], contexts [R, D], positions [context_length, D] (empty if not learned)."""

    vectors: Floats
    contexts: Floats
    positions: Floats


class Objective(NamedTuple):
    """What is optimised, as numbers."""

    width: int  # D
    window: int
    negatives: int  # K, for each pair
    shared: int  # N, drawn for a block
    context_length: int  # rows of positions, 0 if they are not learned
    contexts: int  # C
    slots: int  # S
    reach: int  # tiles of context rows, beyond the one of its number, that the windows of a centre tile reach
    limit: np.float32  # 2 / the number of tables that move a score: see reference.py


def new_objective(*, width: int, window: int, negatives: int, shared: int, context_length: int) -> Objective:
    """The numbers, and those that follow from them."""
    contexts = (BLOCK + 2 * window + 3) // 4 * 4
    return Objective(
        width=width,
        window=window,
        negatives=negatives,
        shared=shared,
        context_length=context_length,
        contexts=contexts,
        slots=BLOCK + contexts + shared + (BLOCK if context_length > 0 else 0),
        reach=(2 * window + 3) // 4,
        limit=np.float32(2 / (3 if context_length > 0 else 2)),
    )


class Rounds(NamedTuple):
    """The rounds to run: those of [start, stop) in the corpus, which begins at a round of `epoch`."""

    seed: int
    epoch: int
    start: int
    stop: int
    span: int  # corpus tokens a round
    rates: Floats  # learning rates of the rounds; where there are none, the tables stay as they are


class Deltas(NamedTuple):
    """What the blocks of a part of a round ask for, of rows that several slots have; those of a row lie together."""

    rows: Floats  # [PART/B * S, D]
    curvature: Floats  # [PART/B * S]
    losses: NDArray[np.float64]  # [PART/B] of the blocks
    pairs: Longs  # [PART/B] of the blocks


class Scratch(NamedTuple):
    """Work space of one thread."""

    x: Floats  # [D/64, B, 64] input rows: vector + position
    o: Floats  # [D/64, P, 64] output rows: contexts of the windows, then negatives
    x_norms: Floats  # [B] squared
    o_norms: Floats  # [P] squared
    low: Floats  # [B] first context row of a centre's window
    high: Floats  # [B] one past its last
    own: Floats  # [B] the context row that is the centre itself
    contexts: Floats  # [B] how many contexts a centre has
    clashes: Floats  # [B/4, N/4, 16] how many contexts of a centre equal a negative
    gradient: Floats  # [B/4, P/4, 16] S, then G
    curvature: Floats  # [P/4, 16] of the output rows, not yet summed over the centres of a tile
    bends: Floats  # [B + P] curvatures of the centres and of the output rows
    source: Longs  # [S] address of what a slot's delta is added to,
    target: Longs  # [S] and of where the sum goes,
    step: Floats  # [S] after the delta was multiplied by this
    nothing: Floats  # [D] zeros, also the target of empty slots
    fetch: Longs  # [4] the next line to be fetched, where its row ends, the next slot, and where they end
    pairs: Longs  # [PART/B * S] room to sort (key, slot) pairs
    other_pairs: Longs  # [PART/B * S]
    digits: Longs  # [2^MOST_BITS]


@inline
def row_of(tables: Tables, key: int | np.int64, width: int) -> int:
    """The address of the row with a key."""
    vectors = tables.vectors.size
    at = key * width
    if at < vectors:
        return address(tables.vectors, at)
    if at < 2 * vectors:
        return address(tables.contexts, at - vectors)
    return address(tables.positions, at - 2 * vectors)


@inline
def start_fetch(scratch: Scratch, first: int, end: int) -> None:
    """From now on `fetch_lines` asks for the rows of the slots [first, end)."""
    put(scratch.fetch, 0, 0)
    put(scratch.fetch, 1, 0)
    put(scratch.fetch, 2, first)
    put(scratch.fetch, 3, end)


@inline
def fetch_lines(count: int, keys: Ints, tables: Tables, scratch: Scratch, width: int) -> None:
    """Ask for the next `count` cache lines of the rows that are to be read soon."""
    fetch = scratch.fetch
    for _ in range(count):
        line = item(fetch, 0)
        if line == item(fetch, 1):
            slot = item(fetch, 2)
            if slot >= item(fetch, 3):
                return
            put(fetch, 2, slot + 1)
            line = row_of(tables, np.int64(max(0, item(keys, slot))), width)
            put(fetch, 1, line + 4 * width)
        prefetch(line, 0)
        put(fetch, 0, line + 64)


@inline
def step_within(rate: np.float32, bend: np.float32, limit: np.float32) -> np.float32:
    """The step of a row with curvature `bend`: min(rate, limit / bend)."""
    return limit / bend if rate * bend > limit else rate


def new_scratch(objective: Objective) -> Scratch:
    outputs, slots = objective.contexts + objective.shared, objective.slots
    strips = -(-objective.width // STRIP)
    own = aligned_zeros(BLOCK)
    own[:] = np.arange(BLOCK) + objective.window
    return Scratch(
        x=aligned_zeros(strips, BLOCK, STRIP).reshape(-1),
        o=aligned_zeros(strips, outputs, STRIP).reshape(-1),
        x_norms=aligned_zeros(BLOCK),
        o_norms=aligned_zeros(outputs),
        low=aligned_zeros(BLOCK),
        high=aligned_zeros(BLOCK),
        own=own,
        contexts=aligned_zeros(BLOCK),
        clashes=aligned_zeros(BLOCK * objective.shared),
        gradient=aligned_zeros(BLOCK * outputs),
        curvature=aligned_zeros(4 * outputs),
        bends=aligned_zeros(BLOCK + outputs),
        source=np.empty(slots, np.int64),
        target=np.empty(slots, np.int64),
        step=aligned_zeros(slots),
        nothing=aligned_zeros(objective.width),
        fetch=np.zeros(4, np.int64),
        pairs=np.empty(PART // BLOCK * slots, np.int64),
        other_pairs=np.empty(PART // BLOCK * slots, np.int64),
        digits=np.empty(1 << MOST_BITS, np.int64),
    )


def new_deltas(objective: Objective, span: int) -> Deltas:
    """Room for the deltas of a part of a round of `span` corpus tokens."""
    blocks = -(-min(span, PART) // BLOCK)
    slots = blocks * objective.slots
    return Deltas(
        rows=aligned_zeros(slots * objective.width),
        curvature=aligned_zeros(slots),
        losses=np.empty(blocks),
        pairs=np.empty(blocks, np.int64),
    )
