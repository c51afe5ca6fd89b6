"""The plan of a round on the CPU: which rows its blocks read and where their deltas go, before any arithmetic.

It follows from the draws alone, so rounds can be planned ahead of their turn. A row that only one slot of a part has
may be moved by its block at once: nobody else reads it. The deltas of all others are kept until every block of the part
has read its rows; they get places sorted by row, so that those of a row lie together and are added in slot order.
"""

from typing import NamedTuple

import numpy as np

from sgns_cli.training.compiled import inline
from sgns_cli.training.draws import BLOCK, PART_BLOCKS, Chances, Corpus, Draws, draw_round, most_blocks, new_draws
from sgns_cli.training.kernels.cpu_memory import MOST_BITS, Ints, Longs, Objective, Rounds, Scratch
from sgns_cli.training.unchecked import item, put

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
    sizes: Longs  # [AHEAD, blocks] how many deltas a part has, where its first block is


def new_plans(objective: Objective, span: int) -> Plans:
    """Room for rounds of `span` corpus tokens."""
    blocks = most_blocks(span)
    slots = AHEAD * blocks * objective.slots
    return Plans(
        draws=new_draws(span, objective.window, objective.shared, AHEAD),
        first=np.zeros(AHEAD, np.int64),
        last=np.zeros(AHEAD, np.int64),
        keys=np.empty(slots, np.int32),
        places=np.empty(slots, np.int32),
        shared=np.empty(slots, np.int32),
        sizes=np.zeros(AHEAD * blocks, np.int64),
    )


@inline
def first_slot(plans: Plans, number: int) -> int:
    """Where the slots of a plan begin."""
    return number * (plans.keys.size // AHEAD)


@inline
def plan_round(
    plans: Plans,
    round_: int,
    corpus: Corpus,
    chances: Chances,
    rounds: Rounds,
    objective: Objective,
    scratch: Scratch,
) -> None:
    """Draw a round and lay out its slots; where nothing moves, deltas get no places."""
    window, shared, draws, number = objective.window, objective.shared, plans.draws, round_ % AHEAD
    start = rounds.start + round_ * rounds.span
    stop = min(start + rounds.span, rounds.stop)
    at = number * (draws.rows.size // AHEAD)
    negatives = number * (draws.negatives.size // AHEAD)
    seed, epoch = rounds.seed, rounds.epoch
    first, last = draw_round(draws, corpus, chances, seed, epoch, start, stop, window, shared, at, negatives)
    put(plans.first, number, first)
    put(plans.last, number, last)
    block, slot = number * (plans.sizes.size // AHEAD), first_slot(plans, number)
    part_block, part_slot = block, slot  # where the part at hand begins
    for centre in range(first, last, BLOCK):
        _fill_block(plans, slot, centre, last, negatives, chances.accept.size, objective)
        block += 1
        slot += objective.slots
        negatives += shared
        if block - part_block == PART_BLOCKS or centre + BLOCK >= last:
            if rounds.rates.size > 0:
                size = _sort_out(plans, part_slot, slot, chances.accept.size, objective, scratch)
                put(plans.sizes, part_block, size)
            part_block, part_slot = block, slot


@inline
def _fill_block(
    plans: Plans, slot: int, centre: int, last: int, negatives: int, rows: int, objective: Objective
) -> None:
    """The keys of a block's slots."""
    draws, keys, window = plans.draws, plans.keys, objective.window
    contexts = objective.contexts
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
    pairs, other, digits = scratch.pairs, scratch.other_pairs, scratch.digits
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
