"""One block of a round on the CPU: 32 centres, the rows of their windows, N shared negatives.

Three small matrix products, with what the loss asks of each score between them:

    scores   S  = X O^T      [B, P]   then  G = -dloss/dS, and the curvature and the loss beside it
    deltas   dX = G O        [B, D]
             dO = G^T X      [P, D]

Reads the tables, writes only the slots of its block: the one gradient routine of the CPU engine. What the equations
mean stands in reference.py, the letters in cpu_memory.py.
"""

import numpy as np

from sgns_cli.training.compiled import inline
from sgns_cli.training.draws import BLOCK, Draws
from sgns_cli.training.kernels.cpu_memory import (
    TILES,
    Block,
    Deltas,
    Floats,
    Objective,
    Scratch,
    Tables,
    band_end,
    context_rows,
)
from sgns_cli.training.kernels.cpu_tiles import (
    add_row,
    curvature_of,
    no_deltas,
    score_tile,
    sigmoids,
    store_deltas,
    strip,
    window_tile,
)
from sgns_cli.training.kernels.simd import (
    load,
    load_centres,
    load_outputs,
    matches,
    muladd,
    prefetch,
    splat,
    store,
    store_centre_sums,
    store_output_sums,
    total,
    where_less,
    zeros,
)

_F = np.float32


@inline
def block_deltas(
    block: Block, draws: Draws, tables: Tables, objective: Objective, scratch: Scratch, deltas: Deltas
) -> tuple[float, int]:
    """Fill the slots of a block. Returns the sum of its pairs' losses and the number of its pairs."""
    _fetch_next(block, draws, tables, objective)
    pairs, low, high = _load_centres(block, draws, tables, objective, scratch, deltas)
    _load_outputs(block, low, high, draws, tables, objective, scratch, deltas)
    _count_clashes(block, draws, objective, scratch, deltas)
    _scores(objective, scratch)
    loss = _gradients(block, objective, scratch, deltas)
    _input_deltas(block, objective, scratch, deltas)
    _output_deltas(block, objective, scratch, deltas)
    return loss, pairs


@inline
def _fetch_next(block: Block, draws: Draws, tables: Tables, objective: Objective) -> None:
    """Ask for the rows that the next block will need and this one has not, while this one is computed."""
    width, last = objective.width, block.last
    for k in range(block.centre + BLOCK, min(block.centre + 2 * BLOCK, last)):
        _fetch(tables.vectors, draws.rows[k], width)
        if k + objective.window < last:
            _fetch(tables.contexts, draws.rows[k + objective.window], width)
    if block.centre + BLOCK < last:
        start = block.negatives + objective.shared
        for k in range(start, start + objective.shared):
            _fetch(tables.contexts, draws.negatives[k], width)


@inline
def _fetch(table: Floats, row: int, width: int) -> None:
    start = np.int64(row) * width
    for i in range(start, start + width, 16):
        prefetch(table, i)


@inline
def _load_centres(
    block: Block, draws: Draws, tables: Tables, objective: Objective, scratch: Scratch, deltas: Deltas
) -> tuple[int, int, int]:
    """Input rows and windows of the centres. Returns the pairs, and the span of draws that the windows cover."""
    width = objective.width
    corner = block.centre - objective.window  # the draw at context row 0
    pairs, lowest, highest = 0, block.centre, block.centre
    for b in range(BLOCK):
        k, slot = block.centre + b, block.number * BLOCK + b
        if k >= block.last:
            deltas.x_rows[slot] = deltas.x_places[slot] = -1
            scratch.low[b] = scratch.high[b] = scratch.contexts[b] = scratch.x_norms[b] = _F(0)
            _clear(scratch.x, b * width, width)
            continue
        low, high = draws.low[k], draws.high[k]
        lowest, highest = min(lowest, low), max(highest, high)
        contexts = high - low - 1
        pairs += contexts
        scratch.low[b], scratch.high[b] = _F(low - corner), _F(high - corner)
        scratch.contexts[b] = _F(contexts)
        deltas.x_rows[slot] = draws.rows[k]
        scratch.x_norms[b] = _copy(tables.vectors, draws.rows[k], scratch.x, b * width, width)
        if objective.context_length > 0:
            place = draws.offsets[k] % objective.context_length
            deltas.x_places[slot] = np.int32(place)
            scratch.x_norms[b] = _add_position(tables.positions, place, scratch.x, b * width, width)
    return pairs, lowest, highest


