"""The nearest rows, against the definition written out."""

import numpy as np
import pytest
from conftest import Written, word_tokenizer, write_run
from hypothesis import given
from hypothesis import strategies as st

from sgns_cli.vectors import neighbors
from sgns_cli.vectors.model import Model
from sgns_cli.vectors.neighbors import Space, lengths, make_space, nearest
from sgns_cli.vectors.opening import open_model


def by_definition(rows: np.ndarray, ids: np.ndarray, query: np.ndarray, exclude: list[int], k: int) -> list[int]:
    """Every cosine by itself in float64, sorted by falling score and rising id."""
    scored = []
    for id, row in zip(ids.tolist(), rows.astype(np.float64), strict=True):
        length = np.sqrt((row * row).sum() * (query.astype(np.float64) ** 2).sum())
        if id not in exclude:
            scored.append((-(row * query).sum() / length if length else 0.0, id))
    return [id for _, id in sorted(scored)[:k]]


def space_of(rows: np.ndarray, ids: np.ndarray) -> Space:
    norms = np.sqrt((rows * rows).sum(axis=1))
    return Space(ids=ids, rows=rows, norms=norms, mean=np.zeros(rows.shape[1], np.float32))


@given(seed=st.integers(0, 1000), k=st.integers(1, 40), batch=st.sampled_from([4, 200, 2**20]))
def test_answers_are_those_of_the_definition(seed: int, k: int, batch: int) -> None:
    random = np.random.default_rng(seed)
    rows = random.normal(size=(30, 5)).astype(np.float32)
    ids = np.sort(random.choice(100, 30, replace=False))
    queries = random.normal(size=(7, 5)).astype(np.float32)
    exclude = [random.choice(100, 3).tolist() for _ in queries]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(neighbors, "SCORES_BYTES", batch)
        found = nearest(space_of(rows, ids), queries, exclude, k=k)
    for query, without, answers in zip(queries, exclude, found, strict=True):
        assert answers.ids.tolist() == by_definition(rows, ids, query, without, k)
        assert np.all(np.diff(answers.scores) <= 0)


def test_ties_go_by_id_however_many_queries_are_asked_together() -> None:
    random = np.random.default_rng(0)
    rows = np.repeat(random.normal(size=(10, 33)), 10, axis=0).astype(np.float32)  # ten copies of each
    space = space_of(rows, np.arange(100))
    queries = random.normal(size=(50, 33)).astype(np.float32)
    together = nearest(space, queries, [[]] * 50, k=15)
    for query, answers in zip(queries, together, strict=True):
        alone = nearest(space, query[None], [[]], k=15)[0]
        assert alone.ids.tolist() == answers.ids.tolist()
        assert alone.scores.tolist() == answers.scores.tolist()
        assert answers.ids[:10].tolist() == sorted(answers.ids[:10].tolist())


@pytest.mark.parametrize("scale", [1e-36, 1e-25, 1e15])
def test_tiny_and_large_vectors_have_their_own_cosines(scale: float) -> None:
    rows = np.random.default_rng(1).normal(size=(20, 6)).astype(np.float32)
    usual = nearest(make_space_of(rows), rows[:3], [[0], [1], [2]], k=5)
    scaled = (rows * np.float64(scale)).astype(np.float32)
    for one, other in zip(usual, nearest(make_space_of(scaled), scaled[:3], [[0], [1], [2]], k=5), strict=True):
        assert one.ids.tolist() == other.ids.tolist()
        np.testing.assert_allclose(one.scores, other.scores, atol=1e-5)


def make_space_of(rows: np.ndarray) -> Space:
    return Space(ids=np.arange(len(rows)), rows=rows, norms=lengths(rows), mean=np.zeros(rows.shape[1], np.float32))


def test_zero_vectors_have_cosine_zero() -> None:
    space = space_of(np.array([[0, 0], [1, 0], [-1, 0]], np.float32), np.arange(3))
    answers = nearest(space, np.array([[2, 0], [0, 0]], np.float32), [[], []], k=3)
    assert answers[0].ids.tolist() == [1, 0, 2]
    assert answers[0].scores.tolist() == [1, 0, -1]
    assert answers[1].ids.tolist() == [0, 1, 2]
    assert answers[1].scores.tolist() == [0, 0, 0]


@pytest.fixture
def model(word_run: Written) -> Model:
    return open_model(word_run.path)


def test_only_trained_rows_are_answers(model: Model) -> None:
    space = make_space(model)
    assert space.ids.tolist() == list(range(8))
    answers = nearest(space, model.embeddings[:1], [[0]], k=100)[0]
    assert sorted(answers.ids.tolist()) == list(range(1, 8))


def test_nothing_is_left_to_answer(model: Model) -> None:
    space = make_space(model)
    assert nearest(space, model.embeddings[:1], [list(range(9))], k=5)[0].ids.tolist() == []
    assert nearest(space, model.embeddings[:0], [], k=5) == []


def test_no_copy_where_the_trained_rows_lie_together(model: Model) -> None:
    assert np.shares_memory(make_space(model).rows, model.embeddings)


def test_a_hole_between_trained_rows(tmp_path) -> None:
    counts = np.array([9, 0, 9, 9, 0, 9, 9, 9, 9])
    model = open_model(write_run(tmp_path / "run", word_tokenizer(), counts).path)
    space = make_space(model)
    assert space.ids.tolist() == [0, 2, 3, 5, 6, 7, 8]
    np.testing.assert_array_equal(space.rows, model.embeddings[space.ids])


@pytest.mark.parametrize("kind", ["input", "context", "sum"])
@pytest.mark.parametrize("centre", [False, True])
def test_the_matrix_is_chosen_and_centred(model: Model, word_run: Written, kind: str, centre: bool) -> None:
    matrices = {"input": word_run.embeddings, "context": word_run.contexts}
    rows = matrices.get(kind, word_run.embeddings + word_run.contexts)[:8]
    if centre:
        rows = rows - rows.mean(axis=0)
    space = make_space(model, kind, centre=centre)  # type: ignore[arg-type]
    np.testing.assert_allclose(space.rows, rows, atol=1e-6)
    answers = nearest(space, rows[3:4] + space.mean, [[3]], k=7)[0]
    assert answers.ids.tolist() == by_definition(rows, np.arange(8), rows[3], [3], 7)


def test_vectors_that_are_shorter_than_numbers_are(tmp_path) -> None:
    """Their cosines are those of their directions, without a warning of numpy."""
    (tmp_path / "tiny.txt").write_text("3 2\na 1e-45 1e-45\nb 1e-42 -1e-42\nc 1e-44 1e-44\n")
    space = make_space(open_model(tmp_path / "tiny.txt"))
    answers = nearest(space, space.rows[:1], [[0]], k=2)[0]
    assert answers.ids.tolist() == [2, 1]
    np.testing.assert_allclose(answers.scores, [1, 0], atol=1e-6)
