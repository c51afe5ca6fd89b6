"""embed, as people run it."""

import json
from collections.abc import Callable

import numpy as np
import pytest
import safetensors.numpy
from conftest import Result, Written

Sgns = Callable[..., Result]


def test_each_token_with_its_position_and_vector(sgns: Sgns, learned_run: Written) -> None:
    result = sgns("embed", "the dog fetched the ball", "cat", "--json")
    records = [json.loads(line) for line in result.out.splitlines()]
    assert list(records[0]) == ["text", "position", "token", "id", "vector"]
    assert [record["text"] for record in records] == [0] * 5 + [1]
    assert [record["position"] for record in records] == [0, 1, 2, 3, 4, 0]
    assert [record["token"] for record in records] == ["the", "dog", "fetched", "the", "ball", "cat"]
    assert learned_run.positions is not None
    expected = learned_run.embeddings[[0, 1, 2, 0, 3]] + learned_run.positions[:5]
    vectors = np.array([record["vector"] for record in records], dtype=np.float32)
    assert np.array_equal(vectors[:5], expected)
    assert "note: using runs/learned/step-00000010" in result.err


def test_without_positions(sgns: Sgns, learned_run: Written) -> None:
    result = sgns("embed", "the dog the", "--no-positions", "--json")
    vectors = [json.loads(line)["vector"] for line in result.out.splitlines()]
    assert vectors[0] == vectors[2]
    assert np.array_equal(np.array(vectors, np.float32), learned_run.embeddings[[0, 1, 0]])
    contexts = sgns("embed", "dog", "--vectors", "context", "--json", "-q")
    assert np.array_equal(np.float32(json.loads(contexts.out)["vector"]), learned_run.contexts[1])


def test_asking_for_positions_that_are_not_there(sgns: Sgns, word_run: Written) -> None:
    assert "has no positions" in sgns("embed", "dog", "--positions").err


def test_tsv(sgns: Sgns, word_run: Written) -> None:
    lines = sgns("embed", "dog cat").out.splitlines()
    assert lines[0] == "text\tposition\ttoken\tid\tvector"
    row = lines[2].split("\t")
    assert row[:4] == ["0", "1", "cat", "4"]
    assert np.array_equal(np.array(row[4].split(), np.float32), word_run.embeddings[4])


def test_pooled(sgns: Sgns, word_run: Written) -> None:
    record = json.loads(sgns("embed", "dog cat", "--pool", "mean", "--json").out)
    assert list(record) == ["text", "tokens", "vector"]
    assert record["tokens"] == 2
    np.testing.assert_allclose(record["vector"], word_run.embeddings[[1, 4]].mean(axis=0), rtol=1e-6)


def test_untrained_tokens_are_noted(sgns: Sgns, word_run: Written) -> None:
    result = sgns("embed", "the rare dog", "--json")
    assert not any(json.loads(result.out.splitlines()[1])["vector"])
    assert "1 of 3 tokens were never trained and have zero vectors: rare" in result.err


def test_sequences_are_numbered_when_shown(sgns: Sgns, word_run: Written) -> None:
    result = sgns("embed", "the dog fetched the ball", "--context-length", 3, "--stride", 2, "--json")
    records = [json.loads(line) for line in result.out.splitlines()]
    assert [record["sequence"] for record in records] == [0, 0, 0, 1, 1, 1]
    assert [record["position"] for record in records] == [0, 1, 2, 0, 1, 2]


def test_arrays(sgns: Sgns, word_run: Written) -> None:
    result = sgns("embed", "the dog fetched the ball", "-o", "x.npy")
    assert (result.code, result.out) == (0, "")
    assert "wrote x.npy: [5, 8] float32" in result.err
    path = word_run.path.parents[1] / "x.npy"
    assert np.array_equal(np.load(path), word_run.embeddings[[0, 1, 2, 0, 3]])
    sgns("embed", "the dog fetched the ball", "cat", "-o", "x.npy", "--context-length", 3)
    assert np.load(path).shape == (3, 3, 8)
    assert np.load(path.with_name("x.mask.npy")).sum() == 6
    sgns("embed", "the dog", "cat", "-o", "x.safetensors")
    arrays = safetensors.numpy.load_file(path.with_name("x.safetensors"))
    assert arrays["offsets"].tolist() == [0, 2, 3]
    sgns("embed", "the dog", "cat", "-o", "x.npy", "--pool", "mean")
    assert np.load(path).shape == (2, 8)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ([], 2, "no text"),
        (["dog", "-o", "x.csv"], 2, "x.csv is no name for arrays"),
        (["dog", "--stride", "2"], 2, "--stride needs --context-length"),
        (["dog", "--context-length", "0"], 2, "Invalid value for '--context-length'"),
        (["dog", "--context-length", "2", "--pool", "mean"], 2, "--pool mean takes whole texts"),
        (["dog", "--pool", "max"], 2, "Invalid value for '--pool'"),
        (["dog", "the cat", "-o", "x.npy"], 1, "the texts have different numbers of tokens"),
        (["dog", "-o", "no/x.npy"], 1, "cannot write no/x.npy"),
    ],
)
def test_what_fails(sgns: Sgns, word_run: Written, arguments: list[str], code: int, words: str) -> None:
    result = sgns("embed", *arguments)
    assert (result.code, result.out) == (code, "")
    assert f"error: {words}" in result.err
    assert not list(word_run.path.parents[1].glob("*.npy"))


def test_texts_from_stdin(sgns_process, word_run: Written) -> None:
    done = sgns_process("embed", "-", "--pool", "mean", "--json", stdin="the dog\n\ncat\n")
    assert [json.loads(line)["tokens"] for line in done.stdout.splitlines()] == [2, 0, 1]
    assert "1 text has no tokens" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ([""], 2, "error: the text is empty"),
        (["zzz"], 1, "error: nothing of 'zzz' is in the vocabulary"),
        (["zzz", "--pool", "mean"], 1, "error: nothing of 'zzz' is in the vocabulary"),
        (["zzz", "-o", "x.npy"], 1, "error: nothing of 'zzz' is in the vocabulary"),
        (["zzz", "", "-o", "x.safetensors"], 1, "error: none of 2 texts has a token"),
    ],
)
def test_nothing_to_embed(sgns: Sgns, word_run: Written, arguments: list[str], code: int, words: str) -> None:
    result = sgns("embed", *arguments)
    assert (result.code, result.out) == (code, "")
    assert words in result.err
    assert not list(word_run.path.parents[1].glob("x.*"))


def test_a_text_without_tokens_keeps_its_number(sgns: Sgns, word_run: Written) -> None:
    result = sgns("embed", "dog", "zzz", "", "cat", "--json")
    assert result.code == 0
    assert [json.loads(line)["text"] for line in result.out.splitlines()] == [0, 3]
    assert "2 texts have no tokens: text 1, text 2" in result.err
    assert "1 of 3 words are not in the vocabulary and are left out: zzz" in result.err
    assert sgns("embed", "dog", "zzz", "cat", "-o", "x.safetensors").code == 0
    arrays = safetensors.numpy.load_file(word_run.path.parents[1] / "x.safetensors")
    assert arrays["offsets"].tolist() == [0, 1, 1, 2]


def test_an_empty_stdin_has_no_text(sgns_process, word_run: Written) -> None:
    done = sgns_process("embed", "-")
    assert (done.returncode, done.stdout) == (1, "")
    assert "error: no text came on standard input" in done.stderr