@inline
def _load_outputs(
    block: Block,
    low: int,
    high: int,
    draws: Draws,
    tables: Tables,
    objective: Objective,
    scratch: Scratch,
    deltas: Deltas,
) -> None:
    """Output rows: the contexts that the windows cover, draws low..high-1, and the negatives."""
    width, contexts = objective.width, context_rows(objective.window)
    outputs = contexts + objective.shared
    corner = block.centre - objective.window
    for p in range(outputs):
        row = np.int32(-1)
        if p >= contexts:
            row = draws.negatives[block.negatives + p - contexts]
        elif low <= corner + p < high:
            row = draws.rows[corner + p]
        deltas.o_rows[block.number * outputs + p] = row
        if row >= 0:
            scratch.o_norms[p] = _copy(tables.contexts, row, scratch.o, p * width, width)
        else:
            scratch.o_norms[p] = _F(0)
            _clear(scratch.o, p * width, width)


@inline
def _copy(table: Floats, row: int | np.int32, out: Floats, at: int, width: int) -> np.float32:
    """Copy a row of a table to out[at]; returns its squared length."""
    start, norm = np.int64(row) * width, zeros()
    for i in range(0, width, 16):
        numbers = load(table, start + i)
        store(out, at + i, numbers)
        norm = muladd(numbers, numbers, norm)
    return total(norm)


@inline
def _add_position(positions: Floats, place: int, out: Floats, at: int, width: int) -> np.float32:
    """Add a row of positions to out[at]; returns the squared length of the sum."""
    start, norm = np.int64(place) * width, zeros()
    for i in range(0, width, 16):
        numbers = load(out, at + i) + load(positions, start + i)
        store(out, at + i, numbers)
        norm = muladd(numbers, numbers, norm)
    return total(norm)


@inline
def _clear(out: Floats, at: int, size: int) -> None:
    for i in range(at, at + size, 16):
        store(out, i, zeros())


@inline
def _count_clashes(block: Block, draws: Draws, objective: Objective, scratch: Scratch, deltas: Deltas) -> None:
    """For each centre and negative, how many contexts of the centre are that same row."""
    shared, window, contexts = objective.shared, objective.window, context_rows(objective.window)
    _clear(scratch.clashes, 0, BLOCK * shared)
    for p in range(contexts):
        row = deltas.o_rows[block.number * (contexts + shared) + p]
        if row < 0:
            continue
        for group in range(0, shared, 16):
            found = matches(draws.negatives, block.negatives + group, row)
            n = group
            while found != 0:
                if found & 1:
                    for b in range(max(0, p - 2 * window), min(BLOCK, p + 1)):
                        if scratch.low[b] <= p < scratch.high[b] and p != b + window:
                            tile = b // 4 * (shared // 4) + n // 4
                            scratch.clashes[tile * 16 + b % 4 * 4 + n % 4] += _F(1)
                found >>= 1
                n += 1


