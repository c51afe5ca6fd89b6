"""Rounds of training on the CPU, the equations of reference.py compiled.

A round has two halves. First its blocks (cpu_block.py), each from the parameters as they stood when the round began.
Then the rows: every row that the round touched takes the sum of its deltas, in block order, times a step that its
curvature limits. Blocks do not depend on one another, nor do rows, so they could be shared out among threads.
"""

from typing import NamedTuple

import numpy as np

from sgns_cli.training.compiled import inline, jit
from sgns_cli.training.draws import BLOCK, PART, Chances, Corpus, Draws, draw_round, new_draws
from sgns_cli.training.kernels.cpu_block import block_deltas
from sgns_cli.training.kernels.cpu_memory import (
    Block,
    Deltas,
    Floats,
    Ints,
    Objective,
    Scratch,
    Tables,
    context_rows,
    new_deltas,
    new_scratch,
)
from sgns_cli.training.kernels.simd import load, muladd, splat, store, zeros


class Schedule(NamedTuple):
    """Which draws, in rounds of which length."""

    seed: int
    span: int  # corpus tokens a round


class Lists(NamedTuple):
    """The slots of each row, as linked lists in slot order."""

    head: Ints  # [rows of the largest table] first slot, -1 between uses
    following: Ints  # [slots] next slot of the same row
    chain: Ints  # [slots] the slots of the row at hand


class Work(NamedTuple):
    """Room for one round; what is in it between calls means nothing, but that the lists are empty."""

    draws: Draws
    scratch: Scratch
    deltas: Deltas
    lists: Lists


def new_work(tables: Tables, objective: Objective, span: int) -> Work:
    """Room for rounds of `span` corpus tokens."""
    deltas = new_deltas(-(-min(span, PART) // BLOCK), objective)
    rows = max(tables.vectors.size, tables.positions.size) // objective.width
    slots = max(deltas.x_rows.size, deltas.o_rows.size)
    lists = Lists(np.full(rows, -1, np.int32), np.empty(slots, np.int32), np.empty(slots, np.int32))
    return Work(new_draws(span, objective.window, objective.shared), new_scratch(objective), deltas, lists)


@jit
def run_rounds(
    corpus: Corpus,
    chances: Chances,
    tables: Tables,
    objective: Objective,
    schedule: Schedule,
    work: Work,
    epoch: int,
    start: int,
    stop: int,
    rates: Floats,
) -> tuple[float, int]:
    """Run the rounds of [start, stop) in the corpus, which begins at a round of `epoch`.

    `rates` are the learning rates of the rounds; where there are none, the tables stay as they are. Returns the sum of
    the losses of the pairs, each before its round's step, and the number of pairs.
    """
    draws, scratch, deltas, lists = work.draws, work.scratch, work.deltas, work.lists
    loss, pairs = 0.0, 0
    for begin in range(start, stop, schedule.span):
        end = min(begin + schedule.span, stop)
        first, last = draw_round(
            draws, corpus, chances, schedule.seed, epoch, begin, end, objective.window, objective.shared
        )
        for part in range(first, last, PART):
            blocks = (min(part + PART, last) - part + BLOCK - 1) // BLOCK
            for number in range(blocks):
                centre = part + number * BLOCK
                block = Block(number, centre, last, (centre - first) // BLOCK * objective.shared)
                more, count = block_deltas(block, draws, tables, objective, scratch, deltas)
                loss += more
                pairs += count
            if rates.size > 0:
                _step(tables, objective, deltas, blocks, lists, rates[(begin - start) // schedule.span])
    return loss, pairs


@inline
def _step(tables: Tables, objective: Objective, deltas: Deltas, blocks: int, lists: Lists, rate: np.float32) -> None:
    """The second half of a round: move the rows of every table."""
    width = objective.width
    inputs = blocks * BLOCK
    outputs = blocks * (context_rows(objective.window) + objective.shared)
    limit = np.float32(2) / np.float32(3 if objective.context_length > 0 else 2)
    _add(tables.vectors, deltas.x_rows, deltas.x, deltas.x_curvature, inputs, lists, width, rate, limit)
    _add(tables.contexts, deltas.o_rows, deltas.o, deltas.o_curvature, outputs, lists, width, rate, limit)
    if objective.context_length > 0:
        _add(tables.positions, deltas.x_places, deltas.x, deltas.x_curvature, inputs, lists, width, rate, limit)


@inline
def _add(
    table: Floats,
    rows: Ints,
    deltas: Floats,
    curvature: Floats,
    slots: int,
    lists: Lists,
    width: int,
    rate: np.float32,
    limit: np.float32,
) -> None:
    """Add to each row the sum of its slots' deltas, times min(rate, limit / curvature) (see reference.py)."""
    for slot in range(slots - 1, -1, -1):
        row = rows[slot]
        if row >= 0:
            lists.following[slot] = lists.head[row]
            lists.head[row] = slot
    for slot in range(slots):
        row = np.int64(rows[slot])
        if row < 0 or lists.head[row] != slot:
            continue
        lists.head[row] = -1
        length = 0
        bend = np.float32(0)
        link = np.int32(slot)
        while link >= 0:
            lists.chain[length] = link
            length += 1
            bend += curvature[link]
            link = lists.following[link]
        step = rate
        if rate * bend > limit:
            step = limit / bend
        for i in range(0, width, 16):
            change = zeros()
            for k in range(length):
                change = change + load(deltas, np.int64(lists.chain[k]) * width + i)
            at = row * width + i
            store(table, at, muladd(splat(step), change, load(table, at)))
