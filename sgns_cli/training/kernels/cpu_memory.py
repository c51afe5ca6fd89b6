"""What the CPU kernel works on: the tables, the numbers of the objective, the room for a block and for a round.

Letters, here and in the other cpu_*.py: R rows of a table, D floats a row (dim padded to 16 with zeros), B = 32 centres
a block, C context rows a block (B + 2 * window, padded to 4), N negatives a block (a multiple of 16), P = C + N output
rows. Arrays are flat; row r begins at r * D. A *tile* is 4 centres by 4 output rows of a [B, P] matrix, 16 numbers that
lie together (simd.py); tile (c, g) begins at (c * P/4 + g) * 16.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sgns_cli.training.compiled import aligned_zeros, inline
from sgns_cli.training.draws import BLOCK

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]
TILES = BLOCK // 4  # tiles of centres a block


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


class Block(NamedTuple):
    """Which block: its number in the round's deltas, and where its draws lie."""

    number: int
    centre: int  # its first centre
    last: int  # one past the last centre of the round; the block has at most B of them
    negatives: int  # its first negative


class Scratch(NamedTuple):
    """Work space of one thread for one block."""

    x: Floats  # [B, D] input rows: vector + position
    o: Floats  # [P, D] output rows: contexts of the windows, then negatives
    x_norms: Floats  # [B] squared
    o_norms: Floats  # [P] squared
    low: Floats  # [B] first context row of a centre's window
    high: Floats  # [B] one past its last
    own: Floats  # [B] the context row that is the centre itself
    contexts: Floats  # [B] how many contexts a centre has
    clashes: Floats  # [B/4, N/4, 16] how many contexts of a centre equal a negative
    gradient: Floats  # [B/4, P/4, 16] S, then G
    curvature: Floats  # [P/4, 16] of the output rows, not yet summed over the centres of a tile


class Deltas(NamedTuple):
    """What the blocks of a round ask for, slot by slot, before it is added to the rows."""

    x_rows: Ints  # [blocks * B] row of vectors, -1 if the slot is empty
    x_places: Ints  # [blocks * B] row of positions
    o_rows: Ints  # [blocks * P] row of contexts
    x: Floats  # [blocks * B, D]
    o: Floats  # [blocks * P, D]
    x_curvature: Floats  # [blocks * B]
    o_curvature: Floats  # [blocks * P]


def padded_contexts(window: int) -> int:
    """C: the rows that the windows of a block cover, padded to tiles."""
    return (BLOCK + 2 * window + 3) // 4 * 4


context_rows = inline(padded_contexts)


@inline
def band_end(c: int, window: int) -> int:
    """One past the last tile of context rows that the windows of centre tile c reach; c itself is the first."""
    return c + (2 * window + 3) // 4 + 1


def new_scratch(objective: Objective) -> Scratch:
    outputs = padded_contexts(objective.window) + objective.shared
    own = aligned_zeros(BLOCK)
    own[:] = np.arange(BLOCK) + objective.window
    return Scratch(
        x=aligned_zeros(BLOCK * objective.width),
        o=aligned_zeros(outputs * objective.width),
        x_norms=aligned_zeros(BLOCK),
        o_norms=aligned_zeros(outputs),
        low=aligned_zeros(BLOCK),
        high=aligned_zeros(BLOCK),
        own=own,
        contexts=aligned_zeros(BLOCK),
        clashes=aligned_zeros(BLOCK * objective.shared),
        gradient=aligned_zeros(BLOCK * outputs),
        curvature=aligned_zeros(4 * outputs),
    )


def new_deltas(blocks: int, objective: Objective) -> Deltas:
    inputs = blocks * BLOCK
    outputs = blocks * (padded_contexts(objective.window) + objective.shared)
    return Deltas(
        x_rows=np.empty(inputs, np.int32),
        x_places=np.empty(inputs, np.int32),
        o_rows=np.empty(outputs, np.int32),
        x=aligned_zeros(inputs * objective.width),
        o=aligned_zeros(outputs * objective.width),
        x_curvature=aligned_zeros(inputs),
        o_curvature=aligned_zeros(outputs),
    )
