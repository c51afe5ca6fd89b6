"""Rounds of training on the CPU, the equations of reference.py compiled, by any number of threads.

A round (a part of it, where it keeps very many tokens) has two stages. First its blocks (cpu_block.py), each from the
parameters as they stood when the stage began. Then its shared rows: each takes the sum of its deltas, in the order of
their slots, times a step that its curvature limits. Who computes what changes no number in either stage, so threads
claim the pieces of a stage one by one, and whoever finishes the last piece opens the next stage. A thread that has
nothing to claim plans rounds ahead (cpu_plan.py) or waits: nobody waits for a thread that holds no piece.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sgns_cli.training.compiled import inline, jit
from sgns_cli.training.draws import BLOCK, PART_BLOCKS, Chances, Corpus
from sgns_cli.training.kernels.cpu_block import train_block
from sgns_cli.training.kernels.cpu_memory import (
    Deltas,
    Floats,
    Longs,
    Objective,
    Scratch,
    Tables,
    block_slots,
    new_deltas,
    row_of,
    step_within,
)
from sgns_cli.training.kernels.cpu_plan import AHEAD, Plans, Rounds, first_slot, new_plans, plan_round
from sgns_cli.training.kernels.meeting import CACHE_LINE, increase, nap, pause, read, replace, write
from sgns_cli.training.kernels.simd import load, muladd, splat, store
from sgns_cli.training.unchecked import item, put

CHUNK = 64  # deltas of a piece of the second stage
PATIENCE = 2000  # looks before a thread that waits gives its processor away
_BEGIN, _BLOCKS, _ROWS = 0, 1, 2  # kinds of stages; to begin a round is one piece, and no work

# Where the numbers that threads share lie in `Work.numbers`. The ticket is stage * 2^32 + pieces left to claim.
_TICKET = 0 * CACHE_LINE
_LEFT, _OVER = 0xFFFFFFFF, -1
_DONE = 1 * CACHE_LINE  # pieces of the stage that are finished
_ROUND = 2 * CACHE_LINE  # the round at hand: plans of those before it may be written over
_PLANNING = 3 * CACHE_LINE  # the next round to plan
_STAGE = 4 * CACHE_LINE  # about the stage, changed only when no piece of it is left
_KIND, _PIECES, _STAGE_ROUND, _PART = _STAGE, _STAGE + 1, _STAGE + 2, _STAGE + 3  # _PART: its first block
_PLANNED = 5 * CACHE_LINE  # [AHEAD] of each plan that is ready, its round + 1
_NUMBERS = (5 + AHEAD) * CACHE_LINE


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
    work.numbers[_STAGE : _STAGE + 4] = (_BEGIN, 1, 0, 0)
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
    scratch: Scratch,
    threads: int,
    rates: Floats,
) -> None:
    """Work on the rounds until they are done, as one of `threads` threads that call this with the same `work`.

    `scratch` is the thread's own. `rates` are the learning rates of the rounds; where there are none, the tables stay
    as they are.
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
                _work_on(pieces - left, tables, objective, work, scratch, threads, rates)
                if increase(numbers, _DONE) == pieces:
                    _open_next(ticket >> 32, rounds, work, rates.size > 0)
            looks = 0
        elif _plan_ahead(corpus, chances, objective, rounds, work, scratch, rates.size > 0):
            looks = 0
        elif looks < PATIENCE:
            pause()
            looks += 1
        else:
            nap()


@inline
def _ready(numbers: Longs) -> bool:
    """Whether the pieces of the stage can be done: a round begins when its plan is there."""
    round_ = item(numbers, _STAGE_ROUND)
    begun: bool = item(numbers, _KIND) != _BEGIN
    return begun or read(numbers, _PLANNED + round_ % AHEAD * CACHE_LINE) == round_ + 1


