"""The plan of a round on the CPU: which rows its blocks read and where their deltas go, before any arithmetic.

It follows from the draws alone, so rounds can be planned ahead of their turn. A row that only one slot of a round's
part has may be moved by its block at once: nobody else reads it. The deltas of all others are kept until every block
has read its rows; they get places sorted by row, so that those of a row lie together and are added in slot order.
"""

from typing import NamedTuple

import numpy as np

from sgns_cli.training.compiled import inline
from sgns_cli.training.draws import (
    BLOCK,
    PART,
    Chances,
    Corpus,
    Draws,
    draw_round,
    most_blocks,
    new_draws,
)
from sgns_cli.training.kernels.cpu_memory import (
    MOST_BITS,
    Ints,
    Longs,
    Objective,
    Scratch,
    block_slots,
    context_rows,
    slots_of_block,
)
from sgns_cli.training.unchecked import item, put


class Rounds(NamedTuple):
    """The rounds to run: those of [start, stop) in the corpus, which begins at a round of `epoch`."""

    seed: int
    epoch: int
    start: int
    stop: int
    span: int  # corpus tokens a round
    at_once: bool  # whether every delta goes to its row at once, however many slots have it


AHEAD = 4  # rounds planned at a time, the one at hand included
ALONE = -1  # the place of a slot whose row no other slot has
_SLOT = 0xFFFFFFFF  # the low half of a pair (key, slot)


class Plans(NamedTuple):
    """The plans of AHEAD rounds; that of round i is number i % AHEAD in every array."""

    draws: Draws
    first: Longs  # [AHEAD] the centres of a round are first..last-1 in its draws
    last: Longs  # [AHEAD]
    keys: Ints  # [AHEAD, blocks * S] the rows of the slots, -1 where a slot is empty
    places: Ints  # [AHEAD, blocks * S] of the slots' deltas in those of their part, or ALONE
    shared: Ints  # [AHEAD, blocks * S] the rows of these deltas; those of a part begin where its slots do
    sizes: Longs  # [AHEAD, parts] how many deltas a part has


