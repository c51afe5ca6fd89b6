"""Words to rows: case, spaces, means of tokens, and what of all that may be an answer."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import Written, bpe_counts, bpe_tokenizer, write_run

from sgns_cli.corpus.bpe import BpeTokenizer
from sgns_cli.corpus.whitespace import WhitespaceTokenizer
from sgns_cli.vectors.choices import Kind
from sgns_cli.vectors.lookup import find_words, make_candidates
from sgns_cli.vectors.opening import open_model

LETTERS = {letter: ord(letter) for letter in "abcdefghijklmnopqrstuvwxyz"}
SILVER, SPACE_SILVER, SILVER_SPACE, GOLD, SPACE_GOLD, THE_SPACE = range(256, 262)


AB, ABC, SPACE_ABC = 256, 257, 258


def merging_run(folder: Path) -> Written:
    """A BPE that merges within words: "abcx" is abc|x, " abcx" is ␣abc|x, " ab" is ␣|ab."""
    ranks = {bytes([byte]): byte for byte in range(256)} | {b"ab": AB, b"abc": ABC, b" abc": SPACE_ABC}
    return write_run(folder, BpeTokenizer("merging", r"[^\n]+|\n", ranks, {}), np.full(259, 10))


def test_the_most_frequent_of_those_that_differ_in_case(tmp_path: Path) -> None:
    tokens = ["paris", "Paris", "PARIS", "straße", "rare", "Rare"]
    model = open_model(write_run(tmp_path, WhitespaceTokenizer(tokens), np.array([10, 30, 10, 20, 4, 9])).path)
    words = find_words(make_candidates(model, restrict=9), ["pariS", "STRASSE", "RARE", "London", "london"])
    assert words.ids == {"PARIS": [1, 0, 2], "STRASSE": [3], "RARE": [5]}  # "rare" was not trained
    assert [words.id(word) for word in ("paris", "straSSe", "rare", "London")] == [1, 3, 5, None]
    assert (words.single, words.means, words.missing) == (3, 0, 1)
    assert words.space.ids.tolist() == [0, 1, 2, 3, 5]
    few = find_words(make_candidates(model, restrict=2), ["paris", "straße", "rare"])
    assert few.ids == {"PARIS": [1], "STRASSE": [3]}
    assert few.space.ids.tolist() == [1, 3]
    assert np.array_equal(few.rows(np.array([3, 1])), model.rows(np.array([3, 1])))


def test_spaces_around_a_token_are_left_aside(bpe_run: Written) -> None:
    model = open_model(bpe_run.path)
    words = find_words(make_candidates(model, restrict=1000), ["silver", "GOLD", "the"])
    assert words.ids == {
        "SILVER": [SPACE_SILVER, SILVER_SPACE, SILVER],
        "GOLD": [SPACE_GOLD],  # "gold" was not trained
        "THE": [THE_SPACE],
    }
    assert (words.single, words.means, words.missing) == (3, 0, 0)
    assert bpe_tokenizer().n_vocab - 1 not in words.space.ids  # the special token


def test_a_word_that_is_no_token_is_the_mean_of_its_tokens(bpe_run: Written) -> None:
    model = open_model(bpe_run.path)
    candidates = make_candidates(model, restrict=1000)
    # " dog" is four tokens, and its space was not trained; "Cat" is written with a letter that was not
    words = find_words(candidates, ["silver", "dog", "DOG", "Cat", "d8", "goldx"])
    first = model.n_vocab
    assert words.ids == {"SILVER": [SPACE_SILVER, SILVER_SPACE, SILVER], "DOG": [first], "GOLDX": [first + 1]}
    assert (words.single, words.means, words.missing) == (1, 2, 2)
    assert words.space.ids.tolist() == [*candidates.space.ids.tolist(), first, first + 1]
    for id, word in ((first, "dog"), (first + 1, "goldx")):
        mean = bpe_run.embeddings[[LETTERS[letter] for letter in word]].mean(axis=0)
        assert np.allclose(words.rows(np.array([id]))[0], mean, atol=1e-6)
    assert np.allclose(words.space.norms, np.linalg.norm(words.space.rows, axis=1), atol=1e-6)


def test_of_two_splits_the_shorter_one_and_of_equal_ones_that_with_a_space(tmp_path: Path) -> None:
    run = merging_run(tmp_path)
    model = open_model(run.path)
    words = find_words(make_candidates(model, restrict=1000), ["abcx", "abx"])
    parts = [[SPACE_ABC, LETTERS["x"]], [AB, LETTERS["x"]]]
    expected = [run.embeddings[tokens].mean(axis=0) for tokens in parts]
    assert np.allclose(words.rows(np.array([259, 260])), expected, atol=1e-6)


def test_a_token_beyond_the_candidates_is_looked_up_by_its_tokens_too(bpe_run: Written) -> None:
    model = open_model(bpe_run.path)
    words = find_words(make_candidates(model, restrict=1), ["the", "silver", "gold"])
    assert words.ids == {"THE": [THE_SPACE], "SILVER": [model.n_vocab], "GOLD": [model.n_vocab + 1]}
    assert (words.single, words.means, words.missing) == (3, 0, 0)
    assert np.allclose(words.rows(np.array([model.n_vocab])), bpe_run.embeddings[[SPACE_SILVER]])


def test_words_are_lowered_as_the_texts_of_training_were(tmp_path: Path) -> None:
    run = write_run(tmp_path, bpe_tokenizer(), bpe_counts(), lowercase=True)
    model = open_model(run.path)
    words = find_words(make_candidates(model, restrict=1000), ["Dog"])
    assert np.allclose(words.rows(np.array([model.n_vocab]))[0], run.embeddings[[100, 111, 103]].mean(axis=0))


def test_a_token_without_a_row_is_not_trained(tmp_path: Path) -> None:
    """An LLM's matrix may have fewer rows than its tokenizer has tokens."""
    run = merging_run(tmp_path)
    model = replace(open_model(run.path), embeddings=run.embeddings[:SPACE_ABC], counts=run.counts[:SPACE_ABC])
    words = find_words(make_candidates(model, restrict=1000), ["abc", "abcx", "abx"])
    assert words.ids == {"ABC": [ABC], "ABX": [SPACE_ABC]}
    assert words.missing == 1


@pytest.mark.parametrize("kind", ["input", "context", "sum"])
def test_which_matrix_and_its_mean(bpe_run: Written, kind: Kind) -> None:
    model = open_model(bpe_run.path)
    rows = {"input": bpe_run.embeddings, "context": bpe_run.contexts, "sum": bpe_run.embeddings + bpe_run.contexts}[
        kind
    ]
    mean = rows[np.flatnonzero(model.trained)].mean(axis=0)
    words = find_words(make_candidates(model, kind, restrict=1, centre=True), ["the", "dog"])
    expected = np.stack([rows[THE_SPACE], rows[[LETTERS[letter] for letter in "dog"]].mean(axis=0)]) - mean
    assert np.allclose(words.space.rows, expected, atol=1e-6)


def test_a_model_of_which_nothing_was_trained(tmp_path: Path) -> None:
    model = open_model(write_run(tmp_path, WhitespaceTokenizer(["a", "b"]), np.array([1, 1])).path)
    words = find_words(make_candidates(model, restrict=10, centre=True), ["a", "b"])
    assert (words.ids, words.missing, len(words.space.ids)) == ({}, 2, 0)
