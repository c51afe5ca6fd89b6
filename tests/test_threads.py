"""Threads: how they meet, what a round plans for them, and that their number changes no byte."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import uneven_problem, zipf_problem

from sgns_cli.training.compiled import jit
from sgns_cli.training.draws import BLOCK, PART_BLOCKS
from sgns_cli.training.engine import CpuEngine, initial_matrices, useful_threads
from sgns_cli.training.kernels.cpu_memory import Objective, new_scratch, slots_of_block
from sgns_cli.training.kernels.cpu_plan import AHEAD, ALONE, Rounds, new_plans, plan_round
from sgns_cli.training.kernels.meeting import increase, nap, pause, read, replace, write

# --- atomic numbers


@jit
def count_up(numbers, times):
    for _ in range(times):
        increase(numbers, 0)
        while True:
            old = read(numbers, 8)
            if replace(numbers, 8, old, old + 3):
                break
            pause()


@jit
def hand_over(numbers, me, turns):
    """Count in turns with another: each waits for its own."""
    for turn in range(turns):
        while read(numbers, 0) != 2 * turn + me:
            nap()
        write(numbers, 0, 2 * turn + me + 1)


def run_together(function, *arguments):
    with ThreadPoolExecutor(len(arguments)) as pool:
        for done in [pool.submit(function, *each) for each in arguments]:
            done.result()


def test_no_change_of_a_shared_number_is_lost():
    numbers = np.zeros(16, np.int64)
    run_together(count_up, *[(numbers, 20_000)] * 4)
    assert numbers[0] == 80_000
    assert numbers[8] == 240_000


def test_a_number_is_replaced_only_if_it_is_the_old_one():
    numbers = np.zeros(16, np.int64)

    @jit
    def twice(numbers):
        return replace(numbers, 0, 0, 5), replace(numbers, 0, 0, 6)

    assert twice(numbers) == (True, False)
    assert numbers[0] == 5


def test_threads_that_wait_for_each_other_get_on():
    numbers = np.zeros(16, np.int64)
    run_together(hand_over, (numbers, 0, 100), (numbers, 1, 100))
    assert numbers[0] == 200


# --- the plan of a round


@jit
def plan(plans, number, corpus, chances, rounds, start, stop, objective, moves, scratch):
    plan_round(plans, number, corpus, chances, rounds, start, stop, objective, moves, scratch)


@settings(deadline=None, max_examples=30)
@given(
    number=st.integers(0, AHEAD - 1),
    types=st.sampled_from([3, 40, 3000]),
    span=st.sampled_from([1, 31, 500, 5000]),
    context_length=st.sampled_from([0, 7]),
    seed=st.integers(0, 9),
)
def test_a_row_is_moved_by_its_block_or_by_its_sum(number, types, span, context_length, seed):
    """Each filled slot either is alone with its row in its part, or has a place among the deltas of that row."""
    problem = zipf_problem(types=types, tokens=6000, documents=30, model={"min_count": 1}, seed=seed)
    rows = problem.vocabulary.rows
    objective = Objective(width=16, window=3, negatives=5, shared=32, context_length=context_length)
    plans, scratch = new_plans(objective, span), new_scratch(objective)
    rounds = Rounds(seed, 0, 0, problem.epoch_tokens, span, False)
    plan(plans, number, problem.corpus, problem.vocabulary.chances, rounds, 0, span, objective, True, scratch)

    slots = slots_of_block(3, 32, context_length)
    first, last = plans.first[number], plans.last[number]
    blocks = -(-(last - first) // BLOCK)
    begin = number * (len(plans.keys) // AHEAD)
    for part in range(-(-blocks // PART_BLOCKS)):
        start = begin + part * PART_BLOCKS * slots
        stop = begin + min((part + 1) * PART_BLOCKS, blocks) * slots
        keys, places = plans.keys[start:stop], plans.places[start:stop]
        size = plans.sizes[number * (len(plans.sizes) // AHEAD) + part]
        filled = np.flatnonzero(keys >= 0)
        found, uses = np.unique(keys[filled], return_counts=True)
        alone = np.isin(keys[filled], found[uses == 1])
        assert (places[filled][alone] == ALONE).all()
        shared = filled[~alone]
        order = shared[np.argsort(keys[shared], kind="stable")]
        assert places[order].tolist() == list(range(size))
        assert (plans.shared[start : start + size] == keys[order]).all()

    of_blocks = plans.keys[begin : begin + blocks * slots].reshape(blocks, slots)
    kept = plans.draws.rows[first:last]
    assert of_blocks[:, :BLOCK].reshape(-1)[: last - first].tolist() == kept.tolist()
    assert (of_blocks[:, BLOCK : slots - (BLOCK if context_length else 0)].max(initial=0)) < 2 * rows
    if context_length:
        offsets = plans.draws.offsets[first:last] % context_length
        assert of_blocks[:, -BLOCK:].reshape(-1)[: last - first].tolist() == (2 * rows + offsets).tolist()


# --- the number of threads


CASES = [
    {"dim": 20, "window": 5, "subsample_threshold": 1e-2},
    {"dim": 33, "window": 2, "positions": "learned", "context_length": 9},
    {"dim": 16, "window": 3, "subsample_threshold": 0.0, "min_count": 1},
]


@pytest.mark.parametrize("model", CASES, ids=["plain", "positions", "all kept"])
@pytest.mark.parametrize("types", [6, 2000])
def test_the_number_of_threads_changes_no_byte(model, types):
    problem = zipf_problem(types=types, tokens=60_000, documents=400, model=model)
    results = []
    for threads in (1, 2, 3, 8):
        engine = CpuEngine(problem, initial_matrices(problem), threads)
        sums = [engine.train(epoch, 0, problem.epoch_tokens) for epoch in range(problem.train.epochs)]
        sums.append(engine.evaluate())
        results.append((sums, {name: matrix.tobytes() for name, matrix in engine.matrices().items()}))
    assert all(result == results[0] for result in results)
    assert results[0][0][0][1] > 50_000  # pairs


def test_it_may_change_between_any_two_rounds():
    problem = zipf_problem(types=500, tokens=40_000, documents=100, model={"positions": "learned"})
    whole = CpuEngine(problem, initial_matrices(problem))
    whole.train(0, 0, problem.epoch_tokens)
    matrices = initial_matrices(problem)
    for number, start in enumerate(range(0, problem.epoch_tokens, problem.span)):
        engine = CpuEngine(problem, matrices, 1 + number % 4)
        engine.train(0, start, min(start + problem.span, problem.epoch_tokens))
        matrices = engine.matrices()
    for name, matrix in whole.matrices().items():
        assert matrix.tobytes() == matrices[name].tobytes()


def test_a_round_in_parts_is_the_same_with_any_number_of_threads():
    problem = uneven_problem()
    results = []
    for threads in (1, 4):
        engine = CpuEngine(problem, initial_matrices(problem), threads)
        results.append((engine.train(0, 0, problem.epoch_tokens), engine.matrices()["vectors"].tobytes()))
    assert results[0] == results[1]


def test_more_threads_than_blocks_are_not_started():
    assert useful_threads("cpu", 1000) == 32
    assert useful_threads("cpu", 3) == 3
    assert useful_threads("cuda", 16) == 1
