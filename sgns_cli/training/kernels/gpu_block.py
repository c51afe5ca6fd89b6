"""The Triton kernels of gpu.py: `add_deltas` for the blocks of a part of a round, and `move_rows` for its rows.

The equations are those of reference.py, the letters too. A row's key is its number in the one table; -1 is an empty
slot. P outputs are handled at a time, and TILE columns of D, so that any window, number of negatives and dim will do.
"""

# mypy: disable-error-code="no-untyped-def,misc,no-untyped-call"
# ruff: noqa: ANN001, ANN201, ANN202, C901 - the types here are Triton's, not Python's
import triton
import triton.language as tl


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
def _train_outputs(
    table,
    deltas,
    curvature,
    outputs,  # [P] keys
    weights,  # [B, P]
    x,  # [B, TILE] input rows, where one tile has them whole
    x_norm,  # [B] squared
    x_delta,  # [B, TILE] likewise, what the centres have been asked for by outputs before
    x_bend,  # [B]
    loss,  # [B]
    centres,
    places,
    SIGN: tl.constexpr,  # 1 for contexts, -1 for negatives
    WIDTH: tl.constexpr,
    PLACES: tl.constexpr,
    TILE: tl.constexpr,
    SIZE: tl.constexpr,
    OUTPUTS: tl.constexpr,
    MOVES: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Some outputs of a block: their deltas and curvatures are added to the tables, the centres' are returned."""
    columns = tl.arange(0, TILE)
    scores = tl.zeros([SIZE, OUTPUTS], tl.float32)
    norm = tl.zeros([OUTPUTS], tl.float32)
    o = _load(table, outputs, columns, WIDTH)
    for start in tl.static_range(0, WIDTH, TILE):
        if WIDTH > TILE:
            x = _inputs(table, centres, places, start + columns, WIDTH, PLACES)
            o = _load(table, outputs, start + columns, WIDTH)
        scores = tl.dot(x, tl.trans(o), scores, input_precision=PRECISION)
        norm += tl.sum(o * o, 1)

    signed = SIGN * scores
    decay = tl.exp(-tl.abs(scores))
    loss += tl.sum(weights * (tl.maximum(-signed, 0.0) + tl.log(1.0 + decay)), 1)
    if MOVES:
        gradient = SIGN * weights * tl.where(signed > 0, decay, 1.0) / (1.0 + decay)
        # tanh(s/2) / (2 s), by its series where the quotient loses digits
        quotient = (1.0 - decay) / (1.0 + decay) / (2.0 * tl.maximum(tl.abs(scores), 0.01))
        bend = weights * tl.where(tl.abs(scores) < 0.1, 0.25 - scores * scores / 48.0, quotient)
        x_bend += tl.sum(bend * norm[None, :], 1)
        o_bend = tl.sum(bend * x_norm[:, None], 0)
        tl.atomic_add(curvature + outputs, o_bend, mask=outputs >= 0, sem="relaxed")
        for start in tl.static_range(0, WIDTH, TILE):
            if WIDTH > TILE:
                x = _inputs(table, centres, places, start + columns, WIDTH, PLACES)
                o = _load(table, outputs, start + columns, WIDTH)
            o_delta = tl.dot(tl.trans(gradient), x, input_precision=PRECISION)
            _add(deltas, outputs, start + columns, o_delta, WIDTH)
            if WIDTH > TILE:
                delta = tl.dot(gradient, o, input_precision=PRECISION)
                _add(deltas, centres, start + columns, delta, WIDTH)
                if PLACES > 0:
                    _add(deltas, places, start + columns, delta, WIDTH)
            else:
                x_delta = tl.dot(gradient, o, x_delta, input_precision=PRECISION)
    return x_delta, x_bend, loss


@triton.jit
def _contexts_of(rows, corner, column, low, high, own):
    """Which columns of context rows lie in each centre's window [B, P], and their training rows, -1 if in none."""
    at = corner + column
    in_window = (at[None, :] >= low[:, None]) & (at[None, :] < high[:, None]) & (at[None, :] != own[:, None])
    needed = tl.max(in_window.to(tl.int32), 0) > 0
    return in_window.to(tl.float32), tl.load(rows + at, mask=needed, other=-1)


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
    NEGATIVE_TILES: tl.constexpr,
    WIDTH: tl.constexpr,
    TILE: tl.constexpr,
    SIZE: tl.constexpr,
    MOVES: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """A block of a part, by one program: see `part_loss`."""
    part = tl.load(parts_at) + number
    first = tl.load(part_first + part) + tl.program_id(0) * SIZE
    last = tl.load(part_last + part)
    if first < last:
        block = tl.load(part_block + part) + tl.program_id(0)
        columns = tl.arange(0, TILE)
        own = first + tl.arange(0, SIZE)
        real = own < last
        centres = tl.load(rows + own, mask=real, other=-1)
        place_keys = centres
        if PLACES > 0:
            place_keys = tl.load(places + own, mask=real, other=-1 - 2 * ROWS) + 2 * ROWS
        window_low = tl.load(low + own, mask=real, other=0)
        window_high = tl.load(high + own, mask=real, other=0)
        contexts = tl.where(real, window_high - window_low - 1, 0)

        x = _inputs(table, centres, place_keys, columns, WIDTH, PLACES)
        x_norm = tl.sum(x * x, 1)
        for start in tl.static_range(TILE, WIDTH, TILE):
            more = _inputs(table, centres, place_keys, start + columns, WIDTH, PLACES)
            x_norm += tl.sum(more * more, 1)
        x_delta = tl.zeros([SIZE, TILE], tl.float32)
        x_bend = tl.zeros([SIZE], tl.float32)
        loss = tl.zeros([SIZE], tl.float32)

        corner = first - WINDOW  # the draw at context row 0
        for tile in range(CONTEXT_TILES):
            column = tile * CONTEXTS + tl.arange(0, CONTEXTS)
            in_window, context_rows = _contexts_of(rows, corner, column, window_low, window_high, own)
            keys = tl.where(context_rows >= 0, context_rows + ROWS, -1)
            x_delta, x_bend, loss = _train_outputs(
                table,
                deltas,
                curvature,
                keys,
                in_window,
                x,
                x_norm,
                x_delta,
                x_bend,
                loss,
                centres,
                place_keys,
                1,
                WIDTH,
                PLACES,
                TILE,
                SIZE,
                CONTEXTS,
                MOVES,
                PRECISION,
            )
        for tile in range(NEGATIVE_TILES):
            slot = tile * NEGATIVES + tl.arange(0, NEGATIVES)
            negative = tl.load(negatives + block.to(tl.int64) * SHARED + slot, mask=slot < SHARED, other=-1)
            clashes = tl.zeros([SIZE, NEGATIVES], tl.float32)
            for context_tile in range(CONTEXT_TILES):
                column = context_tile * CONTEXTS + tl.arange(0, CONTEXTS)
                in_window, context_rows = _contexts_of(rows, corner, column, window_low, window_high, own)
                clash = (context_rows[:, None] == negative[None, :]) & (negative[None, :] >= 0)
                clashes = tl.dot(in_window, clash.to(tl.float32), clashes)  # counts: exact in any precision
            weights = tl.where(negative[None, :] >= 0, (contexts[:, None] - clashes) * WEIGHT, 0.0)
            x_delta, x_bend, loss = _train_outputs(
                table,
                deltas,
                curvature,
                tl.where(negative >= 0, negative + ROWS, -1),
                weights,
                x,
                x_norm,
                x_delta,
                x_bend,
                loss,
                centres,
                place_keys,
                -1,
                WIDTH,
                PLACES,
                TILE,
                SIZE,
                NEGATIVES,
                MOVES,
                PRECISION,
            )
        tl.store(losses + block, tl.sum(loss, 0))
        tl.store(pairs + block, tl.sum(contexts, 0))
        if MOVES:
            tl.atomic_add(curvature + centres, x_bend, mask=real, sem="relaxed")
            if PLACES > 0:
                tl.atomic_add(curvature + place_keys, x_bend, mask=real, sem="relaxed")
            if WIDTH <= TILE:
                _add(deltas, centres, columns, x_delta, WIDTH)
                if PLACES > 0:
                    _add(deltas, place_keys, columns, x_delta, WIDTH)


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
    OUTPUTS: tl.constexpr,
    LIMIT: tl.constexpr,
    WIDTH: tl.constexpr,
    TILE: tl.constexpr,
    SIZE: tl.constexpr,
):
    """The rows of some tokens of a part, those around its centres too, and of a block's negatives: see `train_part`."""
    part = tl.load(parts_at) + number
    first = tl.load(part_first + part)
    last = tl.load(part_last + part)
    rate = tl.load(part_rate + part)
    program = tl.program_id(0)
    at = first - WINDOW + program * SIZE + tl.arange(0, SIZE)
    if (first < last) & (first - WINDOW + program * SIZE < last + WINDOW):
        row = tl.load(rows + at, mask=at < last + WINDOW, other=-1)
        _move(table, deltas, curvature, row, rate, LIMIT, WIDTH, TILE)
        _move(table, deltas, curvature, tl.where(row >= 0, row + ROWS, -1), rate, LIMIT, WIDTH, TILE)
        if PLACES > 0:
            centre = (at >= first) & (at < last)
            place = tl.load(places + at, mask=centre, other=-1 - 2 * ROWS) + 2 * ROWS
            _move(table, deltas, curvature, place, rate, LIMIT, WIDTH, TILE)
    if first + program * SIZE < last:
        block = tl.load(part_block + part) + program
        for start in range(0, SHARED, OUTPUTS):
            slot = start + tl.arange(0, OUTPUTS)
            negative = tl.load(negatives + block.to(tl.int64) * SHARED + slot, mask=slot < SHARED, other=-1)
            key = tl.where(negative >= 0, negative + ROWS, -1)
            _move(table, deltas, curvature, key, rate, LIMIT, WIDTH, TILE)
