"""One block of a round on the CPU: 32 centres, the rows of their windows, N shared negatives.

Three small matrix products, with what the loss asks of each score between them:

    scores   S  = X O^T      [B, P]   then  G = -dloss/dS, and the curvature and the loss beside it
    deltas   dX = G O        [B, D]
             dO = G^T X      [P, D]

Reads the tables; a delta goes to its row where no other slot has that row, else to the deltas of the round's part. The
one gradient routine of the CPU engine. What the equations mean stands in reference.py, the letters in cpu_memory.py.
"""

import numpy as np

from sgns_cli.training.compiled import inline
from sgns_cli.training.draws import BLOCK
from sgns_cli.training.kernels.cpu_memory import (
    STRIP,
    TILES,
    Deltas,
    Floats,
    Ints,
    Objective,
    Scratch,
    Tables,
    fetch_lines,
    row_of,
    start_fetch,
    step_within,
)
from sgns_cli.training.kernels.cpu_plan import Plans, first_slot
from sgns_cli.training.kernels.cpu_tiles import (
    add_row,
    curvature_of,
    deliver,
    no_deltas,
    score_tile,
    sigmoids,
    strip_columns,
    window_tile,
)
from sgns_cli.training.kernels.simd import (
    address,
    load,
    load_centres,
    load_outputs,
    lowest_bit,
    matches,
    muladd,
    splat,
    store,
    store_centre_sums,
    store_output_sums,
    total,
    where_less,
    zeros,
)
from sgns_cli.training.unchecked import item, put

_F = np.float32


@inline
def train_block(
    block: int,
    first_block: int,
    following: int,
    number: int,
    plans: Plans,
    tables: Tables,
    objective: Objective,
    scratch: Scratch,
    deltas: Deltas,
    rate: np.float32,
    moves: bool,
) -> None:
    """Train a block of plan `number`, in the part that begins at `first_block`; its loss and pairs go to `deltas`.

    Where nothing moves, that is all. The rows of block `following`, which is likely to be this thread's next, are asked
    for meanwhile; there is none if it is `block` itself.
    """
    keys, slots = plans.keys, objective.slots
    centre, last = item(plans.first, number) + block * BLOCK, item(plans.last, number)
    slot = first_slot(plans, number) + block * slots
    next_slot = slot + (following - block) * slots
    start_fetch(scratch, next_slot, next_slot + (slots if following > block else 0))
    pairs = _load_windows(plans, centre, last, objective, scratch)
    _load_centres(keys, slot, tables, objective, scratch)
    _load_outputs(keys, slot, tables, objective, scratch)
    _count_clashes(keys, slot, objective, scratch)
    _scores(keys, tables, objective, scratch)
    put(deltas.losses, block - first_block, _gradients(keys, tables, objective, scratch))
    put(deltas.pairs, block - first_block, pairs)
    if moves:
        _address_deltas(plans, slot, tables, objective, scratch, deltas, rate)
        _input_deltas(keys, tables, objective, scratch)
        _output_deltas(objective, scratch)


@inline
def _load_windows(plans: Plans, centre: int, last: int, objective: Objective, scratch: Scratch) -> int:
    """The windows of the centres, as context rows. Returns the number of their pairs."""
    draws = plans.draws
    corner = centre - objective.window  # the draw at context row 0
    pairs = 0
    for b in range(BLOCK):
        low, high, contexts = 0, 0, 0
        if centre + b < last:
            low, high = item(draws.low, centre + b) - corner, item(draws.high, centre + b) - corner
            contexts = high - low - 1
        put(scratch.low, b, low)
        put(scratch.high, b, high)
        put(scratch.contexts, b, contexts)
        pairs += contexts
    return pairs


