"""One block of a round on the CPU: 32 centres, the rows of their windows, N shared negatives, in register tiles.

Three small matrix products, with what the loss asks of each score between them:

    scores   S  = X O^T      [B, P]   then  G = -dloss/dS, and the curvature and the loss beside it
    deltas   dX = G O        [B, D]
             dO = G^T X      [P, D]

Reads the tables, writes only the slots of its block: the one gradient routine of the CPU engine. The equations and
what they mean stand in reference.py.

Letters: D floats a row (dim padded to 16 with zeros), B = 32 centres a block, C context rows a block (B + 2 * window,
padded to 4), N negatives a block (a multiple of 16), P = C + N output rows. Tables are flat float32 arrays; row r
begins at r * D. Tiles are 4 centres by 4 output rows (simd.py); tile (c, g) begins at (c * P/4 + g) * 16.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sgns_cli.training.compiled import aligned_zeros, inline
from sgns_cli.training.draws import BLOCK, Draws
from sgns_cli.training.kernels.simd import (
    F32x16,
    absolute,
    lane_columns,
    load,
    load_centres,
    load_outputs,
    matches,
    muladd,
    nearest,
    power_of_two,
    prefetch,
    splat,
    store,
    store_centre_sums,
    store_output_sums,
    total,
    totals,
    where_less,
    zeros,
)

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]
TILES = BLOCK // 4  # tiles of centres a block

_F = np.float32
_LOG2_E = _F(1.4426950408889634)
_LN2_HIGH, _LN2_LOW = _F(0.693359375), _F(-2.1219444005469058e-4)  # ln 2 in two parts (Cody and Waite)


class Tables(NamedTuple):
    """The parameters, flat: vectors [R, D], contexts [R, D], positions [context_length, D] (empty if not learned)."""

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


class Scratch(NamedTuple):
    """Work space of one thread for one block."""

    x: Floats  # [B, D] input rows: vector + position
    o: Floats  # [P, D] output rows: contexts of the window, then negatives
    x_norms: Floats  # [B] squared
    o_norms: Floats  # [P] squared
    low: Floats  # [B] first context row of a centre's window
    high: Floats  # [B] one past its last
    self_: Floats  # [B] the context row that is the centre itself
    weight: Floats  # [B] of a negative that clashes with nothing
    clashes: Floats  # [B/4, N/4, 16] how many contexts of a centre equal a negative
    gradient: Floats  # [B/4, P/4, 16] G
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


def new_scratch(objective: Objective) -> Scratch:
    outputs = padded_contexts(objective.window) + objective.shared
    return Scratch(
        aligned_zeros(BLOCK * objective.width),
        aligned_zeros(outputs * objective.width),
        aligned_zeros(BLOCK),
        aligned_zeros(outputs),
        aligned_zeros(BLOCK),
        aligned_zeros(BLOCK),
        (np.arange(BLOCK) + objective.window).astype(_F),
        aligned_zeros(BLOCK),
        aligned_zeros(TILES * objective.shared * 4),
        aligned_zeros(TILES * outputs * 4),
        aligned_zeros(outputs * 4),
    )


def new_deltas(blocks: int, objective: Objective) -> Deltas:
    outputs = padded_contexts(objective.window) + objective.shared
    return Deltas(
        np.empty(blocks * BLOCK, np.int32),
        np.empty(blocks * BLOCK, np.int32),
        np.empty(blocks * outputs, np.int32),
        aligned_zeros(blocks * BLOCK * objective.width),
        aligned_zeros(blocks * outputs * objective.width),
        aligned_zeros(blocks * BLOCK),
        aligned_zeros(blocks * outputs),
    )


@inline
def block_deltas(
    block: int,
    draws: Draws,
    centre: int,
    last: int,
    negatives: int,
    tables: Tables,
    objective: Objective,
    scratch: Scratch,
    deltas: Deltas,
) -> tuple[float, int]:
    """Fill the slots of block `block`: centres centre..last-1 (at most B) of the draws, negatives from `negatives` on.

    Returns the sum of its pairs' losses and the number of its pairs.
    """
    _fetch_next(draws, centre, last, negatives, tables, objective)
    pairs, low, high = _load_centres(block, draws, centre, last, tables, objective, scratch, deltas)
    _load_outputs(block, draws, centre, low, high, negatives, tables, objective, scratch, deltas)
    _count_clashes(block, draws, negatives, objective, scratch, deltas)
    _scores(objective, scratch)
    loss = _gradients(block, objective, scratch, deltas)
    _input_deltas(block, objective, scratch, deltas)
    _output_deltas(block, objective, scratch, deltas)
    return loss, pairs


@inline
def _fetch_next(draws: Draws, centre: int, last: int, negatives: int, tables: Tables, objective: Objective) -> None:
    """Ask for the rows that the next block will need and this one has not, while this one is computed."""
    width = objective.width
    for k in range(centre + BLOCK, min(centre + 2 * BLOCK, last)):
        row = np.int64(draws.rows[k]) * width
        for i in range(row, row + width, 16):
            prefetch(tables.vectors, i)
        if k + objective.window < last:
            row = np.int64(draws.rows[k + objective.window]) * width
            for i in range(row, row + width, 16):
                prefetch(tables.contexts, i)
    if centre + BLOCK < last:
        for k in range(negatives + objective.shared, negatives + 2 * objective.shared):
            row = np.int64(draws.negatives[k]) * width
            for i in range(row, row + width, 16):
                prefetch(tables.contexts, i)


@inline
def _load_centres(
    block: int,
    draws: Draws,
    centre: int,
    last: int,
    tables: Tables,
    objective: Objective,
    scratch: Scratch,
    deltas: Deltas,
) -> tuple[int, int, int]:
    """Input rows and windows of the centres. Returns the pairs, and the span of draws that the windows cover."""
    width = objective.width
    corner = centre - objective.window  # the draw at context row 0
    pairs, lowest, highest = 0, centre, centre
    for b in range(BLOCK):
        k, slot, at = centre + b, block * BLOCK + b, b * width
        if k >= last:
            deltas.x_rows[slot] = deltas.x_places[slot] = -1
            scratch.low[b] = scratch.high[b] = scratch.weight[b] = scratch.x_norms[b] = _F(0)
            for i in range(at, at + width, 16):
                store(scratch.x, i, zeros())
            continue
        low, high = draws.low[k], draws.high[k]
        lowest, highest = min(lowest, low), max(highest, high)
        contexts = high - low - 1
        pairs += contexts
        scratch.low[b], scratch.high[b] = _F(low - corner), _F(high - corner)
        scratch.weight[b] = _F(objective.negatives * contexts) / _F(objective.shared)
        row = np.int64(draws.rows[k])
        deltas.x_rows[slot] = row
        norm = zeros()
        if objective.context_length > 0:
            place = np.int64(draws.offsets[k]) % objective.context_length
            deltas.x_places[slot] = place
            for i in range(0, width, 16):
                x = load(tables.vectors, row * width + i) + load(tables.positions, place * width + i)
                store(scratch.x, at + i, x)
                norm = muladd(x, x, norm)
        else:
            for i in range(0, width, 16):
                x = load(tables.vectors, row * width + i)
                store(scratch.x, at + i, x)
                norm = muladd(x, x, norm)
        scratch.x_norms[b] = total(norm)
    return pairs, lowest, highest


@inline
def _load_outputs(
    block: int,
    draws: Draws,
    centre: int,
    low: int,
    high: int,
    negatives: int,
    tables: Tables,
    objective: Objective,
    scratch: Scratch,
    deltas: Deltas,
) -> None:
    """Output rows: the contexts that the windows cover, draws low..high-1, and the negatives."""
    width, shared = objective.width, objective.shared
    contexts = context_rows(objective.window)
    outputs = contexts + shared
    corner = centre - objective.window
    for p in range(outputs):
        row = np.int64(-1)
        if p >= contexts:
            row = np.int64(draws.negatives[negatives + p - contexts])
        elif low <= corner + p < high:
            row = np.int64(draws.rows[corner + p])
        deltas.o_rows[block * outputs + p] = row
        at = p * width
        norm = zeros()
        if row >= 0:
            for i in range(0, width, 16):
                o = load(tables.contexts, row * width + i)
                store(scratch.o, at + i, o)
                norm = muladd(o, o, norm)
        else:
            for i in range(at, at + width, 16):
                store(scratch.o, i, zeros())
        scratch.o_norms[p] = total(norm)


@inline
def _count_clashes(
    block: int, draws: Draws, negatives: int, objective: Objective, scratch: Scratch, deltas: Deltas
) -> None:
    """For each centre and negative, how many contexts of the centre are that same row."""
    shared = objective.shared
    contexts = context_rows(objective.window)
    for i in range(0, TILES * shared * 4, 16):
        store(scratch.clashes, i, zeros())
    for p in range(contexts):
        row = deltas.o_rows[block * (contexts + shared) + p]
        if row < 0:
            continue
        for group in range(0, shared, 16):
            found = matches(draws.negatives, negatives + group, row)
            n = group
            while found != 0:
                if found & 1:
                    for b in range(BLOCK):
                        if scratch.low[b] <= p < scratch.high[b] and p != b + objective.window:
                            scratch.clashes[((b // 4) * (shared // 4) + n // 4) * 16 + b % 4 * 4 + n % 4] += _F(1)
                found >>= 1
                n += 1


@inline
def _scores(objective: Objective, scratch: Scratch) -> None:
    """S = X O^T, tile by tile: each tile of centres with the context rows of its band and all negatives."""
    contexts = context_rows(objective.window)
    groups = (contexts + objective.shared) // 4
    for c in range(TILES):
        for g in range(c, contexts_end(c, contexts, objective.window)):
            store(scratch.gradient, (c * groups + g) * 16, _score_tile(scratch, c, g, objective.width))
        for g in range(contexts // 4, groups):
            store(scratch.gradient, (c * groups + g) * 16, _score_tile(scratch, c, g, objective.width))


@inline
def _gradients(block: int, objective: Objective, scratch: Scratch, deltas: Deltas) -> float:
    """From S to G, in place, with the curvatures beside it. Returns the block's loss."""
    shared = objective.shared
    contexts = context_rows(objective.window)
    outputs = contexts + shared
    groups = outputs // 4
    per_negative = splat(_F(objective.negatives) / _F(shared))
    losses = zeros()
    for i in range(0, outputs * 4, 16):
        store(scratch.curvature, i, zeros())
    for c in range(TILES):
        x_curvature = zeros()
        x_norms = load_centres(scratch.x_norms, c * 4)
        for g in range(c, contexts_end(c, contexts, objective.window)):
            tile = (c * groups + g) * 16
            score = load(scratch.gradient, tile)
            in_window = _window_tile(scratch, c, g)
            small, large, log1p = _sigmoids(score)
            pull = where_less(score, zeros(), large, small) * in_window  # sigmoid(-s)
            curvature = _curvature(score, large) * in_window
            losses = muladd(log1p + where_less(score, zeros(), zeros() - score, zeros()), in_window, losses)
            store(scratch.gradient, tile, pull)
            x_curvature = muladd(curvature, load_outputs(scratch.o_norms, g * 4), x_curvature)
            store(scratch.curvature, g * 16, muladd(curvature, x_norms, load(scratch.curvature, g * 16)))
        weights = load_centres(scratch.weight, c * 4)
        for g in range(contexts // 4, groups):
            tile = (c * groups + g) * 16
            score = load(scratch.gradient, tile)
            weight = weights - per_negative * load(scratch.clashes, (c * (shared // 4) + g - contexts // 4) * 16)
            small, large, log1p = _sigmoids(score)
            push = where_less(score, zeros(), small, large) * weight  # sigmoid(s)
            curvature = _curvature(score, large) * weight
            losses = muladd(log1p + where_less(score, zeros(), zeros(), score), weight, losses)
            store(scratch.gradient, tile, zeros() - push)
            x_curvature = muladd(curvature, load_outputs(scratch.o_norms, g * 4), x_curvature)
            store(scratch.curvature, g * 16, muladd(curvature, x_norms, load(scratch.curvature, g * 16)))
        store_centre_sums(deltas.x_curvature, block * BLOCK + c * 4, x_curvature)
    for g in range(groups):
        store_output_sums(deltas.o_curvature, block * outputs + g * 4, load(scratch.curvature, g * 16))
    return float(total(losses))


@inline
def contexts_end(c: int, contexts: int, window: int) -> int:
    """One past the last tile of context rows that the windows of centre tile c reach; c itself is the first."""
    return min(c + (2 * window + 3) // 4 + 1, contexts // 4)


@inline
def _score_tile(scratch: Scratch, c: int, g: int, width: int) -> F32x16:
    """Products of 4 centres with 4 output rows, 16 lanes of D at a time."""
    x, o = c * 4 * width, g * 4 * width
    s00 = s01 = s02 = s03 = s10 = s11 = s12 = s13 = zeros()
    s20 = s21 = s22 = s23 = s30 = s31 = s32 = s33 = zeros()
    for i in range(0, width, 16):
        o0, o1 = load(scratch.o, o + i), load(scratch.o, o + width + i)
        o2, o3 = load(scratch.o, o + 2 * width + i), load(scratch.o, o + 3 * width + i)
        row = load(scratch.x, x + i)
        s00, s01, s02, s03 = (
            muladd(row, o0, s00),
            muladd(row, o1, s01),
            muladd(row, o2, s02),
            muladd(row, o3, s03),
        )
        row = load(scratch.x, x + width + i)
        s10, s11, s12, s13 = (
            muladd(row, o0, s10),
            muladd(row, o1, s11),
            muladd(row, o2, s12),
            muladd(row, o3, s13),
        )
        row = load(scratch.x, x + 2 * width + i)
        s20, s21, s22, s23 = (
            muladd(row, o0, s20),
            muladd(row, o1, s21),
            muladd(row, o2, s22),
            muladd(row, o3, s23),
        )
        row = load(scratch.x, x + 3 * width + i)
        s30, s31, s32, s33 = (
            muladd(row, o0, s30),
            muladd(row, o1, s31),
            muladd(row, o2, s32),
            muladd(row, o3, s33),
        )
    return totals((s00, s01, s02, s03, s10, s11, s12, s13, s20, s21, s22, s23, s30, s31, s32, s33))


@inline
def _window_tile(scratch: Scratch, c: int, g: int) -> F32x16:
    """1 where the context row lies in the centre's window and is not the centre, else 0."""
    row = lane_columns() + splat(_F(g * 4))
    off_centre = absolute(row - load_centres(scratch.self_, c * 4))
    inside = where_less(off_centre, splat(_F(0.5)), zeros(), splat(_F(1)))
    inside = where_less(row, load_centres(scratch.low, c * 4), zeros(), inside)
    return where_less(row, load_centres(scratch.high, c * 4), inside, zeros())


@inline
def _sigmoids(score: F32x16) -> tuple[F32x16, F32x16, F32x16]:
    """sigmoid(-|s|), sigmoid(|s|) and log(1 + exp(-|s|)), each good to a few units in the last place.

    exp by Cody and Waite's reduction and a polynomial of degree 6; log1p by one of degree 8 on [0, 1] (both fitted at
    Chebyshev nodes, relative errors 3e-9 and 3e-8). A NaN stays a NaN.
    """
    size = absolute(score)
    size = where_less(splat(_F(87)), size, splat(_F(87)), size)  # exp(-87) is the smallest normal float32
    twos = nearest(size * splat(-_LOG2_E))
    r = muladd(twos, splat(-_LN2_LOW), muladd(twos, splat(-_LN2_HIGH), zeros() - size))
    p = muladd(r, splat(_F(0.001394858118146658)), splat(_F(0.008375128731131554)))
    p = muladd(r, p, splat(_F(0.041666217148303986)))
    p = muladd(r, p, splat(_F(0.16666415333747864)))
    p = muladd(r, p, splat(_F(0.5)))
    p = muladd(r, p, splat(_F(1)))
    e = muladd(r, p, splat(_F(1))) * power_of_two(twos)
    large = splat(_F(1)) / (splat(_F(1)) + e)
    q = muladd(e, splat(_F(0.005253457929939032)), splat(_F(-0.02958850748836994)))
    q = muladd(e, q, splat(_F(0.07836166769266129)))
    q = muladd(e, q, splat(_F(-0.13674770295619965)))
    q = muladd(e, q, splat(_F(0.19111430644989014)))
    q = muladd(e, q, splat(_F(-0.24844369292259216)))
    q = muladd(e, q, splat(_F(0.33319270610809326)))
    q = muladd(e, q, splat(_F(-0.49999502301216125)))
    log1p = muladd(e, q, splat(_F(1))) * e
    return e * large, large, log1p


@inline
def _curvature(score: F32x16, large: F32x16) -> F32x16:
    """tanh(s/2) / (2 s), from sigmoid(|s|)."""
    size = absolute(score)
    return where_less(size, splat(_F(0.01)), splat(_F(0.25)), (large - splat(_F(0.5))) / size)


@inline
def _input_deltas(block: int, objective: Objective, scratch: Scratch, deltas: Deltas) -> None:
    """dX = G O: for each tile of centres, over the context rows of its band and all negatives."""
    width = objective.width
    contexts = context_rows(objective.window)
    groups = (contexts + objective.shared) // 4
    for c in range(TILES):
        stop = contexts_end(c, contexts, objective.window)
        at = (block * BLOCK + c * 4) * width
        i = 0
        while i < width:
            step = 32 if i + 32 <= width else 16
            a0 = a1 = a2 = a3 = b0 = b1 = b2 = b3 = zeros()
            for run in range(2):
                for g in range(c if run == 0 else contexts // 4, stop if run == 0 else groups):
                    tile = (c * groups + g) * 16
                    for k in range(4):
                        row = (g * 4 + k) * width + i
                        o0, o1 = load(scratch.o, row), load(scratch.o, row + step - 16)
                        g0, g1 = splat(scratch.gradient[tile + k]), splat(scratch.gradient[tile + 4 + k])
                        g2, g3 = splat(scratch.gradient[tile + 8 + k]), splat(scratch.gradient[tile + 12 + k])
                        a0, a1, a2, a3 = (
                            muladd(g0, o0, a0),
                            muladd(g1, o0, a1),
                            muladd(g2, o0, a2),
                            muladd(g3, o0, a3),
                        )
                        b0, b1, b2, b3 = (
                            muladd(g0, o1, b0),
                            muladd(g1, o1, b1),
                            muladd(g2, o1, b2),
                            muladd(g3, o1, b3),
                        )
            _store_pairs(deltas.x, at + i, width, step - 16, a0, a1, a2, a3, b0, b1, b2, b3)
            i += step


@inline
def _output_deltas(block: int, objective: Objective, scratch: Scratch, deltas: Deltas) -> None:
    """dO = G^T X: for each tile of output rows, over the centres whose windows reach it; negatives meet all."""
    width = objective.width
    contexts = context_rows(objective.window)
    groups = (contexts + objective.shared) // 4
    reach = (2 * objective.window + 3) // 4
    for g in range(groups):
        negative = g >= contexts // 4
        start = 0 if negative else max(0, g - reach)
        stop = TILES if negative else min(TILES, g + 1)
        at = (block * groups + g) * 4 * width
        i = 0
        while i < width:
            step = 32 if i + 32 <= width else 16
            a0 = a1 = a2 = a3 = b0 = b1 = b2 = b3 = zeros()
            for c in range(start, stop):
                tile = (c * groups + g) * 16
                for b in range(4):
                    row = (c * 4 + b) * width + i
                    x0, x1 = load(scratch.x, row), load(scratch.x, row + step - 16)
                    g0, g1 = splat(scratch.gradient[tile + b * 4]), splat(scratch.gradient[tile + b * 4 + 1])
                    g2, g3 = (
                        splat(scratch.gradient[tile + b * 4 + 2]),
                        splat(scratch.gradient[tile + b * 4 + 3]),
                    )
                    a0, a1, a2, a3 = (
                        muladd(g0, x0, a0),
                        muladd(g1, x0, a1),
                        muladd(g2, x0, a2),
                        muladd(g3, x0, a3),
                    )
                    b0, b1, b2, b3 = (
                        muladd(g0, x1, b0),
                        muladd(g1, x1, b1),
                        muladd(g2, x1, b2),
                        muladd(g3, x1, b3),
                    )
            _store_pairs(deltas.o, at + i, width, step - 16, a0, a1, a2, a3, b0, b1, b2, b3)
            i += step


@inline
def _store_pairs(
    out: Floats,
    at: int,
    width: int,
    apart: int,
    a0: F32x16,
    a1: F32x16,
    a2: F32x16,
    a3: F32x16,
    b0: F32x16,
    b1: F32x16,
    b2: F32x16,
    b3: F32x16,
) -> None:
    """Write 4 rows of 32 numbers (of 16 where `apart` is 0: then a and b are the same)."""
    store(out, at, a0)
    store(out, at + apart, b0)
    store(out, at + width, a1)
    store(out, at + width + apart, b1)
    store(out, at + 2 * width, a2)
    store(out, at + 2 * width + apart, b2)
    store(out, at + 3 * width, a3)
    store(out, at + 3 * width + apart, b3)
