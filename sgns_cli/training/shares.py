"""How the processes of a run divide it: which part of the corpus each trains, and after which rounds they average.

Arithmetic alone; ranks.py has the processes, averaging.py what is done at those rounds.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from sgns_cli.training.draws import Corpus
from sgns_cli.training.problem import Problem

# Rows are sorted by frequency. After first_rounds() the most frequent ones are averaged, every GROWTH-th time so many
# times as many, and so on: rows are averaged about equally often for what touches them. See bench/README.md.
ROUNDS = 128  # over the number of processes squared: rounds between averages of the most frequent rows
ROWS = 64  # that are averaged at least, for each round since the average before
GROWTH = 4
MOST_ROUNDS = 512  # between two averages of all rows, about, however many there are
MOST_PROCESSES = 4  # that were found to train as well as one
NEAR = 100  # a share begins with a document if one begins within a share / NEAR of its place


def joint_problem(problem: Problem, processes: int) -> Problem:
    """The problem with rounds in which each of so many processes trains as many tokens as one would alone."""
    return replace(problem, span=min(processes * problem.span, max(problem.epoch_tokens, 1)))


def share_of(problem: Problem, rank: int, processes: int) -> Problem:
    """What one process trains of a joint problem: a stretch of its corpus, in as many rounds.

    A round may be empty at the end of an epoch, where the stretch is shorter than its rounds together.
    """
    begin, end = share_bounds(problem.corpus, processes)[rank : rank + 2]
    span = max(1, -(-(end - begin) // max(problem.epoch_rounds, 1)))
    return replace(problem, corpus=problem.corpus._replace(begin=begin, end=end), span=span)


def share_bounds(corpus: Corpus, processes: int) -> list[int]:
    """Where the shares begin, and the end of the last: [processes + 1] places of the corpus.

    Shares have equally many tokens, but for what a document that is not cut makes of it.
    """
    tokens = corpus.end - corpus.begin
    bounds = [corpus.begin]
    for number in range(1, processes):
        place = corpus.begin + tokens * number // processes
        after = int(np.searchsorted(corpus.documents, place))
        starts = [int(start) for start in corpus.documents[max(after - 1, 0) : after + 1]]
        nearest = min(starts, key=lambda start: abs(start - place))
        near = abs(nearest - place) * NEAR * processes <= tokens
        bounds.append(max(nearest if near else place, bounds[-1]))
    return [*bounds, corpus.end]


def share_rounds(problem: Problem, share: Problem, start: int, stop: int) -> tuple[int, int]:
    """The tokens of a share, as places of the corpus, in the rounds of the tokens [start, stop) of an epoch."""
    first, last = start // problem.span, -(-stop // problem.span)
    begin, end = share.corpus.begin, share.corpus.end
    return min(begin + first * share.span, end), min(begin + last * share.span, end)


def first_rounds(processes: int) -> int:
    """After how many rounds the most frequent rows are averaged: the more drift apart, the sooner."""
    return max(1, ROUNDS // processes**2)


def all_rounds(problem: Problem, processes: int) -> int:
    """After how many rounds all rows are averaged."""
    rounds = first_rounds(processes)
    while rounds < MOST_ROUNDS and rounds * ROWS < problem.vocabulary.rows:
        rounds *= GROWTH
    return rounds


def intervals(problem: Problem, processes: int, start: int, stop: int) -> Iterator[tuple[int, int, int | None]]:
    """The tokens [start, stop) of an epoch cut where rows are averaged: (start, stop, how many rows), None for all.

    Where that is depends on the number of a round in its epoch alone; after the last one all rows are averaged.
    """
    first, last = first_rounds(processes), all_rounds(problem, processes)
    every = first * problem.span
    while start < stop:
        times = start // every + 1
        end = min(times * every, stop)
        whole = end == problem.epoch_tokens or end % (last * problem.span) == 0
        yield start, end, None if whole else ROWS * first * _power_in(times)
        start = end


def _power_in(times: int) -> int:
    """The largest power of GROWTH that divides a number."""
    power = 1
    while times % (power * GROWTH) == 0:
        power *= GROWTH
    return power
