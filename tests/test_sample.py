"""Samples of a corpus: all of a small one, and of a large one the same even part every time."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sgns_cli.corpus.sample import sample_texts, utf8_length


@given(st.lists(st.text(max_size=20)))
def test_a_small_corpus_is_taken_whole(texts):
    size = sum(map(utf8_length, texts))
    sample = sample_texts(iter(texts), at_most=max(size, 20))
    assert (sample.texts, sample.taken_bytes, sample.bytes) == ([text for text in texts if text], size, size)


@given(st.lists(st.text(min_size=1, max_size=20), min_size=2), st.integers(1, 100))
def test_a_sample_is_no_larger_than_asked_and_keeps_the_order(texts, at_most):
    sample = sample_texts(texts, at_most=at_most)
    assert sample.bytes == sum(map(utf8_length, texts))
    assert sample.taken_bytes == sum(map(utf8_length, sample.texts))
    assert sample.taken_bytes <= at_most or len(sample.texts) == 1
    place = 0  # the pieces are in order
    for piece in sample.texts:
        place = "".join(texts).index(piece, place) + len(piece)
    assert sample_texts(iter(texts), at_most=at_most) == sample


def test_a_sample_is_full_and_spread_over_the_whole_corpus():
    texts = [f"{number:09}\n" for number in range(100_000)]
    sample = sample_texts(texts, at_most=100_000)
    assert 99_990 <= sample.taken_bytes <= 100_000
    tenths = np.histogram([int(text) for text in sample.texts], bins=10, range=(0, 100_000))[0]
    assert tenths.min() >= 990
    assert tenths.max() <= 1010


def test_few_large_texts_are_all_in_a_sample():
    sample = sample_texts(["a" * 10_000, "b" * 10_000, "c" * 10_000], at_most=6400)
    assert sample.taken_bytes == 6400
    assert {piece[0] for piece in sample.texts} == {"a", "b", "c"}
    assert all(len(piece) <= 100 for piece in sample.texts)


def test_the_length_of_a_text_is_that_of_its_bytes():
    assert utf8_length("aé\ud800") == 4
