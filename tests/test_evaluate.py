"""Scores of test sets: against gensim on the same vectors, and against the definitions written out."""

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import pytest
from conftest import bpe_counts, bpe_tokenizer, write_run
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import ArrayLike

from sgns_cli.corpus.whitespace import WhitespaceTokenizer
from sgns_cli.vectors import evaluate
from sgns_cli.vectors.evaluate import answer_analogies, average_ranks, score_records, spearman
from sgns_cli.vectors.lookup import Words, find_words, make_candidates
from sgns_cli.vectors.model import Model
from sgns_cli.vectors.opening import open_model
from sgns_cli.vectors.question_files import AnalogyFile, PairFile, Section, read_analogies, read_similarities

RESTRICTS = (250, 900, 30_000)

# Prints what gensim finds for the vectors and words of files: a process of its own, because its import warns.
GENSIM = """
import json, sys
import numpy as np
from gensim.models import KeyedVectors

folder, analogies, *pairs, restricts = sys.argv[1:]
words = json.load(open(f"{folder}/words.json", encoding="utf-8"))
rows = np.load(f"{folder}/rows.npy")
vectors = KeyedVectors(rows.shape[1])
vectors.add_vectors(words, rows)
found = {}
for restrict in json.loads(restricts):
    _, sections = vectors.evaluate_word_analogies(analogies, restrict_vocab=restrict)
    counts = [(section["section"], len(section["correct"]), len(section["incorrect"])) for section in sections]
    scores = []
    for path in pairs:
        _, spearman, missing = vectors.evaluate_word_pairs(path, restrict_vocab=restrict)
        scores.append((float(spearman[0]), float(missing)))
    found[restrict] = {"analogies": counts, "pairs": scores}
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def gensim_data() -> Path:
    """The folder of gensim's test sets; gensim itself is not imported here."""
    found = importlib.util.find_spec("gensim")
    if found is None or found.origin is None:
        pytest.skip("gensim is not installed")
    return Path(found.origin).parent / "test" / "test_data"


def planted_vectors(
    analogies: AnalogyFile, pairs: list[PairFile], random: np.random.Generator
) -> dict[str, np.ndarray]:
    """Vectors for most words of the test sets, which answer some of the questions right: b is a and its section's
    direction, and of word pairs the one is the nearer to the other the more alike people find them.
    """
    words = dict.fromkeys([*analogies.words, *(word for file in pairs for word in file.words)])
    vectors = {word: random.normal(size=24) for word in words if random.random() < 0.7}
    for section in analogies.sections:
        direction = random.normal(size=24)
        for a, b, *_ in section.questions:
            if a in vectors and b in vectors:
                vectors[b] = vectors[a] + direction + 0.4 * random.normal(size=24)
    for file in pairs:
        for (one, other), score in zip(file.pairs, file.scores, strict=True):
            if one in vectors and other in vectors:
                vectors[other] = vectors[other] + score / 8 * vectors[one]
    return vectors


def mixed_case(vectors: dict[str, np.ndarray], random: np.random.Generator) -> dict[str, np.ndarray]:
    """The words in several cases, some of them in two, with vectors that are not the same."""
    spellings = [str.lower, str.upper, str.title, str.swapcase, str]
    mixed: dict[str, np.ndarray] = {}
    for word, vector in vectors.items():
        for spelling in random.permutation(len(spellings))[: 1 + (random.random() < 0.3)]:
            mixed.setdefault(spellings[spelling](word), vector + 0.3 * random.normal(size=24))
    return mixed


