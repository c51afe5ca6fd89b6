"""The arithmetic of the CPU kernel, a register tile at a time (letters: cpu_memory.py).

A tile of scores is 16 sums over D, kept in 16 registers until the end. A tile of deltas is 4 rows by a strip of 64
columns, kept in 16 registers over all the rows that it sums. What the loss asks of a score is a few polynomials, 16
scores at once.
"""

import numpy as np

from sgns_cli.training.compiled import inline
from sgns_cli.training.draws import BLOCK
from sgns_cli.training.kernels.cpu_memory import STRIP, Floats, Scratch
from sgns_cli.training.kernels.simd import (
    WHOLE,
    F32x16,
    absolute,
    lane_columns,
    load,
    load_centres,
    muladd,
    power_of_two,
    splat,
    store,
    totals,
    where_less,
    zeros,
)
from sgns_cli.training.unchecked import item

_F = np.float32
_LOG2_E = _F(1.4426950408889634)
_LN2_HIGH, _LN2_LOW = _F(0.693359375), _F(-2.1219444005469058e-4)  # ln 2 in two parts (Cody and Waite)

Four = tuple[F32x16, F32x16, F32x16, F32x16]
Deltas4 = tuple[Four, Four, Four, Four]  # 4 rows of a strip


@inline
def score_tile(scratch: Scratch, c: int, g: int, groups: int, width: int) -> F32x16:
    """Products of 4 centres with 4 output rows, over D 16 lanes at a time."""
    s0 = s1 = s2 = s3 = (zeros(), zeros(), zeros(), zeros())
    for start in range(0, width, STRIP):
        x, o = start * BLOCK + c * 4 * STRIP, (start * groups + g * STRIP) * 4
        for i in range(0, min(STRIP, width - start), 16):
            outputs = load_rows(scratch.o, o + i)
            s0 = _products(load(scratch.x, x + i), outputs, s0)
            s1 = _products(load(scratch.x, x + STRIP + i), outputs, s1)
            s2 = _products(load(scratch.x, x + 2 * STRIP + i), outputs, s2)
            s3 = _products(load(scratch.x, x + 3 * STRIP + i), outputs, s3)
    return totals(s0 + s1 + s2 + s3)


@inline
def load_rows(rows: Floats, at: int) -> Four:
    """16 columns of 4 rows that follow one another in a strip."""
    return load(rows, at), load(rows, at + STRIP), load(rows, at + 2 * STRIP), load(rows, at + 3 * STRIP)


@inline
def _products(x: F32x16, rows: Four, sums: Four) -> Four:
    """sums + x * rows, for each of the four."""
    return (
        muladd(x, rows[0], sums[0]),
        muladd(x, rows[1], sums[1]),
        muladd(x, rows[2], sums[2]),
        muladd(x, rows[3], sums[3]),
    )


@inline
def no_deltas() -> Deltas4:
    """The start of a sum of deltas."""
    nothing = (zeros(), zeros(), zeros(), zeros())
    return nothing, nothing, nothing, nothing


@inline
def strip_columns(start: int, width: int) -> tuple[int, int, int, int]:
    """The 4 vectors of the strip at `start`; the last real one stands again for those beyond the width."""
    last = min(STRIP, width - start) - 16
    return 0, min(16, last), min(32, last), min(48, last)


@inline
def add_row(
    deltas: Deltas4, gradient: Floats, lane: int, stride: int, rows: Floats, at: int, columns: tuple[int, int, int, int]
) -> Deltas4:
    """Add one row to 4 rows of deltas, each times its number of a gradient tile: those at lane, lane + stride, ..."""
    row = (
        load(rows, at + columns[0]),
        load(rows, at + columns[1]),
        load(rows, at + columns[2]),
        load(rows, at + columns[3]),
    )
    return (
        _products(splat(item(gradient, lane)), row, deltas[0]),
        _products(splat(item(gradient, lane + stride)), row, deltas[1]),
        _products(splat(item(gradient, lane + 2 * stride)), row, deltas[2]),
        _products(splat(item(gradient, lane + 3 * stride)), row, deltas[3]),
    )


