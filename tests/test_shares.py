"""How processes divide a run, and how their tables become one again: without processes."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import zipf_problem

from sgns_cli.training.averaging import BEND, Averaging, Interval
from sgns_cli.training.draws import Corpus, count_kept, draw_round, new_draws
from sgns_cli.training.engine import initial_matrices, matrix_bytes
from sgns_cli.training.room import Needs
from sgns_cli.training.shares import (
    GROWTH,
    MOST_ROUNDS,
    NEAR,
    ROWS,
    all_rounds,
    first_rounds,
    intervals,
    joint_problem,
    share_bounds,
    share_of,
    share_rounds,
)


@given(st.lists(st.integers(1, 400), min_size=1, max_size=80), st.integers(1, 6), st.integers(0, 3))
def test_shares_cover_the_region_and_begin_with_documents_where_some_begin_near(lengths, processes, held_out):
    documents = np.cumsum([0, *lengths])
    begin, end = 0, int(documents[max(1, len(documents) - 1 - held_out)])
    corpus = Corpus(np.zeros(int(documents[-1]), np.uint16), 1, documents, begin, end)
    bounds = share_bounds(corpus, processes)
    assert bounds[0] == begin
    assert bounds[-1] == end
    assert len(bounds) == processes + 1
    assert bounds == sorted(bounds)
    for number, bound in enumerate(bounds[1:-1], start=1):
        place = begin + (end - begin) * number // processes
        distance = int(np.abs(documents - place).min())
        near = distance * processes * NEAR <= end - begin
        assert abs(bound - place) == (distance if near else 0)


@settings(max_examples=30)
@given(st.integers(1, 5), st.integers(1, 400))
def test_the_rounds_of_a_share_are_those_of_all_and_lose_no_token(processes, span):
    problem = joint_problem(replace(zipf_problem(tokens=3000), span=span), processes)
    passed = []
    for rank in range(processes):
        share = share_of(problem, rank, processes)
        for start in range(0, problem.epoch_tokens, problem.span):
            stop = min(start + problem.span, problem.epoch_tokens)
            begin, end = share_rounds(problem, share, start, stop)
            assert end - begin <= share.span
            assert len(problem.learning_rates(0, start, stop)) == 1
            passed += range(begin, end)
    assert passed == list(range(problem.corpus.begin, problem.corpus.end))


@settings(max_examples=50)
@given(st.integers(1, 40), st.integers(2, 9), st.data())
def test_where_rows_are_averaged_follows_from_the_round_alone(span, processes, data):
    problem = replace(zipf_problem(tokens=6000), span=span)
    first, every = first_rounds(processes), all_rounds(problem, processes) * span
    whole = list(intervals(problem, processes, 0, problem.epoch_tokens))
    assert [start for start, *_ in whole] == [0, *[stop for _, stop, _ in whole[:-1]]]
    assert whole[-1][1:] == (problem.epoch_tokens, None)
    for _, stop, rows in whole[:-1]:
        assert stop % (first * span) == 0
        times, power = stop // span // first, 1
        while times % (GROWTH * power) == 0:
            power *= GROWTH
        assert rows is None if stop % every == 0 else rows == ROWS * first * power
    cuts = [0, *[stop for _, stop, rows in whole if rows is None]]
    a, b = sorted((data.draw(st.sampled_from(cuts)), data.draw(st.sampled_from(cuts))))
    assert list(intervals(problem, processes, a, b)) == [cut for cut in whole if a <= cut[0] < b]


def test_rarer_rows_are_averaged_at_longer_intervals():
    problem = replace(zipf_problem(types=40_000, tokens=400_000, model={"min_count": 1}), span=1)
    assert problem.vocabulary.rows > 2048
    sizes = [rows for *_, rows in intervals(problem, 4, 0, 64)]  # every 8 rounds
    assert sizes[:7] == [512, 512, 512, 2048, 512, 512, 512]


def test_a_large_vocabulary_is_averaged_within_a_limit():
    problem = zipf_problem(types=400_000, tokens=1_000_000, documents=10, wide=True, model={"min_count": 1})
    assert problem.vocabulary.rows > ROWS * MOST_ROUNDS
    assert [all_rounds(problem, processes) for processes in (2, 4, 8)] == [MOST_ROUNDS] * 3
    assert all_rounds(zipf_problem(types=200), 4) == first_rounds(4)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("begin", [0, 17])
def test_what_is_counted_is_what_is_drawn(wide, begin):
    problem = zipf_problem(wide=wide)
    rows, places = np.zeros(problem.vocabulary.rows, np.int64), np.zeros(9, np.int64)
    chances, stop = problem.vocabulary.chances, problem.corpus.end
    count_kept(rows, places, problem.corpus, chances, 5, 1, begin, stop)
    draws = new_draws(stop - begin, 5, 16)
    first, last = draw_round(draws, problem.corpus, chances, 5, 1, begin, stop, 5, 16)
    assert 0 < last - first < stop - begin
    assert rows.tolist() == np.bincount(draws.rows[first:last], minlength=len(rows)).tolist()
    assert places.tolist() == np.bincount(draws.offsets[first:last] % 9, minlength=9).tolist()


def test_every_process_needs_memory_of_its_own():
    """And the tables as they were last averaged, once more."""
    problem = zipf_problem()
    alone, three = Needs("cpu", 1), Needs("cpu", 1, processes=3)
    more = three.memory(problem) - 3 * alone.memory(problem)
    assert more > 3 * matrix_bytes(problem)
    wider = replace(problem, model=problem.model.model_copy(update={"dim": 200}))
    assert three.memory(wider) - 3 * alone.memory(wider) - more > 3 * (matrix_bytes(wider) - matrix_bytes(problem))


class Meeting:
    """Threads in the place of processes: a sum over all of them."""

    def __init__(self, processes):
        self.barrier, self.given = threading.Barrier(processes), [None] * processes

    def total(self, rank):
        def total(tensor):
            self.given[rank] = tensor.clone()
            self.barrier.wait(60)
            tensor.copy_(sum(self.given))
            self.barrier.wait(60)

        return total


@pytest.mark.parametrize("positions", ["none", "learned"])
def test_rows_are_averaged_as_defined(positions):
    processes, rate, rows = 3, 0.02, 40
    problem = zipf_problem(model={"positions": positions, "context_length": 12, "min_count": 1})
    base = initial_matrices(problem)
    rng = np.random.default_rng(0)
    tables = [{name: torch.tensor(matrix) for name, matrix in base.items()} for _ in range(processes)]
    shares = [share_of(problem, rank, processes) for rank in range(processes)]
    meeting = Meeting(processes)
    averages = [Averaging(shares[rank], tables[rank], meeting.total(rank)) for rank in range(processes)]
    stops = [share.corpus.begin + (0 if rank == 2 else 300 * (rank + 1)) for rank, share in enumerate(shares)]
    changes = [
        {name: rng.normal(scale=0.1, size=matrix.shape).astype(np.float32) for name, matrix in base.items()}
        for _ in range(processes)
    ]
    expected = {name: matrix.astype(np.float64) for name, matrix in base.items()}
    touches = []
    noise = problem.vocabulary.counts[problem.vocabulary.ids] ** 0.75
    for share, stop in zip(shares, stops, strict=True):
        kept, places = np.zeros(problem.vocabulary.rows, np.int64), np.zeros(12, np.int64)
        count_kept(kept, places, share.corpus, problem.vocabulary.chances, 1, 0, share.corpus.begin, stop)
        negatives = 5 * kept.sum() * noise / noise.sum()
        touches.append({"vectors": 36.0 * kept, "contexts": 6 * (kept + negatives), "positions": 36.0 * places})
    for name in base:
        total = sum(touch[name] for touch in touches)
        for touch, change in zip(touches, changes, strict=True):
            t, all_ = BEND * rate * np.maximum(touch[name], 1e-12), BEND * rate * np.maximum(total, 1e-12)
            part = ((1 - np.exp(-all_)) / all_) / ((1 - np.exp(-t)) / t)
            part = np.where(touch[name] > 0, part, 0)
            change[name] *= (touch[name] > 0)[:, None]  # what is not touched is not moved
            expected[name] += part[:, None] * change[name]

    def work(rank):
        for name, table in tables[rank].items():
            table += torch.from_numpy(changes[rank][name])
        rates, stop = np.full(3, rate, np.float32), stops[rank]
        intervals = [Interval(shares[rank].corpus.begin, stop, rates, rows), Interval(stop, stop, rates, None)]
        averages[rank].prepare(0, intervals)
        averages[rank].average()
        return averages[rank].sent

    with ThreadPoolExecutor(processes) as pool:
        sent = list(pool.map(work, range(processes)))
    for rank in range(processes):
        for name, table in tables[rank].items():
            assert table[:rows].numpy() == pytest.approx(expected[name][:rows], abs=3e-3)  # bfloat16 sums of some 0.3
            assert (table[:rows] == tables[0][name][:rows]).all()
            assert (table[rows:].numpy() == base[name][rows:] + changes[rank][name][rows:]).all()
    used = [min(rows, len(matrix)) for matrix in base.values()]
    counted = sum(used) + sum(map(len, base.values()))  # for this average and the next
    assert sent == [counted * 4 + sum(used) * 32 * 2] * processes  # and rows of dim 20 padded to 32, in bfloat16

    with ThreadPoolExecutor(processes) as pool:
        list(pool.map(lambda rank: averages[rank].average(), range(processes)))
    for name, table in tables[0].items():  # the rows left out before come with what touched them then
        assert table.numpy() == pytest.approx(expected[name], abs=3e-3)
    for name, table in tables[0].items():
        assert all((other[name] == table).all() for other in tables)


def test_little_is_summed_and_much_is_averaged():
    """Of two processes that did the same: twice as much where it was little, as much as each where it was much."""
    for stop, rate, factor in ((50, 0.025, 2.0), (2000, 50.0, 1.0)):
        problem = zipf_problem(model={"min_count": 1}, tokens=2000)
        tables = [{"vectors": torch.zeros(problem.vocabulary.rows, 32)} for _ in range(2)]
        meeting = Meeting(2)
        averages = [Averaging(problem, table, meeting.total(rank)) for rank, table in enumerate(tables)]

        interval = Interval(0, stop, np.full(1, rate, np.float32), None)

        def work(rank, tables=tables, averages=averages, interval=interval):
            tables[rank]["vectors"] += 1
            averages[rank].prepare(0, [interval])
            averages[rank].average()

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(work, range(2)))
        assert float(tables[0]["vectors"][5, 0]) == pytest.approx(factor, abs=0.1)
