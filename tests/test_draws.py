"""The rules of word2vec's sampling, each against its formula."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import zipf_corpus, zipf_problem

from sgns_cli.errors import SgnsError
from sgns_cli.training.draws import BLOCK, Corpus, draw_round, new_draws
from sgns_cli.training.vocabulary import CERTAIN, alias_table, keep_probabilities, make_vocabulary


def drawn(problem, *, span, epoch=0, seed=1, window=None, shared=32, corpus=None):
    """Every round of an epoch as (first, last, copies of the draws)."""
    corpus = corpus or problem.corpus
    window = window or problem.model.window
    for start in range(corpus.begin, corpus.end, span):
        stop = min(start + span, corpus.end)
        draws = new_draws(span, window, shared)
        first, last = draw_round(draws, corpus, problem.vocabulary.chances, seed, epoch, start, stop, window, shared)
        yield first, last, draws


def contexts_of(problem, **options):
    """For each centre's place in the corpus the places of its contexts."""
    found = {}
    for first, last, draws in drawn(problem, **options):
        for k in range(first, last):
            window = range(draws.low[k], draws.high[k])
            found[int(draws.places[k])] = [int(draws.places[j]) for j in window if j != k]
    return found


def chi_square_limit(cells: int) -> float:
    """What chi-square of so many cells exceeds once in about ten thousand (Wilson and Hilferty)."""
    free = cells - 1
    return free * (1 - 2 / (9 * free) + 3.72 * math.sqrt(2 / (9 * free))) ** 3


@settings(deadline=None, max_examples=25)
@given(
    span=st.integers(1, 900),
    other=st.integers(1, 900),
    window=st.integers(1, 9),
    epoch=st.integers(0, 3),
    seed=st.integers(0, 2**63 - 1),
)
def test_contexts_do_not_depend_on_where_rounds_begin(span, other, window, epoch, seed):
    problem = zipf_problem(tokens=900, documents=20)
    options = {"window": window, "epoch": epoch, "seed": seed}
    assert contexts_of(problem, span=span, **options) == contexts_of(problem, span=other, **options)


def test_windows_are_the_nearest_kept_tokens_of_the_document():
    problem = zipf_problem(tokens=3000, documents=60)
    found = contexts_of(problem, span=128)
    kept = np.array(sorted(found))
    document = np.searchsorted(problem.corpus.documents, kept, side="right")
    for index, place in enumerate(kept):
        same = np.flatnonzero(document == document[index])
        at = index - same[0]
        contexts = found[int(place)]
        assert set(contexts) <= set(kept[same].tolist()) - {int(place)}
        # all radii 1..window are told apart by which of the nearest tokens are there: none is skipped
        before = [c for c in contexts if c < place]
        after = [c for c in contexts if c > place]
        assert before == kept[same][at - len(before) : at].tolist()
        assert after == kept[same][at + 1 : at + 1 + len(after)].tolist()
        room = (at, len(same) - 1 - at)
        radius = max(len(before), len(after))
        assert len(before) == min(radius, room[0])
        assert len(after) == min(radius, room[1])