@inline
def deliver(scratch: Scratch, slot: int, start: int, columns: tuple[int, int, int, int], deltas: Deltas4) -> None:
    """Bring 4 rows of deltas, of the slots from `slot` on, to where they go."""
    _deliver_row(scratch, slot, start, columns, deltas[0])
    _deliver_row(scratch, slot + 1, start, columns, deltas[1])
    _deliver_row(scratch, slot + 2, start, columns, deltas[2])
    _deliver_row(scratch, slot + 3, start, columns, deltas[3])


@inline
def _deliver_row(scratch: Scratch, slot: int, start: int, columns: tuple[int, int, int, int], row: Four) -> None:
    """target = source + step * row; all loads come first, since columns may repeat (see `strip_columns`)."""
    source, target, step = item(scratch.source, slot), item(scratch.target, slot), splat(item(scratch.step, slot))
    a = muladd(step, row[0], load(source, start + columns[0]))
    b = muladd(step, row[1], load(source, start + columns[1]))
    c = muladd(step, row[2], load(source, start + columns[2]))
    d = muladd(step, row[3], load(source, start + columns[3]))
    store(target, start + columns[0], a)
    store(target, start + columns[1], b)
    store(target, start + columns[2], c)
    store(target, start + columns[3], d)


@inline
def window_tile(scratch: Scratch, c: int, g: int) -> F32x16:
    """1 where the context row lies in the centre's window and is not the centre, else 0."""
    row = lane_columns() + splat(_F(g * 4))
    off_centre = absolute(row - load_centres(scratch.own, c * 4))
    inside = where_less(off_centre, splat(_F(0.5)), zeros(), splat(_F(1)))
    inside = where_less(row, load_centres(scratch.low, c * 4), zeros(), inside)
    return where_less(row, load_centres(scratch.high, c * 4), inside, zeros())


@inline
def sigmoids(score: F32x16) -> tuple[F32x16, F32x16, F32x16]:
    """sigmoid(-|s|), sigmoid(|s|) and log(1 + exp(-|s|)), each good to a few units in the last place.

    exp by Cody and Waite's reduction and a polynomial of degree 6; log1p by one of degree 8 on [0, 1] (both fitted at
    Chebyshev nodes, relative errors 3e-9 and 3e-8). A NaN stays a NaN.
    """
    size = absolute(score)
    size = where_less(splat(_F(87)), size, splat(_F(87)), size)  # exp(-87) is about the smallest normal float32
    shifted = muladd(size, splat(-_LOG2_E), splat(_F(WHOLE)))
    twos = shifted - splat(_F(WHOLE))  # the nearest whole number
    r = muladd(twos, splat(-_LN2_LOW), muladd(twos, splat(-_LN2_HIGH), zeros() - size))
    p = muladd(r, splat(_F(0.001394858118146658)), splat(_F(0.008375128731131554)))
    p = muladd(r, p, splat(_F(0.041666217148303986)))
    p = muladd(r, p, splat(_F(0.16666415333747864)))
    p = muladd(r, p, splat(_F(0.5)))
    p = muladd(r, p, splat(_F(1)))
    e = muladd(r, p, splat(_F(1))) * power_of_two(shifted)
    large = splat(_F(1)) / (splat(_F(1)) + e)
    q = muladd(e, splat(_F(0.005253457929939032)), splat(_F(-0.02958850748836994)))
    q = muladd(e, q, splat(_F(0.07836166769266129)))
    q = muladd(e, q, splat(_F(-0.13674770295619965)))
    q = muladd(e, q, splat(_F(0.19111430644989014)))
    q = muladd(e, q, splat(_F(-0.24844369292259216)))
    q = muladd(e, q, splat(_F(0.33319270610809326)))
    q = muladd(e, q, splat(_F(-0.49999502301216125)))
    return e * large, large, muladd(e, q, splat(_F(1))) * e


@inline
def curvature_of(score: F32x16, large: F32x16) -> F32x16:
    """tanh(s/2) / (2 s), from sigmoid(|s|): of the parabola above the loss (see reference.py)."""
    size = absolute(score)
    return where_less(size, splat(_F(0.01)), splat(_F(0.25)), (large - splat(_F(0.5))) / size)