@pytest.mark.parametrize("mixed", [False, True])
def test_scores_are_those_of_gensim(tmp_path: Path, gensim_data: Path, mixed: bool) -> None:
    paths = [gensim_data / name for name in ("questions-words.txt", "wordsim353.tsv", "simlex999.txt")]
    analogies, pairs = read_analogies(paths[0]), [read_similarities(path) for path in paths[1:]]
    random = np.random.default_rng(7)
    vectors = planted_vectors(analogies, pairs, random)
    if mixed:
        vectors = mixed_case(vectors, random)
    tokens = list(vectors)
    counts = random.integers(1, 1000, len(tokens))  # so that the ids do not fall with them, and some were not trained
    rows = np.stack(list(vectors.values()))
    run = write_run(tmp_path / "run", WhitespaceTokenizer(tokens), counts, dim=24, embeddings=rows)
    model = open_model(run.path)
    order = model.by_frequency
    np.save(tmp_path / "rows.npy", model.rows(order))
    (tmp_path / "words.json").write_text(json.dumps([tokens[id] for id in order.tolist()]), encoding="utf-8")
    command = [sys.executable, "-W", "ignore", "-c", GENSIM, tmp_path, *paths, json.dumps(RESTRICTS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    gensim = json.loads(done.stdout)
    for restrict in RESTRICTS:
        candidates = make_candidates(model, restrict=restrict)
        records = list(score_records(find_words(candidates, analogies.words), analogies))
        assert [record["section"] for record in records[:-1]] == [section.name for section in analogies.sections]
        for record, (_, right, wrong) in zip(records, gensim[str(restrict)]["analogies"], strict=True):
            assert record["questions"] == right + wrong
            assert record["score"] == (round(right / (right + wrong), 6) if right + wrong else None)
            assert record["candidates"] == min(restrict, len(order))
        assert records[-1]["questions"] + records[-1]["skipped"] == 19_544
        for file, (rho, missing) in zip(pairs, gensim[str(restrict)]["pairs"], strict=True):
            (record,) = score_records(find_words(candidates, file.words), file)
            assert record["score"] == pytest.approx(rho, abs=1e-6, nan_ok=False)
            assert 100 * record["skipped"] / len(file.pairs) == pytest.approx(missing)
            assert record["questions"] == len(file.pairs) - record["skipped"]
    assert 0.1 < records[-1]["score"] < 0.9  # of all candidates: right and wrong were there to be told apart


def words_of(
    vectors: Mapping[str, ArrayLike], asked: Iterable[str], *, restrict: int = 100, centre: bool = False
) -> Words:
    """Look up words in a model of whitespace tokens with these vectors, the first token the most frequent."""
    model = Model(
        path=Path("in memory"),
        embeddings=np.array(list(vectors.values()), dtype=np.float32),
        load_tokenizer=lambda: WhitespaceTokenizer(list(vectors)),
        counts=np.arange(len(vectors))[::-1] + 5,
    )
    return find_words(make_candidates(model, restrict=restrict, centre=centre), asked)


def answer_by_definition(
    vectors: dict[str, np.ndarray], question: tuple[str, ...], *, restrict: int, centre: bool
) -> bool | None:
    """3CosAdd in float64, a candidate at a time."""
    mean = np.mean(list(vectors.values()), axis=0) if centre else 0
    spelt: dict[str, np.ndarray] = {}
    for word in list(vectors)[:restrict]:
        spelt.setdefault(word.upper(), vectors[word] - mean)
    if any(word.upper() not in spelt for word in question):
        return None
    a, b, c = (spelt[word.upper()] / np.linalg.norm(spelt[word.upper()]) for word in question[:3])
    scores = {
        word: (vectors[word] - mean) @ (b - a + c) / np.linalg.norm(vectors[word] - mean)
        for word in list(vectors)[:restrict]
        if word.upper() not in {word.upper() for word in question[:3]}
    }
    return bool(scores) and max(scores, key=lambda word: scores[word]).upper() == question[3].upper()


@given(
    seed=st.integers(0, 10_000), centre=st.booleans(), restrict=st.integers(1, 14), batch=st.sampled_from([1, 3, 99])
)
def test_answers_are_those_of_the_definition(seed: int, centre: bool, restrict: int, batch: int) -> None:
    random = np.random.default_rng(seed)
    tokens = ["a", "B", "b", "A", "c", "d", "D", "e", "C", "f", "g", "h"]
    vectors = {token: random.normal(size=3).astype(np.float32).astype(np.float64) + 0.5 for token in tokens}
    questions = [tuple(random.choice(list("abcdefGHx"), 4).tolist()) for _ in range(30)]
    words = words_of(vectors, [word for four in questions for word in four], restrict=restrict, centre=centre)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluate, "QUESTIONS_AT_ONCE", batch)
        found = answer_analogies(words, questions)
    assert found == [answer_by_definition(vectors, four, restrict=restrict, centre=centre) for four in questions]


def test_sections_and_what_is_skipped() -> None:
    vectors = {
        "man": [1, 0, 0, 0],
        "woman": [1, 1, 0, 0],
        "king": [1, 0, 1, 0],
        "queen": [1, 1.2, 1, 0],
        "x": [0, 0, 0, 1],
    }
    right, wrong, skipped = (
        ("man", "woman", "king", "queen"),
        ("man", "woman", "king", "x"),
        ("man", "woman", "king", "y"),
    )
    sections = [Section("one", [right, wrong, right, skipped]), Section("none", []), Section("lost", [skipped])]
    file = AnalogyFile("set.txt", sections)
    records = list(score_records(words_of(vectors, file.words), file))
    assert records[0] == {
        "set": "set.txt",
        "section": "one",
        "kind": "analogy",
        "score": 0.666667,
        "questions": 3,
        "skipped": 1,
        "candidates": 5,
    }
    assert [(one["section"], one["score"], one["questions"], one["skipped"]) for one in records[1:]] == [
        ("none", None, 0, 0),
        ("lost", None, 0, 1),
        ("total", 0.666667, 3, 2),
    ]


def test_nothing_is_left_to_answer() -> None:
    words = words_of({"a": [1, 0], "A": [0, 1], "b": [1, 1], "c": [2, 1]}, ["a", "b", "c"])
    assert answer_analogies(words, [("a", "b", "c", "a"), ("a", "b", "c", "c")]) == [False, False]


def test_words_that_are_means_of_tokens_are_answers_where_the_file_has_them(tmp_path: Path) -> None:
    tokenizer = bpe_tokenizer()
    rows = np.zeros((tokenizer.n_vocab, 8), dtype=np.float32)
    axis = np.eye(8)
    rows[ord("a") : ord("z") + 1] = axis[7]
    rows[257], rows[260], rows[261] = axis[0], axis[1] + axis[0], axis[2] + axis[0]  # silver, gold, the
    # dog is the mean of its letters, [1, 1, 1, 0, ...] / 3, and none of the letters is near to that
    rows[ord("d")], rows[ord("o")], rows[ord("g")] = axis[0] + 5 * axis[5], axis[1] - 5 * axis[5], axis[2]
    model = open_model(write_run(tmp_path, tokenizer, bpe_counts(), embeddings=rows).path)
    candidates = make_candidates(model, restrict=1000)
    question = ("silver", "gold", "the", "dog")
    words = find_words(candidates, question)
    assert answer_analogies(words, [question]) == [True]
    assert words.space.ids[-1] == model.n_vocab
    (_, record) = score_records(words, AnalogyFile("x", [Section("x", [question])]))
    assert record["candidates"] == len(candidates.space.ids) + 1
    # g is the nearest of the tokens; a file without dog has no such answer
    one_letter = ("silver", "gold", "the", "g")
    assert answer_analogies(find_words(candidates, one_letter), [one_letter]) == [True]
    # and a mean that was asked with is none
    again = ("silver", "dog", "the", "dog")
    assert answer_analogies(find_words(candidates, again), [again]) == [False]


def test_similarity_is_the_rank_correlation_of_cosines() -> None:
    vectors = {"a": [1, 0], "b": [0, 2], "c": [3, 3], "zero": [0, 0]}
    pairs = [("a", "b"), ("A", "c"), ("b", "x"), ("a", "a"), ("zero", "a")]
    words = words_of(vectors, [word for pair in pairs for word in pair])
    (record,) = score_records(words, PairFile("p", pairs, [1, 2, 5, 3, 0.5]))
    assert record == {
        "set": "p",
        "section": "total",
        "kind": "similarity",
        "score": round(4.5 / np.sqrt(5 * 4.5), 6),  # ranks 1.5, 3, 4, 1.5 and 2, 3, 4, 1
        "questions": 4,
        "skipped": 1,
        "candidates": 4,
    }


@pytest.mark.parametrize("pairs", [[("a", "x")], [("a", "b")], [("a", "b"), ("b", "a")]])
def test_no_score_where_there_is_none(pairs: list[tuple[str, str]]) -> None:
    words = words_of({"a": [1, 0], "b": [0.3, 2]}, ["a", "b", "x"])
    (record,) = score_records(words, PairFile("p", pairs, list(range(len(pairs)))))
    assert record["score"] is None  # no NaN: of one pair, or of equal cosines, there is no correlation


NUMBERS = st.lists(st.tuples(st.integers(-3, 3), st.one_of(st.integers(-3, 3), st.floats(-1, 1))), max_size=30)


@given(NUMBERS)
def test_ranks_and_correlation_by_definition(rows: list[tuple[float, float]]) -> None:
    columns = np.array(rows, dtype=np.float64).reshape(-1, 2).T
    ranks = [[(values < value).sum() + ((values == value).sum() + 1) / 2 for value in values] for values in columns]
    assert [average_ranks(values).tolist() for values in columns] == ranks
    found = spearman(*columns)
    if any(len(set(values.tolist())) < 2 for values in columns):
        assert found is None
    else:
        assert found == pytest.approx(np.corrcoef(ranks)[0, 1], abs=1e-12)


@given(NUMBERS)
def test_the_correlation_is_that_of_scipy(rows: list[tuple[float, float]]) -> None:
    stats = pytest.importorskip("scipy.stats")
    columns = np.array(rows, dtype=np.float64).reshape(-1, 2).T
    found = spearman(*columns)
    if found is not None:
        assert found == pytest.approx(stats.spearmanr(*columns).statistic, abs=1e-12)