@inline
def _scores(objective: Objective, scratch: Scratch) -> None:
    """S = X O^T: each tile of centres with the context rows of its band and all negatives."""
    contexts = context_rows(objective.window)
    groups = (contexts + objective.shared) // 4
    for c in range(TILES):
        for g in range(c, band_end(c, objective.window)):
            store(scratch.gradient, (c * groups + g) * 16, score_tile(scratch, c, g, objective.width))
        for g in range(contexts // 4, groups):
            store(scratch.gradient, (c * groups + g) * 16, score_tile(scratch, c, g, objective.width))


@inline
def _gradients(block: Block, objective: Objective, scratch: Scratch, deltas: Deltas) -> float:
    """From S to G, in place, with the curvatures beside it. Returns the block's loss."""
    shared, contexts = objective.shared, context_rows(objective.window)
    groups = (contexts + shared) // 4
    per_negative = splat(_F(objective.negatives) / _F(shared))
    losses = zeros()
    _clear(scratch.curvature, 0, groups * 16)
    for c in range(TILES):
        x_curvature = zeros()
        x_norms = load_centres(scratch.x_norms, c * 4)
        for g in range(c, band_end(c, objective.window)):
            tile = (c * groups + g) * 16
            score, in_window = load(scratch.gradient, tile), window_tile(scratch, c, g)
            small, large, log1p = sigmoids(score)
            pull = where_less(score, zeros(), large, small) * in_window  # sigmoid(-s)
            store(scratch.gradient, tile, pull)
            losses = muladd(log1p + where_less(score, zeros(), zeros() - score, zeros()), in_window, losses)
            curvature = curvature_of(score, large) * in_window
            x_curvature = muladd(curvature, load_outputs(scratch.o_norms, g * 4), x_curvature)
            store(scratch.curvature, g * 16, muladd(curvature, x_norms, load(scratch.curvature, g * 16)))
        contexts_of = load_centres(scratch.contexts, c * 4)
        for n in range(shared // 4):
            g = contexts // 4 + n
            tile = (c * groups + g) * 16
            score = load(scratch.gradient, tile)
            weight = per_negative * (contexts_of - load(scratch.clashes, (c * (shared // 4) + n) * 16))
            small, large, log1p = sigmoids(score)
            push = where_less(score, zeros(), small, large) * weight  # sigmoid(s)
            store(scratch.gradient, tile, zeros() - push)
            losses = muladd(log1p + where_less(score, zeros(), zeros(), score), weight, losses)
            curvature = curvature_of(score, large) * weight
            x_curvature = muladd(curvature, load_outputs(scratch.o_norms, g * 4), x_curvature)
            store(scratch.curvature, g * 16, muladd(curvature, x_norms, load(scratch.curvature, g * 16)))
        store_centre_sums(deltas.x_curvature, block.number * BLOCK + c * 4, x_curvature)
    for g in range(groups):
        store_output_sums(deltas.o_curvature, (block.number * groups + g) * 4, load(scratch.curvature, g * 16))
    return float(total(losses))


@inline
def _input_deltas(block: Block, objective: Objective, scratch: Scratch, deltas: Deltas) -> None:
    """dX = G O: for each tile of centres, over the context rows of its band and all negatives.

    A strip of columns at a time, here and below, so that the strip stays in the first-level cache.
    """
    width, contexts = objective.width, context_rows(objective.window)
    groups = (contexts + objective.shared) // 4
    for start in range(0, width, 64):
        columns = strip(start, width)
        for c in range(TILES):
            sums = no_deltas()
            for g in range(c, groups):
                if band_end(c, objective.window) <= g < contexts // 4:
                    continue
                for k in range(4):
                    lane, row = (c * groups + g) * 16 + k, (g * 4 + k) * width
                    sums = add_row(sums, scratch.gradient, lane, 4, scratch.o, row, columns)
            store_deltas(deltas.x, (block.number * BLOCK + c * 4) * width, width, columns, sums)


@inline
def _output_deltas(block: Block, objective: Objective, scratch: Scratch, deltas: Deltas) -> None:
    """dO = G^T X: for each tile of output rows, over the centres whose windows reach it; negatives meet all."""
    width, contexts = objective.width, context_rows(objective.window)
    groups = (contexts + objective.shared) // 4
    reach = (2 * objective.window + 3) // 4
    for start in range(0, width, 64):
        columns = strip(start, width)
        for g in range(groups):
            negative = g >= contexts // 4
            sums = no_deltas()
            for c in range(0 if negative else max(0, g - reach), TILES if negative else min(TILES, g + 1)):
                for b in range(4):
                    lane, row = (c * groups + g) * 16 + b * 4, (c * 4 + b) * width
                    sums = add_row(sums, scratch.gradient, lane, 1, scratch.x, row, columns)
            store_deltas(deltas.o, (block.number * groups + g) * 4 * width, width, columns, sums)