@inline
def _load_centres(keys: Ints, slot: int, tables: Tables, objective: Objective, scratch: Scratch) -> None:
    """Input rows: vectors of the centres, plus rows of positions where they are learned."""
    width = objective.width
    for b in range(BLOCK):
        source = _source(item(keys, slot + b), tables, width, scratch)
        put(scratch.x_norms, b, _copy(source, scratch.x, b, BLOCK, width))
    if objective.context_length > 0:
        places = slot + BLOCK + objective.contexts + objective.shared
        for b in range(BLOCK):
            source = _source(item(keys, places + b), tables, width, scratch)
            put(scratch.x_norms, b, _add(source, scratch.x, b, width))


@inline
def _load_outputs(keys: Ints, slot: int, tables: Tables, objective: Objective, scratch: Scratch) -> None:
    """Output rows: the contexts that the windows cover, and the negatives."""
    width, outputs = objective.width, objective.contexts + objective.shared
    for p in range(outputs):
        source = _source(item(keys, slot + BLOCK + p), tables, width, scratch)
        put(scratch.o_norms, p, _copy(source, scratch.o, p, outputs, width))


@inline
def _source(key: int, tables: Tables, width: int, scratch: Scratch) -> int:
    """Where the row with a key lies; zeros for an empty slot."""
    return row_of(tables, np.int64(key), width) if key >= 0 else address(scratch.nothing, 0)


@inline
def _copy(row: int, out: Floats, number: int, rows: int, width: int) -> np.float32:
    """Copy a row to row `number` of `rows` in strips; returns its squared length."""
    norm = zeros()
    for start in range(0, width, STRIP):
        at = start * rows + number * STRIP
        for i in range(0, min(STRIP, width - start), 16):
            numbers = load(row, start + i)
            store(out, at + i, numbers)
            norm = muladd(numbers, numbers, norm)
    return total(norm)


@inline
def _add(row: int, out: Floats, number: int, width: int) -> np.float32:
    """Add a row to input row `number` in strips; returns the squared length of the sum."""
    norm = zeros()
    for start in range(0, width, STRIP):
        at = start * BLOCK + number * STRIP
        for i in range(0, min(STRIP, width - start), 16):
            numbers = load(out, at + i) + load(row, start + i)
            store(out, at + i, numbers)
            norm = muladd(numbers, numbers, norm)
    return total(norm)


@inline
def _clear(out: Floats, at: int, size: int) -> None:
    for i in range(at, at + size, 16):
        store(out, i, zeros())


@inline
def _count_clashes(keys: Ints, slot: int, objective: Objective, scratch: Scratch) -> None:
    """For each centre and negative, how many contexts of the centre are that same row."""
    shared, window, contexts = objective.shared, objective.window, objective.contexts
    output = slot + BLOCK
    _clear(scratch.clashes, 0, BLOCK * shared)
    for p in range(contexts):
        key = item(keys, output + p)
        if key < 0:
            continue
        for group in range(0, shared, 16):
            found = matches(keys, output + contexts + group, key)
            while found != 0:
                n = group + lowest_bit(found)
                found &= found - 1
                for b in range(max(0, p - 2 * window), min(BLOCK, p + 1)):
                    inside = item(scratch.low, b) <= p < item(scratch.high, b) and p != b + window
                    at = ((b >> 2) * (shared >> 2) + (n >> 2)) * 16 + (b & 3) * 4 + (n & 3)
                    put(scratch.clashes, at, item(scratch.clashes, at) + _F(inside))


@inline
def _centres_of(g: int, objective: Objective) -> tuple[int, int]:
    """The tiles of centres [first, end) that meet output tile g: those whose windows reach it, all for negatives."""
    if g >= objective.contexts // 4:
        return 0, TILES
    return max(0, g - objective.reach), min(TILES, g + 1)


@inline
def _scores(keys: Ints, tables: Tables, objective: Objective, scratch: Scratch) -> None:
    """S = X O^T: each tile of centres with the context rows of its band and all negatives."""
    contexts, width = objective.contexts, objective.width
    groups = (contexts + objective.shared) // 4
    lines = width // 32
    for g in range(groups):
        first, end = _centres_of(g, objective)
        for c in range(first, end):
            fetch_lines(lines, keys, tables, scratch, width)
            store(scratch.gradient, (c * groups + g) * 16, score_tile(scratch, c, g, groups, width))


