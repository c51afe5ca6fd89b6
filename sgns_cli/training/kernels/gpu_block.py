"""The Triton kernels of gpu.py: `add_deltas` for the blocks of a part of a round, and `move_rows` for its rows.

The equations are those of reference.py, the letters too. A row's key is its number in the one table; -1 is an empty
slot. P outputs are handled at a time, and TILE columns of D, so that any window, number of negatives and dim will do.
"""

# mypy: disable-error-code="no-untyped-def,misc,no-untyped-call,untyped-decorator"
# ruff: noqa: ANN001, ANN201, ANN202 - the types here are Triton's, not Python's
import os

os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")  # said, since Triton 3.9 warns of a change to come

import triton
import triton.language as tl

NEGATIVE_ROWS = tl.constexpr(2)  # kinds of rows
POSITION_ROWS = tl.constexpr(3)


@triton.jit
def _load(table, keys, columns, WIDTH: tl.constexpr):
    """Columns of the rows with these keys; zeros for empty slots and past the width."""
    at = keys[:, None].to(tl.int64) * WIDTH + columns[None, :]
    return tl.load(table + at, mask=(keys[:, None] >= 0) & (columns[None, :] < WIDTH), other=0.0)


@triton.jit
def _add(deltas, keys, columns, values, WIDTH: tl.constexpr):
    at = keys[:, None].to(tl.int64) * WIDTH + columns[None, :]
    mask = (keys[:, None] >= 0) & (columns[None, :] < WIDTH)
    tl.atomic_add(deltas + at, values, mask=mask, sem="relaxed")


@triton.jit
def _inputs(table, centres, places, columns, WIDTH: tl.constexpr, PLACES: tl.constexpr):
    """Input rows: vectors of the centres, plus rows of positions where they are learned."""
    x = _load(table, centres, columns, WIDTH)
    if PLACES > 0:
        x += _load(table, places, columns, WIDTH)
    return x


@triton.jit
def _contexts_of(rows, at, low, high, own):
    """Which of the tokens `at` lie in each centre's window [B, P], and their training rows [P], -1 if in none."""
    in_window = (at[None, :] >= low[:, None]) & (at[None, :] < high[:, None]) & (at[None, :] != own[:, None])
    needed = tl.max(in_window.to(tl.int32), 0) > 0
    return in_window.to(tl.float32), tl.load(rows + at, mask=needed, other=-1)


@triton.jit
def _judge(scores, weights, SIGN: tl.constexpr):
    """What the loss asks of scores: the gradient downhill, the curvature, and the losses; SIGN -1 for negatives."""
    signed = SIGN * scores
    decay = tl.exp(-tl.abs(scores))
    loss = weights * (tl.maximum(-signed, 0.0) + tl.log(1.0 + decay))
    gradient = SIGN * weights * tl.where(signed > 0, decay, 1.0) / (1.0 + decay)
    # tanh(s/2) / (2 s), by its series where the quotient loses digits
    quotient = (1.0 - decay) / (1.0 + decay) / (2.0 * tl.maximum(tl.abs(scores), 0.01))
    bend = weights * tl.where(tl.abs(scores) < 0.1, 0.25 - scores * scores / 48.0, quotient)
    return gradient, bend, loss