def test_radius_is_uniform_from_one_to_window():
    problem = zipf_problem(tokens=60_000, documents=1, model={"window": 6, "subsample_threshold": 0.0})
    found = contexts_of(problem, span=5000)
    radii = [len(contexts) // 2 for place, contexts in found.items() if 10 < place < problem.corpus.end - 10]
    counts = np.bincount(radii, minlength=7)[1:]
    expected = len(radii) / 6
    assert len(counts) == 6
    assert ((counts - expected) ** 2 / expected).sum() < chi_square_limit(6)


def test_tokens_are_kept_with_word2vecs_probability():
    problem = zipf_problem(types=50, tokens=60_000, model={"subsample_threshold": 1e-2, "min_count": 1})
    rows = np.concatenate([draws.rows[first:last] for first, last, draws in drawn(problem, span=4000)])
    kept = np.bincount(rows, minlength=problem.vocabulary.rows)
    ids = problem.corpus.halves[: problem.corpus.end]
    seen = np.bincount(problem.vocabulary.chances.rows[ids], minlength=problem.vocabulary.rows)
    share = problem.vocabulary.counts[problem.vocabulary.ids] / problem.vocabulary.counts.sum()
    chance = np.minimum(1, (np.sqrt(share / 1e-2) + 1) * 1e-2 / share)
    deviation = (kept - seen * chance) / np.sqrt(seen * chance * (1 - chance) + 1e-9)
    assert chance.min() < 0.5
    assert np.abs(deviation[chance < 1]).max() < 4.5
    assert (kept == seen)[chance == 1].all()


def test_negatives_follow_counts_to_the_power():
    problem = zipf_problem(types=40, tokens=20_000, model={"noise_power": 0.75, "min_count": 1})
    negatives = np.concatenate(
        [
            draws.negatives[: -(-(last - first) // BLOCK) * 64]
            for epoch in range(10)
            for first, last, draws in drawn(problem, span=2000, shared=64, epoch=epoch)
        ]
    )
    weights = problem.vocabulary.counts[problem.vocabulary.ids] ** 0.75
    expected = weights / weights.sum() * len(negatives)
    counts = np.bincount(negatives, minlength=len(expected))
    assert ((counts - expected) ** 2 / expected).sum() < chi_square_limit(len(expected))


def test_offsets_count_from_the_start_of_the_document_before_anything_is_dropped():
    problem = zipf_problem(tokens=2000, documents=10)
    for first, last, draws in drawn(problem, span=300):
        places = draws.places[first:last]
        starts = problem.corpus.documents[np.searchsorted(problem.corpus.documents, places, side="right") - 1]
        assert (draws.offsets[first:last] == places - starts).all()


def test_draws_differ_by_seed_and_epoch_and_repeat():
    problem = zipf_problem(tokens=2000)
    same = contexts_of(problem, span=500)
    assert contexts_of(problem, span=500) == same
    assert contexts_of(problem, span=500, seed=2) != same
    assert contexts_of(problem, span=500, epoch=1) != same


def test_held_out_tokens_are_no_contexts_of_training():
    problem = zipf_problem(tokens=5000, documents=1)
    assert problem.held_out is not None
    assert (problem.held_out.begin, problem.held_out.end) == (4950, 5000)
    trained = contexts_of(problem, span=700)
    assert max(place for contexts in trained.values() for place in contexts) < 4950
    held_out = contexts_of(problem, span=700, corpus=problem.held_out)
    assert min(place for contexts in held_out.values() for place in contexts) >= 4950


def test_ids_of_16_and_32_bits_draw_the_same():
    narrow, wide = zipf_problem(tokens=2000), zipf_problem(tokens=2000, wide=True)
    assert wide.corpus.words == 2
    assert contexts_of(narrow, span=500) == contexts_of(wide, span=500)


def test_a_token_rarer_than_min_count_is_not_there_at_all():
    ids = np.array([0, 1, 0, 2, 0, 1, 0, 1], np.uint16)
    offsets = np.array([0, 8], np.int64)
    vocabulary = make_vocabulary(np.bincount(ids), min_count=2, subsample_threshold=0, noise_power=0.75)
    draws = new_draws(8, 1, 16)
    corpus = Corpus(ids, 1, offsets, 0, 8)
    first, last = draw_round(draws, corpus, vocabulary.chances, 1, 0, 0, 8, 1, 16)
    assert draws.places[first:last].tolist() == [0, 1, 2, 4, 5, 6, 7]
    assert draws.low[first:last].tolist() == [1, 1, 2, 3, 4, 5, 6]  # the window of 4 reaches over the missing 3
    assert vocabulary.ids.tolist() == [0, 1]


def test_keep_probabilities():
    counts = np.array([9000, 900, 90, 10])
    share = counts / 10_000
    expected = [(math.sqrt(f / 1e-2) + 1) * 1e-2 / f for f in share]
    assert keep_probabilities(counts, 1e-2) == pytest.approx(np.minimum(1, expected))
    assert keep_probabilities(counts, 0).tolist() == [1, 1, 1, 1]


@given(st.lists(st.floats(1e-3, 1e6), min_size=1, max_size=60))
def test_alias_table_gives_each_row_its_share(weights):
    weights = np.array(weights)
    accept, alias = alias_table(weights)
    chance = accept.astype(np.float64) / CERTAIN
    share = chance + np.bincount(alias, weights=1 - chance, minlength=len(weights))
    assert share / len(weights) == pytest.approx(weights / weights.sum(), abs=1e-8)


def test_rows_go_by_falling_count():
    ids, _, counts = zipf_corpus()
    vocabulary = make_vocabulary(counts, min_count=3, subsample_threshold=1e-3, noise_power=0.75)
    assert (np.diff(counts[vocabulary.ids]) <= 0).all()
    assert set(vocabulary.ids) == {i for i, count in enumerate(counts) if count >= 3}
    assert (vocabulary.chances.rows[vocabulary.ids] == np.arange(vocabulary.rows)).all()
    assert (vocabulary.chances.rows[counts < 3] == -1).all()
    assert vocabulary.chances.rows[ids].max() < vocabulary.rows


def test_an_empty_vocabulary_says_what_there_was():
    with pytest.raises(SgnsError, match=r"6 tokens of 3 types.*3 times") as caught:
        make_vocabulary(np.array([3, 0, 2, 1]), min_count=4, subsample_threshold=0, noise_power=0.75)
    assert "min_count" in caught.value.hint
