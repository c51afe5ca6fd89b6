"""What a typed text means: the rules for variants, several tokens, tokens never trained."""

import dataclasses

import numpy as np
import pytest
from conftest import BPE_TOKENS, Written

from sgns_cli.errors import SgnsError, UsageError
from sgns_cli.vectors.model import Model
from sgns_cli.vectors.opening import open_model
from sgns_cli.vectors.query import Query, nearest_spellings, query_vectors, resolve_id, resolve_query

ID = {token: 256 + index for index, token in enumerate(BPE_TOKENS)}


@pytest.fixture
def model(bpe_run: Written) -> Model:
    return open_model(bpe_run.path)


@pytest.fixture
def words(word_run: Written) -> Model:
    return open_model(word_run.path)


def test_one_token_is_that_token_without_a_note(model: Model) -> None:
    assert resolve_query(model, "[/b]") == Query("[/b]", (ID["[/b]"],))
    assert resolve_query(model, "a\tb") == Query("a\tb", (ID["a\tb"],))


def test_of_variants_with_spaces_the_most_trained_is_used_and_the_others_named(model: Model) -> None:
    query = resolve_query(model, "silver")
    assert query.ids == (ID[" silver"],)
    assert query.notes == ("'silver' is read as ␣silver (trained 400 times); also a token: silver (10), silver␣ (30)",)


def test_a_variant_is_used_where_the_text_itself_was_never_trained(model: Model) -> None:
    query = resolve_query(model, "gold")
    assert query.ids == (ID[" gold"],)
    assert "gold (2)" in query.notes[0]


def test_an_exact_token_with_a_space_is_taken_as_it_is(model: Model) -> None:
    assert resolve_query(model, "silver ") == Query("silver ", (ID["silver "],))
    assert resolve_query(model, " silver") == Query(" silver", (ID[" silver"],))


def test_a_token_can_be_typed_as_it_is_shown(model: Model) -> None:
    assert resolve_query(model, "silver␣").ids == (ID["silver "],)
    assert resolve_query(model, "a⇥b").ids == (ID["a\tb"],)


def test_several_tokens_are_the_mean_of_the_trained_ones(model: Model) -> None:
    query = resolve_query(model, "a7b")
    assert query.ids == (ord("a"), ord("b"))
    assert query.notes == ("'a7b' is 3 tokens: a|7|b; asking for their mean, without those never trained: 7",)
    expected = model.embeddings[[ord("a"), ord("b")]].mean(axis=0)
    both = query_vectors(model, [query, resolve_query(model, "[/b]")], "input")
    np.testing.assert_allclose(both[0], expected, rtol=1e-6)
    np.testing.assert_array_equal(both[1], model.embeddings[ID["[/b]"]])


def test_a_query_of_which_nothing_was_trained(model: Model, words: Model) -> None:
    with pytest.raises(SgnsError, match=r"is 2 tokens, none of them trained: 7\|8"):
        resolve_query(model, "78")
    with pytest.raises(SgnsError, match="was never trained: seen 1 times, min_count is 5"):
        resolve_query(words, "rare")
    with pytest.raises(SgnsError, match="was never trained: the corpus does not have it"):
        resolve_query(model, "7")
    with pytest.raises(SgnsError) as caught:
        resolve_query(words, "silvr")
    assert caught.value.message == "'silvr' is no token of this model"
    assert caught.value.hint == "nearest trained: silver"
    with pytest.raises(SgnsError) as caught:
        resolve_query(words, "silvr", suggest=False)
    assert "silver" not in caught.value.hint


def test_an_empty_query_is_a_usage_error(model: Model) -> None:
    with pytest.raises(UsageError):
        resolve_query(model, "")


def test_a_query_of_spaces(words: Model) -> None:
    with pytest.raises(SgnsError):
        resolve_query(words, "  ")


def test_text_around_a_word_of_a_whitespace_model(words: Model) -> None:
    assert resolve_query(words, " silver ").ids == (5,)


def test_ids(model: Model) -> None:
    assert resolve_id(model, ID[" silver"]) == Query("␣silver", (ID[" silver"],))
    for id in (-1, model.n_vocab, 10**30, ord("7"), model.n_vocab - 1):
        with pytest.raises(SgnsError):
            resolve_id(model, id)


def test_text_that_is_no_unicode_goes_back_to_its_bytes(model: Model) -> None:
    with pytest.raises(SgnsError, match="never trained"):
        resolve_query(model, "\udcff")  # the byte FF, as a shell hands it over
    with pytest.raises(SgnsError):
        resolve_query(model, "\ud800")


def test_special_token_text_is_ordinary_text(model: Model) -> None:
    query = resolve_query(model, "<|end|>")
    assert query.ids == tuple(b"end")


def test_nearest_spellings_are_trained_tokens_only(words: Model) -> None:
    assert nearest_spellings(words, "Sliver") == ["silver"]
    assert nearest_spellings(words, "raer") == []


def test_a_lowercased_run_lowers_its_queries(words: Model) -> None:
    with pytest.raises(SgnsError):
        resolve_query(words, "SILVER")
    lowered = dataclasses.replace(words, lowercase=True)
    assert resolve_query(lowered, "SILVER").ids == (5,)
    assert lowered.encode("The DOG").tolist() == [0, 1]


def test_words_that_are_not_in_the_vocabulary_are_named(word_run: Written) -> None:
    words = open_model(word_run.path)
    assert resolve_query(words, "dog unheard of cat rare").notes == (
        "'dog unheard of cat rare' is 3 tokens: dog|cat|rare; asking for their mean, without those never trained: "
        "rare, without those not in the vocabulary: unheard, of",
    )
    note = "'unheard dog' is read as dog, without those not in the vocabulary: unheard"
    assert resolve_query(words, "unheard dog").notes == (note,)
