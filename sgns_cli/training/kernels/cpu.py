"""Rounds of training on the CPU, the equations of reference.py compiled, by any number of threads.

A round is trained in parts, as a rule one, and a part in two stages. First its blocks (cpu_block.py), each from the
parameters as they stood when the stage began. Then its shared rows: each takes the sum of its deltas, in the order of
their slots, times a step that its curvature limits. Who computes what changes no number in either stage, so threads
claim the pieces of a stage one by one, and whoever finishes the last piece opens the next stage. A thread that has
nothing to claim plans rounds ahead (cpu_plan.py) or waits; nobody waits for one that holds neither piece nor plan.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sgns_cli.training.compiled import inline, jit
from sgns_cli.training.draws import BLOCK, PART_BLOCKS, Chances, Corpus
from sgns_cli.training.kernels.cpu_block import train_block
from sgns_cli.training.kernels.cpu_memory import (
    Deltas,
    Longs,
    Objective,
    Rounds,
    Scratch,
    Tables,
    new_deltas,
    row_of,
    step_within,
)
from sgns_cli.training.kernels.cpu_plan import AHEAD, Plans, first_slot, new_plans, plan_round
from sgns_cli.training.kernels.meeting import CACHE_LINE, increase, nap, pause, read, replace, write
from sgns_cli.training.kernels.simd import load, muladd, splat, store
from sgns_cli.training.unchecked import item, put

_CHUNK = 64  # deltas of a piece of the second stage
_PATIENCE = 2000  # looks before a thread that waits gives its processor away
_BEGIN, _BLOCKS, _ROWS = 0, 1, 2  # kinds of stages; to begin a round is one piece, and no work

# Where the numbers that threads share lie in `Work.numbers`. The ticket is stage * 2^32 + pieces left to claim.
_TICKET = 0 * CACHE_LINE
_LEFT, _OVER = 0xFFFFFFFF, -1
_DONE = 1 * CACHE_LINE  # pieces of the stage that are finished
_PLANNING = 2 * CACHE_LINE  # the next round to plan
_KIND = 3 * CACHE_LINE  # of the stage; these four change only when no piece of it is left
_PIECES = _KIND + 1  # of the stage
_ROUND = _KIND + 2  # the round at hand; plans of those before it may be written over
_PART = _KIND + 3  # the first block of the part
_PLANNED = 4 * CACHE_LINE  # [AHEAD] of each plan that is ready, its round + 1
_NUMBERS = (4 + AHEAD) * CACHE_LINE


class Work(NamedTuple):
    """Room for the rounds, shared by all threads."""

    plans: Plans
    deltas: Deltas
    numbers: Longs  # what threads share, see above
    loss: NDArray[np.float64]  # [1] sum of the losses of the pairs so far, each before its round's step
    pairs: Longs  # [1] how many


def new_work(objective: Objective, span: int) -> Work:
    """Room for rounds of `span` corpus tokens."""
    numbers = np.zeros(_NUMBERS, np.int64)
    return Work(new_plans(objective, span), new_deltas(objective, span), numbers, np.zeros(1), np.zeros(1, np.int64))


def reset(work: Work, rounds: Rounds) -> None:
    """Make ready for `run_rounds`."""
    work.numbers[:] = 0
    work.numbers[_KIND], work.numbers[_PIECES] = _BEGIN, 1
    work.numbers[_TICKET] = 1 if rounds.stop > rounds.start else _OVER
    work.loss[:] = work.pairs[:] = 0


@jit
def run_rounds(
    corpus: Corpus,
    chances: Chances,
    tables: Tables,
    objective: Objective,
    rounds: Rounds,
    work: Work,
    threads: int,
    scratch: Scratch,
) -> None:
    """Work on the rounds until they are done, as one of `threads` threads that call this with the same arguments.

    Only `scratch` is the thread's own. The results are in the tables and in `work`.
    """
    numbers = work.numbers
    looks = 0
    while True:
        ticket = read(numbers, _TICKET)
        if ticket == _OVER:
            return
        left = ticket & _LEFT
        if left > 0 and _ready(numbers):
            if replace(numbers, _TICKET, ticket, ticket - 1):
                pieces = item(numbers, _PIECES)  # read before this piece is done: then the stage may be over
                _work_on(pieces - left, tables, objective, rounds, work, scratch, threads)
                if increase(numbers, _DONE) == pieces:
                    _open_next(ticket >> 32, rounds, work)
            looks = 0
        elif _plan_ahead(corpus, chances, objective, rounds, work, scratch):
            looks = 0
        elif looks < _PATIENCE:
            pause()
            looks += 1
        else:
            nap()


@inline
def _ready(numbers: Longs) -> bool:
    """Whether the pieces of the stage can be done: a round begins when its plan is there."""
    round_ = read(numbers, _ROUND)
    return read(numbers, _KIND) != _BEGIN or read(numbers, _PLANNED + round_ % AHEAD * CACHE_LINE) == round_ + 1


@inline
def _work_on(
    piece: int, tables: Tables, objective: Objective, rounds: Rounds, work: Work, scratch: Scratch, threads: int
) -> None:
    """Do one piece of the stage at hand: a block, or some rows."""
    numbers, plans = work.numbers, work.plans
    kind, round_, part = item(numbers, _KIND), item(numbers, _ROUND), item(numbers, _PART)
    number, moves = round_ % AHEAD, rounds.rates.size > 0
    rate = item(rounds.rates, round_) if moves else np.float32(0)
    if kind == _BLOCKS:
        block = part + piece
        following = block + threads if block + threads < _blocks(plans, number) else block
        train_block(block, part, following, number, plans, tables, objective, scratch, work.deltas, rate, moves)
    elif kind == _ROWS:
        start = first_slot(plans, number) + part * objective.slots
        _move_rows(piece * _CHUNK, _size(plans, number, part), start, plans, tables, objective, work.deltas, rate)


@inline
def _blocks(plans: Plans, number: int) -> int:
    """Blocks of a round."""
    centres: int = item(plans.last, number) - item(plans.first, number)
    return (centres + BLOCK - 1) // BLOCK


@inline
def _size(plans: Plans, number: int, part: int) -> int:
    """Deltas of a part."""
    size: int = item(plans.sizes, number * (plans.sizes.size // AHEAD) + part)
    return size


@inline
def _move_rows(
    first: int,
    size: int,
    start: int,
    plans: Plans,
    tables: Tables,
    objective: Objective,
    deltas: Deltas,
    rate: np.float32,
) -> None:
    """Move the rows whose deltas begin in [first, first + _CHUNK), of `size` deltas in all.

    Each takes the sum of its deltas times its step (see reference.py). `start` is where their keys begin.
    """
    width = objective.width
    i, stop = first, min(first + _CHUNK, size)
    while 0 < i < stop and item(plans.shared, start + i) == item(plans.shared, start + i - 1):
        i += 1  # of a row that begins in the piece before
    while i < stop:
        key = item(plans.shared, start + i)
        bend = item(deltas.curvature, i)
        end = i + 1
        while end < size and item(plans.shared, start + end) == key:
            bend += item(deltas.curvature, end)
            end += 1
        row = row_of(tables, np.int64(key), width)
        step = splat(step_within(rate, bend, objective.limit))
        for column in range(0, width, 16):
            change = load(deltas.rows, i * width + column)
            for k in range(i + 1, end):
                change = change + load(deltas.rows, k * width + column)
            store(row, column, muladd(step, change, load(row, column)))
        i = end


@inline
def _open_next(stage: int, rounds: Rounds, work: Work) -> None:
    """Every piece of the stage is done: open the next one."""
    numbers, plans, deltas = work.numbers, work.plans, work.deltas
    kind, pieces = item(numbers, _KIND), item(numbers, _PIECES)
    round_, part = item(numbers, _ROUND), item(numbers, _PART)
    number = round_ % AHEAD
    if kind == _BLOCKS:
        for block in range(pieces):
            put(work.loss, 0, item(work.loss, 0) + item(deltas.losses, block))
            put(work.pairs, 0, item(work.pairs, 0) + item(deltas.pairs, block))
        size = _size(plans, number, part)
        if rounds.rates.size > 0 and size > 0:
            _open(numbers, stage + 1, _ROWS, (size + _CHUNK - 1) // _CHUNK, round_, part)
            return
    if kind != _BEGIN:
        part += PART_BLOCKS
    blocks = _blocks(plans, number)
    if part < blocks:
        _open(numbers, stage + 1, _BLOCKS, min(PART_BLOCKS, blocks - part), round_, part)
    elif round_ + 1 < _count(rounds):
        _open(numbers, stage + 1, _BEGIN, 1, round_ + 1, 0)
    else:
        write(numbers, _TICKET, _OVER)


@inline
def _open(numbers: Longs, stage: int, kind: int, pieces: int, round_: int, part: int) -> None:
    write(numbers, _KIND, kind)
    write(numbers, _PIECES, pieces)
    write(numbers, _ROUND, round_)
    write(numbers, _PART, part)
    write(numbers, _DONE, 0)
    write(numbers, _TICKET, stage << 32 | pieces)  # from here on pieces are claimed: it must be the last


@inline
def _count(rounds: Rounds) -> int:
    return (rounds.stop - rounds.start + rounds.span - 1) // rounds.span


@inline
def _plan_ahead(
    corpus: Corpus, chances: Chances, objective: Objective, rounds: Rounds, work: Work, scratch: Scratch
) -> bool:
    """Plan the next round that nobody plans yet, if there is room for it; returns whether there was one."""
    numbers = work.numbers
    round_ = read(numbers, _PLANNING)
    limit = min(read(numbers, _ROUND) + AHEAD, _count(rounds))
    if round_ >= limit or not replace(numbers, _PLANNING, round_, round_ + 1):
        return False
    plan_round(work.plans, round_, corpus, chances, rounds, objective, scratch)
    write(numbers, _PLANNED + round_ % AHEAD * CACHE_LINE, round_ + 1)
    return True