@inline
def _work_on(
    piece: int, tables: Tables, objective: Objective, work: Work, scratch: Scratch, threads: int, rates: Floats
) -> None:
    """Do one piece of the stage at hand: a block, or some rows."""
    kind, round_, part = item(work.numbers, _KIND), item(work.numbers, _STAGE_ROUND), item(work.numbers, _PART)
    plans, number = work.plans, round_ % AHEAD
    slots = block_slots(objective.window, objective.shared, objective.context_length)
    if kind == _BLOCKS:
        following = part + piece + threads if piece + threads < item(work.numbers, _PIECES) else -1
        rate = item(rates, round_) if rates.size > 0 else np.float32(0)
        block = part + piece
        moves = rates.size > 0
        train_block(number, block, part, following, plans, tables, objective, scratch, work.deltas, rate, moves)
    elif kind == _ROWS:
        start = first_slot(plans, number) + part * slots
        size = item(plans.sizes, _part_number(plans, number, part))
        _move_rows(piece * CHUNK, size, start, plans, tables, objective, work.deltas, item(rates, round_))


@inline
def _part_number(plans: Plans, number: int, part: int) -> int:
    return number * (plans.sizes.size // AHEAD) + part // PART_BLOCKS


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
    """Move the rows whose deltas begin in [first, first + CHUNK), of `size` deltas in all.

    Each takes the sum of its deltas times its step (see reference.py). `start` is where their keys begin.
    """
    width = objective.width
    moved = 3 if objective.context_length > 0 else 2
    i, stop = first, min(first + CHUNK, size)
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
        step = splat(step_within(rate, bend, moved))
        for column in range(0, width, 16):
            change = load(deltas.rows, i * width + column)
            for k in range(i + 1, end):
                change = change + load(deltas.rows, k * width + column)
            store(row, column, muladd(step, change, load(row, column)))
        i = end


@inline
def _open_next(stage: int, rounds: Rounds, work: Work, moves: bool) -> None:
    """Every piece of the stage is done: open the next one."""
    numbers, plans, deltas = work.numbers, work.plans, work.deltas
    kind, pieces = item(numbers, _KIND), item(numbers, _PIECES)
    round_, part = item(numbers, _STAGE_ROUND), item(numbers, _PART)
    number = round_ % AHEAD
    if kind == _BLOCKS:
        for block in range(pieces):
            put(work.loss, 0, item(work.loss, 0) + item(deltas.losses, block))
            put(work.pairs, 0, item(work.pairs, 0) + item(deltas.pairs, block))
        size = item(plans.sizes, _part_number(plans, number, part))
        if moves and size > 0:
            _open(numbers, stage + 1, _ROWS, (size + CHUNK - 1) // CHUNK, round_, part)
            return
    if kind != _BEGIN:
        part += PART_BLOCKS
    blocks = (item(plans.last, number) - item(plans.first, number) + BLOCK - 1) // BLOCK
    if part < blocks:
        _open(numbers, stage + 1, _BLOCKS, min(PART_BLOCKS, blocks - part), round_, part)
    elif round_ + 1 < _count(rounds):
        write(numbers, _ROUND, round_ + 1)
        _open(numbers, stage + 1, _BEGIN, 1, round_ + 1, 0)
    else:
        write(numbers, _TICKET, _OVER)


@inline
def _open(numbers: Longs, stage: int, kind: int, pieces: int, round_: int, part: int) -> None:
    put(numbers, _KIND, kind)
    put(numbers, _PIECES, pieces)
    put(numbers, _STAGE_ROUND, round_)
    put(numbers, _PART, part)
    put(numbers, _DONE, 0)
    write(numbers, _TICKET, stage << 32 | pieces)  # whoever reads this sees what was put before


@inline
def _count(rounds: Rounds) -> int:
    return (rounds.stop - rounds.start + rounds.span - 1) // rounds.span


@inline
def _plan_ahead(
    corpus: Corpus,
    chances: Chances,
    objective: Objective,
    rounds: Rounds,
    work: Work,
    scratch: Scratch,
    moves: bool,
) -> bool:
    """Plan the next round that nobody plans yet, if there is room for it; returns whether there was one."""
    numbers = work.numbers
    round_ = read(numbers, _PLANNING)
    limit = min(read(numbers, _ROUND) + AHEAD, _count(rounds))
    if round_ >= limit or not replace(numbers, _PLANNING, round_, round_ + 1):
        return False
    start = rounds.start + round_ * rounds.span
    stop = min(start + rounds.span, rounds.stop)
    number = round_ % AHEAD
    plan_round(work.plans, number, corpus, chances, rounds, start, stop, objective, moves, scratch)
    write(numbers, _PLANNED + number * CACHE_LINE, round_ + 1)
    return True