def new_plans(objective: Objective, span: int) -> Plans:
    """Room for rounds of `span` corpus tokens."""
    blocks = most_blocks(span)
    slots = AHEAD * blocks * slots_of_block(objective.window, objective.shared, objective.context_length)
    parts = -(-blocks * BLOCK // PART)
    return Plans(
        draws=new_draws(span, objective.window, objective.shared, AHEAD),
        first=np.zeros(AHEAD, np.int64),
        last=np.zeros(AHEAD, np.int64),
        keys=np.empty(slots, np.int32),
        places=np.empty(slots, np.int32),
        shared=np.empty(slots, np.int32),
        sizes=np.zeros(AHEAD * parts, np.int64),
    )


@inline
def first_slot(plans: Plans, number: int) -> int:
    """Where the slots of a plan begin."""
    return number * (plans.keys.size // AHEAD)


@inline
def plan_round(
    plans: Plans,
    number: int,
    corpus: Corpus,
    chances: Chances,
    rounds: Rounds,
    start: int,
    stop: int,
    objective: Objective,
    moves: bool,
    scratch: Scratch,
) -> None:
    """Draw the round of corpus tokens [start, stop) and lay out its slots; where nothing moves, no places."""
    window, shared, draws = objective.window, objective.shared, plans.draws
    at = number * (draws.rows.size // AHEAD)
    negatives = number * (draws.negatives.size // AHEAD)
    seed, epoch = rounds.seed, rounds.epoch
    first, last = draw_round(draws, corpus, chances, seed, epoch, start, stop, window, shared, at, negatives)
    put(plans.first, number, first)
    put(plans.last, number, last)
    slots = block_slots(window, shared, objective.context_length)
    slot = first_slot(plans, number)
    part_slot, part = slot, number * (plans.sizes.size // AHEAD)
    for centre in range(first, last, BLOCK):
        _fill_block(plans, slot, centre, last, negatives, chances.accept.size, objective)
        slot += slots
        negatives += shared
        if (centre + BLOCK - first) % PART == 0 or centre + BLOCK >= last:
            if moves and rounds.at_once:
                for k in range(part_slot, slot):
                    put(plans.places, k, ALONE)
                put(plans.sizes, part, 0)
            elif moves:
                put(plans.sizes, part, _sort_out(plans, part_slot, slot, chances.accept.size, objective, scratch))
            part_slot = slot
            part += 1


@inline
def _fill_block(
    plans: Plans, slot: int, centre: int, last: int, negatives: int, rows: int, objective: Objective
) -> None:
    """The keys of a block's slots."""
    draws, keys, window = plans.draws, plans.keys, objective.window
    contexts = context_rows(window)
    output = slot + BLOCK
    end = min(centre + BLOCK, last)
    low, high = centre, centre
    for k in range(centre, end):
        put(keys, slot + k - centre, item(draws.rows, k))
        low, high = min(low, item(draws.low, k)), max(high, item(draws.high, k))
    for k in range(end, centre + BLOCK):
        put(keys, slot + k - centre, -1)
    corner = centre - window  # the draw at context row 0
    for p in range(contexts):
        covered = low <= corner + p < high
        put(keys, output + p, rows + item(draws.rows, corner + p) if covered else -1)
    output += contexts
    for n in range(objective.shared):
        put(keys, output + n, rows + item(draws.negatives, negatives + n))
    output += objective.shared
    if objective.context_length > 0:
        for k in range(centre, end):
            place = item(draws.offsets, k) % objective.context_length
            put(keys, output + k - centre, 2 * rows + place)
        for k in range(end, centre + BLOCK):
            put(keys, output + k - centre, -1)


@inline
def _sort_out(plans: Plans, start: int, stop: int, rows: int, objective: Objective, scratch: Scratch) -> int:
    """Give the deltas of the slots [start, stop) their places; returns how many there are."""
    pairs, n = _sorted_pairs(plans.keys, start, stop, 2 * rows + objective.context_length, scratch)
    count = 0
    i = 0
    while i < n:
        key = item(pairs, i) >> 32
        j = i + 1
        while j < n and item(pairs, j) >> 32 == key:
            j += 1
        if j == i + 1:
            put(plans.places, item(pairs, i) & _SLOT, ALONE)
        else:
            for k in range(i, j):
                put(plans.places, item(pairs, k) & _SLOT, count)
                put(plans.shared, start + count, key)
                count += 1
        i = j
    return count


@inline
def _sorted_pairs(keys: Ints, start: int, stop: int, keys_end: int, scratch: Scratch) -> tuple[Longs, int]:
    """Pairs (key, slot) of the filled slots as key * 2^32 + slot, by key and then slot: a radix sort."""
    pairs, other, digits = scratch.pairs, scratch.sorted, scratch.digits
    n = 0
    for slot in range(start, stop):
        key = np.int64(item(keys, slot))
        put(pairs, n, key << 32 | slot)
        n += int(key >= 0)
    bits = 1
    while keys_end >> bits > 0:
        bits += 1
    passes = (bits + MOST_BITS - 1) // MOST_BITS
    digit_bits = (bits + passes - 1) // passes
    low = (1 << digit_bits) - 1
    for shift in range(32, 32 + bits, digit_bits):
        for digit in range(low + 1):
            put(digits, digit, 0)
        for i in range(n):
            digit = item(pairs, i) >> shift & low
            put(digits, digit, item(digits, digit) + 1)
        total = 0
        for digit in range(low + 1):
            before = total
            total += item(digits, digit)
            put(digits, digit, before)
        for i in range(n):
            pair = item(pairs, i)
            digit = pair >> shift & low
            place = item(digits, digit)
            put(other, place, pair)
            put(digits, digit, place + 1)
        pairs, other = other, pairs
    return pairs, n
