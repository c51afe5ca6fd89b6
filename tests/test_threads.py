"""Threads: how they meet, what a round plans for them, and that their number changes no byte."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import uneven_problem, zipf_problem

from sgns_cli.config import ModelConfig, TrainConfig
from sgns_cli.training.compiled import jit
from sgns_cli.training.cpu_engine import CpuEngine
from sgns_cli.training.draws import BLOCK, PART_BLOCKS
from sgns_cli.training.engine import initial_matrices
from sgns_cli.training.engines import useful_threads
from sgns_cli.training.kernels.cpu_memory import Rounds, new_objective, new_scratch
from sgns_cli.training.kernels.cpu_plan import AHEAD, ALONE, new_plans, plan_round
from sgns_cli.training.kernels.meeting import increase, nap, pause, read, write
from sgns_cli.training.kernels.meeting import replace as replace_number
from sgns_cli.training.problem import make_problem

# --- atomic numbers


@jit
def count_up(numbers, threads, times):
    """Add, in two ways, at the same time as the others: all begin when all are there."""
    increase(numbers, 16)
    while read(numbers, 16) < threads:
        pause()
    for _ in range(times):
        increase(numbers, 0)
        while True:
            old = read(numbers, 8)
            if replace_number(numbers, 8, old, old + 3):
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
    numbers = np.zeros(24, np.int64)
    count_up(numbers, 1, 0)  # compiles
    numbers[:] = 0
    run_together(count_up, *[(numbers, 4, 300_000)] * 4)
    assert numbers[0] == 1_200_000
    assert numbers[8] == 3_600_000


def test_a_number_is_replaced_only_if_it_is_the_old_one():
    numbers = np.zeros(16, np.int64)

    @jit
    def twice(numbers):
        return replace_number(numbers, 0, 0, 5), replace_number(numbers, 0, 0, 6)

    assert twice(numbers) == (True, False)
    assert numbers[0] == 5


def test_threads_that_wait_for_each_other_get_on():
    numbers = np.zeros(16, np.int64)
    run_together(hand_over, (numbers, 0, 100), (numbers, 1, 100))
    assert numbers[0] == 200


# --- the plan of a round


@jit
def plan(plans, round_, corpus, chances, rounds, objective, scratch):
    plan_round(plans, round_, corpus, chances, rounds, objective, scratch)


def planned(round_, *, types, span, context_length, seed):
    """A problem, its objective, and the plan of one of its rounds: centres, slots by block, places, deltas by part."""
    problem = zipf_problem(types=types, tokens=24_000, documents=100, model={"min_count": 1}, seed=seed)
    objective = new_objective(width=16, window=3, negatives=5, shared=32, context_length=context_length)
    plans, scratch = new_plans(objective, span), new_scratch(objective)
    rounds = Rounds(seed, 0, 0, problem.epoch_tokens, span, np.ones(AHEAD, np.float32))
    plan(plans, round_, problem.corpus, problem.vocabulary.chances, rounds, objective, scratch)
    return problem, objective, plans


@settings(deadline=None, max_examples=40)
@given(
    round_=st.integers(0, AHEAD - 1),
    types=st.sampled_from([3, 40, 3000]),
    span=st.sampled_from([1, 31, 500, 5000]),
    context_length=st.sampled_from([0, 7]),
    seed=st.integers(0, 9),
)
def test_a_row_is_moved_by_its_block_or_by_its_sum(round_, types, span, context_length, seed):
    """Each filled slot either is alone with its row in its part, or has a place among the deltas of that row."""
    _, objective, plans = planned(round_, types=types, span=span, context_length=context_length, seed=seed)
    slots = objective.slots
    blocks = -(-int(plans.last[round_] - plans.first[round_]) // BLOCK)
    begin = round_ * (len(plans.keys) // AHEAD)
    for block in range(0, blocks, PART_BLOCKS):
        start, stop = (begin + slots * end for end in (block, min(block + PART_BLOCKS, blocks)))
        keys, places = plans.keys[start:stop], plans.places[start:stop]
        size = plans.sizes[round_ * (len(plans.sizes) // AHEAD) + block]
        filled = np.flatnonzero(keys >= 0)
        found, uses = np.unique(keys[filled], return_counts=True)
        alone = np.isin(keys[filled], found[uses == 1])
        assert (places[filled][alone] == ALONE).all()
        shared = filled[~alone]
        order = shared[np.argsort(keys[shared], kind="stable")]
        assert places[order].tolist() == list(range(size))
        assert (plans.shared[start : start + size] == keys[order]).all()


@pytest.mark.parametrize("context_length", [0, 7])
def test_the_slots_of_a_block_are_its_centres_contexts_negatives_and_places(context_length):
    problem, objective, plans = planned(2, types=400, span=3000, context_length=context_length, seed=1)
    rows, draws = problem.vocabulary.rows, plans.draws
    first, last = int(plans.first[2]), int(plans.last[2])
    negatives = draws.negatives.reshape(AHEAD, -1, objective.shared)[2]
    slot = 2 * (len(plans.keys) // AHEAD)
    for block, centre in enumerate(range(first, last, BLOCK)):
        centres = range(centre, min(centre + BLOCK, last))
        empty = [-1] * (BLOCK - len(centres))
        low, high = (int(draws.low[centres].min()), int(draws.high[centres].max()))
        around = range(centre - 3, centre - 3 + objective.contexts)
        expected = [*draws.rows[centres], *empty]
        expected += [rows + draws.rows[k] if low <= k < high else -1 for k in around]
        expected += [*(rows + negatives[block])]
        if context_length:
            expected += [*(2 * rows + draws.offsets[centres] % context_length), *empty]
        assert plans.keys[slot : slot + objective.slots].tolist() == expected
        slot += objective.slots


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


def test_rounds_that_keep_nothing_are_passed_over():
    """A corpus that begins and ends with tokens that occur once, which are not trained."""
    rng = np.random.default_rng(0)
    once = np.arange(100, 3100)
    ids = np.concatenate([once[:2000], rng.integers(0, 100, 6000), once[2000:]]).astype(np.uint16)
    model = ModelConfig(dim=8, min_count=2, subsample_threshold=1e-2)
    offsets = np.array([0, len(ids)], np.int64)
    problem = make_problem(ids, offsets, np.bincount(ids), model, TrainConfig(epochs=1))
    problem = replace(problem, held_out=problem.corpus._replace(begin=1000, end=len(ids)))  # several rounds of it, too
    assert problem.span < 2000
    results = []
    for threads in (1, 3):
        engine = CpuEngine(problem, initial_matrices(problem), threads)
        sums = engine.train(0, 0, problem.epoch_tokens), engine.evaluate()
        results.append((sums, engine.matrices()["contexts"].tobytes()))
    assert results[0] == results[1]
    assert results[0][0][0][1] > 10_000


def test_more_threads_than_blocks_are_not_started():
    assert useful_threads("cpu", 1000) == 32
    assert useful_threads("cpu", 3) == 3
    assert useful_threads("cuda", 16) == 1