@inline
def _gradients(keys: Ints, tables: Tables, objective: Objective, scratch: Scratch) -> float:
    """From S to G, in place, with the curvatures of the slots beside it. Returns the block's loss."""
    shared, contexts = objective.shared, objective.contexts
    groups = (contexts + shared) // 4
    per_negative = splat(_F(objective.negatives) / _F(shared))
    losses = zeros()
    _clear(scratch.curvature, 0, groups * 16)
    for c in range(TILES):
        x_curvature = zeros()
        x_norms = load_centres(scratch.x_norms, c * 4)
        for g in range(c, c + objective.reach + 1):
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
            fetch_lines(2, keys, tables, scratch, objective.width)
        store_centre_sums(scratch.bends, c * 4, x_curvature)
    for g in range(groups):
        store_output_sums(scratch.bends, BLOCK + g * 4, load(scratch.curvature, g * 16))
    return float(total(losses))


@inline
def _address_deltas(
    plans: Plans,
    slot: int,
    tables: Tables,
    objective: Objective,
    scratch: Scratch,
    deltas: Deltas,
    rate: np.float32,
) -> None:
    """Where the deltas of the slots go: to their rows with a step, or to the deltas of the part as they are."""
    width = objective.width
    outputs = objective.contexts + objective.shared
    nothing = address(scratch.nothing, 0)
    for s in range(objective.slots):
        key, place = np.int64(item(plans.keys, slot + s)), np.int64(item(plans.places, slot + s))
        bend = item(scratch.bends, s if s < BLOCK + outputs else s - BLOCK - outputs)
        source, target, step = nothing, nothing, _F(1)
        if key >= 0 and place >= 0:
            target = address(deltas.rows, place * width)
            put(deltas.curvature, place, bend)
        elif key >= 0:
            source = target = row_of(tables, key, width)
            step = step_within(rate, bend, objective.limit)
        put(scratch.source, s, source)
        put(scratch.target, s, target)
        put(scratch.step, s, step)


@inline
def _input_deltas(keys: Ints, tables: Tables, objective: Objective, scratch: Scratch) -> None:
    """dX = G O: for each tile of centres, over the context rows of its band and all negatives."""
    width, contexts = objective.width, objective.contexts
    groups = (contexts + objective.shared) // 4
    for start in range(0, width, STRIP):
        columns = strip_columns(start, width)
        for c in range(TILES):
            sums = no_deltas()
            for g in range(c, groups):
                if c + objective.reach + 1 <= g < contexts // 4:
                    continue
                fetch_lines(2, keys, tables, scratch, width)
                lane, row = (c * groups + g) * 16, (start * groups + g * STRIP) * 4
                for k in range(4):
                    sums = add_row(sums, scratch.gradient, lane + k, 4, scratch.o, row + k * STRIP, columns)
            deliver(scratch, c * 4, start, columns, sums)
            if objective.context_length > 0:
                deliver(scratch, BLOCK + groups * 4 + c * 4, start, columns, sums)


@inline
def _output_deltas(objective: Objective, scratch: Scratch) -> None:
    """dO = G^T X: for each tile of output rows, over the centres whose windows reach it; negatives meet all."""
    width, contexts = objective.width, objective.contexts
    groups = (contexts + objective.shared) // 4
    for start in range(0, width, STRIP):
        columns = strip_columns(start, width)
        for g in range(groups):
            first, end = _centres_of(g, objective)
            sums = no_deltas()
            for c in range(first, end):
                lane, row = (c * groups + g) * 16, start * BLOCK + c * 4 * STRIP
                for b in range(4):
                    sums = add_row(sums, scratch.gradient, lane + b * 4, 1, scratch.x, row + b * STRIP, columns)
            deliver(scratch, BLOCK + g * 4, start, columns, sums)