@triton.jit(do_not_specialize=["number"])
def add_deltas(
    number,
    table,
    deltas,
    curvature,
    rows,
    places,
    low,
    high,
    negatives,
    part_first,
    part_last,
    part_block,
    part_rate,
    parts_at,
    losses,
    pairs,
    ROWS: tl.constexpr,
    PLACES: tl.constexpr,
    WINDOW: tl.constexpr,
    SHARED: tl.constexpr,
    WEIGHT: tl.constexpr,
    CONTEXTS: tl.constexpr,
    CONTEXT_TILES: tl.constexpr,
    NEGATIVES: tl.constexpr,
    OUTPUT_TILES: tl.constexpr,
    WIDTH: tl.constexpr,
    TILE: tl.constexpr,
    SIZE: tl.constexpr,
    MOVES: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """A block of a part, by one program: its contexts and negatives a tile of each at a time. See `run_part`."""
    part = tl.load(parts_at) + number
    first = tl.load(part_first + part) + tl.program_id(0) * SIZE
    last = tl.load(part_last + part)
    if first < last:
        block = tl.load(part_block + part) + tl.program_id(0)
        own = first + tl.arange(0, SIZE)
        real = own < last
        centres = tl.load(rows + own, mask=real, other=-1)
        place_keys = centres
        if PLACES > 0:
            place_keys = tl.load(places + own, mask=real, other=-1 - 2 * ROWS) + 2 * ROWS
        window_low = tl.load(low + own, mask=real, other=0)
        window_high = tl.load(high + own, mask=real, other=0)
        contexts = tl.where(real, window_high - window_low - 1, 0)
        loss = tl.zeros([SIZE], tl.float32)

        for tile in range(OUTPUT_TILES):
            around = first - WINDOW + tile * CONTEXTS + tl.arange(0, CONTEXTS)
            in_window, context_rows = _contexts_of(rows, around, window_low, window_high, own)
            context_keys = tl.where(context_rows >= 0, context_rows + ROWS, -1)
            slot = tile * NEGATIVES + tl.arange(0, NEGATIVES)
            negative_rows = tl.load(negatives + block.to(tl.int64) * SHARED + slot, mask=slot < SHARED, other=-2)
            negative_keys = tl.where(negative_rows >= 0, negative_rows + ROWS, -1)
            clashes = tl.zeros([SIZE, NEGATIVES], tl.float32)
            for other in range(CONTEXT_TILES):
                around = first - WINDOW + other * CONTEXTS + tl.arange(0, CONTEXTS)
                of_tile, rows_of_tile = _contexts_of(rows, around, window_low, window_high, own)
                clash = (rows_of_tile[:, None] == negative_rows[None, :]).to(tl.float32)
                clashes = tl.dot(of_tile, clash, clashes)  # counts: exact in any precision
            weights = tl.where(slot[None, :] < SHARED, (contexts[:, None] - clashes) * WEIGHT, 0.0)

            context_scores = tl.zeros([SIZE, CONTEXTS], tl.float32)
            negative_scores = tl.zeros([SIZE, NEGATIVES], tl.float32)
            x_norm = tl.zeros([SIZE], tl.float32)
            context_norm = tl.zeros([CONTEXTS], tl.float32)
            negative_norm = tl.zeros([NEGATIVES], tl.float32)
            for start in tl.static_range(0, WIDTH, TILE):
                columns = start + tl.arange(0, TILE)
                x = _inputs(table, centres, place_keys, columns, WIDTH, PLACES)
                o = _load(table, context_keys, columns, WIDTH)
                n = _load(table, negative_keys, columns, WIDTH)
                context_scores = tl.dot(x, tl.trans(o), context_scores, input_precision=PRECISION)
                negative_scores = tl.dot(x, tl.trans(n), negative_scores, input_precision=PRECISION)
                x_norm += tl.sum(x * x, 1)
                context_norm += tl.sum(o * o, 1)
                negative_norm += tl.sum(n * n, 1)

            context_gradient, context_bend, context_loss = _judge(context_scores, in_window, 1)
            negative_gradient, negative_bend, negative_loss = _judge(negative_scores, weights, -1)
            loss += tl.sum(context_loss, 1) + tl.sum(negative_loss, 1)
            if MOVES:
                bend = tl.sum(context_bend * context_norm[None, :], 1) + tl.sum(
                    negative_bend * negative_norm[None, :], 1
                )
                tl.atomic_add(curvature + centres, bend, mask=real, sem="relaxed")
                if PLACES > 0:
                    tl.atomic_add(curvature + place_keys, bend, mask=real, sem="relaxed")
                bend = tl.sum(context_bend * x_norm[:, None], 0)
                tl.atomic_add(curvature + context_keys, bend, mask=context_keys >= 0, sem="relaxed")
                bend = tl.sum(negative_bend * x_norm[:, None], 0)
                tl.atomic_add(curvature + negative_keys, bend, mask=negative_keys >= 0, sem="relaxed")
                for start in tl.static_range(0, WIDTH, TILE):
                    columns = start + tl.arange(0, TILE)
                    x = _inputs(table, centres, place_keys, columns, WIDTH, PLACES)
                    o = _load(table, context_keys, columns, WIDTH)
                    n = _load(table, negative_keys, columns, WIDTH)
                    delta = tl.dot(context_gradient, o, input_precision=PRECISION)
                    delta = tl.dot(negative_gradient, n, delta, input_precision=PRECISION)
                    _add(deltas, centres, columns, delta, WIDTH)
                    if PLACES > 0:
                        _add(deltas, place_keys, columns, delta, WIDTH)
                    delta = tl.dot(tl.trans(context_gradient), x, input_precision=PRECISION)
                    _add(deltas, context_keys, columns, delta, WIDTH)
                    delta = tl.dot(tl.trans(negative_gradient), x, input_precision=PRECISION)
                    _add(deltas, negative_keys, columns, delta, WIDTH)
        tl.store(losses + block, tl.sum(loss, 0))
        tl.store(pairs + block, tl.sum(contexts, 0))


@triton.jit
def _move(table, deltas, curvature, keys, rate, LIMIT: tl.constexpr, WIDTH: tl.constexpr, TILE: tl.constexpr):
    """Move the rows with these keys. Of all who ask for a row, the one that takes its curvature away moves it."""
    bits = curvature.to(tl.pointer_type(tl.int32), bitcast=True)  # what is exchanged everywhere
    bend = tl.atomic_xchg(bits + keys, 0, mask=keys >= 0, sem="relaxed").to(tl.float32, bitcast=True)
    mine = tl.where((keys >= 0) & (bend != 0), keys, -1)
    step = tl.minimum(rate, LIMIT / tl.where(mine >= 0, bend, 1.0))
    for start in tl.static_range(0, WIDTH, TILE):
        columns = start + tl.arange(0, TILE)
        change = _load(deltas, mine, columns, WIDTH)
        moved = _load(table, mine, columns, WIDTH) + step[:, None] * change
        at = mine[:, None].to(tl.int64) * WIDTH + columns[None, :]
        mask = (mine[:, None] >= 0) & (columns[None, :] < WIDTH)
        tl.store(table + at, moved, mask=mask)
        tl.store(deltas + at, tl.zeros_like(change), mask=mask)


@triton.jit(do_not_specialize=["number"])
def move_rows(
    number,
    table,
    deltas,
    curvature,
    rows,
    places,
    low,
    high,
    negatives,
    part_first,
    part_last,
    part_block,
    part_rate,
    parts_at,
    ROWS: tl.constexpr,
    PLACES: tl.constexpr,
    WINDOW: tl.constexpr,
    SHARED: tl.constexpr,
    NEGATIVES: tl.constexpr,
    LIMIT: tl.constexpr,
    WIDTH: tl.constexpr,
    TILE: tl.constexpr,
    SIZE: tl.constexpr,
):
    """Some rows of a part, of one kind: vectors or contexts of tokens, rows of negatives, of positions."""
    part = tl.load(parts_at) + number
    first = tl.load(part_first + part)
    last = tl.load(part_last + part)
    rate = tl.load(part_rate + part)
    group, kind = tl.program_id(0), tl.program_id(1)
    begin = first - WINDOW + group * SIZE
    at = begin + tl.arange(0, SIZE)
    if kind == NEGATIVE_ROWS:
        if first + group * SIZE < last:
            block = tl.load(part_block + part) + group
            for start in range(0, SHARED, NEGATIVES):
                slot = start + tl.arange(0, NEGATIVES)
                row = tl.load(negatives + block.to(tl.int64) * SHARED + slot, mask=slot < SHARED, other=-1)
                _move(table, deltas, curvature, tl.where(row >= 0, row + ROWS, -1), rate, LIMIT, WIDTH, TILE)
    elif (first < last) & (begin < last + WINDOW):
        if kind == POSITION_ROWS:
            place = tl.load(places + at, mask=(at >= first) & (at < last), other=-1)
            keys = tl.where(place >= 0, place + 2 * ROWS, -1)
        else:  # 0 for vectors, 1 for contexts
            row = tl.load(rows + at, mask=at < last + WINDOW, other=-1)
            keys = tl.where(row >= 0, row + kind * ROWS, -1)
        _move(table, deltas, curvature, keys, rate, LIMIT, WIDTH, TILE)
