"""Input embeddings, against torch.nn.Embedding and against the formulas; arrays on disk."""

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from conftest import WORD_COUNTS, WORDS, Written, bpe_counts, bpe_tokenizer, word_tokenizer, write_run
from hypothesis import given
from hypothesis import strategies as st

from sgns_cli.corpus.bpe import SEPARATOR
from sgns_cli.corpus.whitespace import WhitespaceTokenizer
from sgns_cli.errors import SgnsError, UsageError
from sgns_cli.vectors import embed as embed_module
from sgns_cli.vectors.arrays import check_suffix, write_pooled, write_sequences, write_texts
from sgns_cli.vectors.embed import Embedder, Tally, Tokens, cut_sequences, in_groups, position_vectors, sinusoids
from sgns_cli.vectors.opening import open_model


def embedder(run: Written, **options: object) -> Embedder:
    return Embedder(open_model(run.path), **options)  # type: ignore[arg-type]


def tokens(*ids: int) -> Tokens:
    return Tokens(np.array(ids, dtype=np.int64), np.arange(len(ids)))


def test_a_lookup_is_torchs_embedding_layer_and_the_one_hot_product(tmp_path: Path) -> None:
    import torch

    matrix = np.random.default_rng(0).normal(size=(9, 3)).astype(np.float32)
    run = write_run(tmp_path / "run", word_tokenizer(), np.full(9, 10), dim=3, embeddings=matrix)
    ids = np.array([5, 3, 7, 2])
    vectors = embedder(run).embed(tokens(*ids))
    layer = torch.nn.Embedding.from_pretrained(torch.from_numpy(matrix))
    assert np.array_equal(vectors, layer(torch.from_numpy(ids)).numpy())
    np.testing.assert_allclose(vectors, np.eye(9)[ids] @ matrix, rtol=1e-6)


def test_learned_positions_are_added_as_torch_adds_them(learned_run: Written) -> None:
    import torch

    ids = np.array([5, 3, 7, 2, 0])
    rows = torch.nn.Embedding.from_pretrained(torch.from_numpy(learned_run.embeddings))
    places = torch.nn.Embedding.from_pretrained(torch.from_numpy(np.asarray(learned_run.positions)))
    expected = rows(torch.from_numpy(ids)) + places(torch.arange(len(ids)))
    assert np.array_equal(embedder(learned_run).embed(Tokens(ids, np.arange(5))), expected.numpy())


def test_model_safetensors_opens_in_torch_in_one_line(word_run: Written) -> None:
    import torch
    from safetensors.torch import load_file

    path = word_run.step / "model.safetensors"
    layer = torch.nn.Embedding.from_pretrained(load_file(path)["embeddings"])
    assert np.array_equal(layer(torch.tensor([3])).numpy(), word_run.embeddings[[3]])


def test_the_same_token_at_two_positions(learned_run: Written) -> None:
    with_positions, without = embedder(learned_run), embedder(learned_run, positions=False)
    text = with_positions.tokenize("the dog fetched the ball")
    assert text.ids.tolist() == [0, 1, 2, 0, 3]
    rows, inputs = without.embed(text), with_positions.embed(text)
    assert np.array_equal(rows[0], rows[3])
    assert not np.array_equal(inputs[0], inputs[3])
    np.testing.assert_allclose(inputs - rows, learned_run.positions[:5], atol=1e-6)  # type: ignore[index]


def test_sinusoids_are_the_published_formula() -> None:
    for dim in (1, 6, 7):
        table = sinusoids(np.arange(20), dim=dim)
        for position in (0, 1, 19):
            for column in range(dim):
                angle = position / 10000 ** (2 * (column // 2) / dim)
                wanted = math.sin(angle) if column % 2 == 0 else math.cos(angle)
                assert table[position, column] == pytest.approx(wanted, abs=1e-6)


def test_sinusoidal_runs_add_the_table(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", word_tokenizer(), np.array(WORD_COUNTS), positions="sinusoidal", dim=7)
    vectors = embedder(run).embed(tokens(1, 1))
    np.testing.assert_allclose(vectors - run.embeddings[[1, 1]], sinusoids(np.arange(2), dim=7), atol=1e-6)


def test_positions_go_on_modulo_with_a_note(learned_run: Written) -> None:
    model = open_model(learned_run.path)
    rows = position_vectors(model, np.arange(20))
    assert np.array_equal(rows[16:], rows[:4])
    tally = Tally(Embedder(model))
    tally.add([tokens(*[0] * 16)])
    assert list(tally.notes()) == []
    tally.add([tokens(*[0] * 17)])
    assert list(tally.notes()) == ["17 tokens are more than the context length 16: positions past it begin again at 0"]


def test_untrained_tokens_and_empty_texts_are_noted(word_run: Written) -> None:
    tally = Tally(embedder(word_run))
    tally.add([tokens(0, 8, 8), tokens()])
    assert list(tally.notes()) == [
        "1 text has no tokens: text 1",
        "2 of 3 tokens were never trained and have zero vectors: rare",
    ]


def test_contexts_and_sums_can_be_embedded(word_run: Written) -> None:
    ids = np.array([1, 2])
    text = tokens(1, 2)
    assert np.array_equal(embedder(word_run, kind="context").embed(text), word_run.contexts[ids])
    assert np.array_equal(embedder(word_run, kind="sum").embed(text), (word_run.embeddings + word_run.contexts)[ids])


@pytest.mark.parametrize(
    ("number", "length", "stride", "expected"),
    [
        (6, 3, 3, [[0, 1, 2], [3, 4, 5]]),
        (5, 3, 3, [[0, 1, 2], [3, 4]]),
        (5, 3, 1, [[0, 1, 2], [1, 2, 3], [2, 3, 4]]),
        (4, 3, 2, [[0, 1, 2], [2, 3]]),
        (7, 2, 4, [[0, 1], [4, 5]]),
        (2, 3, 1, [[0, 1]]),
        (1, 1, 1, [[0]]),
        (0, 3, 1, []),
    ],
)
def test_sequences(number: int, length: int, stride: int, expected: list[list[int]]) -> None:
    parts = list(cut_sequences(tokens(*range(number)), length=length, stride=stride))
    assert [part.ids.tolist() for part in parts] == expected
    assert [part.positions.tolist() for part in parts] == [list(range(len(ids))) for ids in expected]


def test_eight_sequences_of_three_tokens_at_dim_256(tmp_path: Path) -> None:
    import torch

    tokenizer = WhitespaceTokenizer([f"w{id}" for id in range(100)])
    run = write_run(tmp_path / "run", tokenizer, np.full(100, 10), dim=256, positions="learned")
    embed = embedder(run)
    text = embed.tokenize(" ".join(f"w{id}" for id in range(24)))
    path = tmp_path / "x.npy"
    assert write_sequences(path, embed, cut_sequences(text, length=3, stride=3), length=3) == (8, 3, 256)
    assert np.load(tmp_path / "x.mask.npy").tolist() == [[True] * 3] * 8
    rows = torch.from_numpy(run.embeddings)[torch.arange(24).reshape(8, 3)]
    places = torch.from_numpy(np.asarray(run.positions))[:3]  # (3, 256), broadcast over the eight
    assert np.array_equal(np.load(path), (rows + places).numpy())


def test_short_sequences_are_padded_with_zeros(tmp_path: Path, learned_run: Written) -> None:
    embed = embedder(learned_run)
    parts = [tokens(1, 2, 3), tokens(4)]
    assert write_sequences(tmp_path / "x.safetensors", embed, parts, length=3) == (2, 3, 8)
    arrays = safetensors.numpy.load_file(tmp_path / "x.safetensors")
    assert arrays["mask"].tolist() == [[True] * 3, [True, False, False]]
    assert arrays["ids"].tolist() == [[1, 2, 3], [4, 0, 0]]
    assert np.array_equal(arrays["vectors"][1, 0], embed.embed(tokens(4))[0])
    assert not arrays["vectors"][1, 1:].any()
    write_sequences(tmp_path / "x.npy", embed, parts, length=3)
    assert np.array_equal(np.load(tmp_path / "x.npy"), arrays["vectors"])
    assert np.load(tmp_path / "x.mask.npy").tolist() == arrays["mask"].tolist()


def test_texts_of_different_lengths(tmp_path: Path, learned_run: Written) -> None:
    embed = embedder(learned_run)
    texts = [tokens(1, 2, 3), tokens(), tokens(4)]
    assert write_texts(tmp_path / "x.safetensors", embed, texts) == (4, 8)
    arrays = safetensors.numpy.load_file(tmp_path / "x.safetensors")
    assert arrays["ids"].tolist() == [1, 2, 3, 4]
    assert arrays["offsets"].tolist() == [0, 3, 3, 4]
    assert np.array_equal(arrays["vectors"][:3], embed.embed(texts[0]))
    assert np.array_equal(arrays["vectors"][3:], embed.embed(texts[2]))
    with pytest.raises(SgnsError, match="different numbers of tokens"):
        write_texts(tmp_path / "x.npy", embed, texts)
    assert not (tmp_path / "x.npy").exists()


def test_one_text_or_texts_of_one_length_in_npy(tmp_path: Path, word_run: Written) -> None:
    embed = embedder(word_run)
    assert write_texts(tmp_path / "x.npy", embed, [tokens(1, 2, 3)]) == (3, 8)
    assert np.array_equal(np.load(tmp_path / "x.npy"), word_run.embeddings[[1, 2, 3]])
    assert write_texts(tmp_path / "x.npy", embed, [tokens(1, 2)] * 3) == (3, 2, 8)
    assert np.load(tmp_path / "x.npy").shape == (3, 2, 8)
    assert write_texts(tmp_path / "x.npy", embed, [tokens()]) == (0, 8)
    assert np.load(tmp_path / "x.npy").shape == (0, 8)
    assert write_texts(tmp_path / "x.safetensors", embed, [tokens()]) == (0, 8)
    assert safetensors.numpy.load_file(tmp_path / "x.safetensors")["vectors"].shape == (0, 8)


def test_pooling_is_the_mean_over_tokens(tmp_path: Path, learned_run: Written) -> None:
    embed = embedder(learned_run)
    texts = [tokens(1, 8, 3), tokens()]
    assert write_pooled(tmp_path / "x.npy", embed, texts) == (2, 8)
    vectors = np.load(tmp_path / "x.npy")
    np.testing.assert_allclose(vectors[0], embed.embed(texts[0]).mean(axis=0), rtol=1e-5)
    assert not vectors[1].any()
    write_pooled(tmp_path / "x.safetensors", embed, texts)
    arrays = safetensors.numpy.load_file(tmp_path / "x.safetensors")
    assert arrays["vectors"].shape == (2, 8)
    assert arrays["offsets"].tolist() == [0, 3, 3]


def test_only_two_endings_are_arrays() -> None:
    check_suffix(Path("x.npy"))
    check_suffix(Path("x.safetensors"))
    with pytest.raises(UsageError, match=r"x\.csv"):
        check_suffix(Path("x.csv"))


def test_unknown_words_keep_their_places(tmp_path: Path, learned_run: Written) -> None:
    embed = embedder(learned_run)
    text = embed.tokenize("the unheard dog x y cat")
    assert (text.ids.tolist(), text.positions.tolist(), text.unknown) == ([0, 1, 4], [0, 2, 5], ("unheard", "x", "y"))
    assert learned_run.positions is not None
    expected = learned_run.embeddings[[0, 1, 4]] + learned_run.positions[[0, 2, 5]]
    assert np.array_equal(embed.embed(text), expected)
    parts = list(cut_sequences(text, length=3, stride=3))
    assert [(part.ids.tolist(), part.positions.tolist()) for part in parts] == [([0, 1], [0, 2]), ([4], [2])]
    assert write_sequences(tmp_path / "x.npy", embed, parts, length=3) == (2, 3, 8)
    assert np.load(tmp_path / "x.mask.npy").tolist() == [[True, False, True], [False, False, True]]
    cat = learned_run.embeddings[4] + learned_run.positions[2]
    assert np.array_equal(np.load(tmp_path / "x.npy")[1], [np.zeros(8), np.zeros(8), cat])
    tally = Tally(embed)
    tally.add([text])
    assert list(tally.notes()) == ["3 of 6 words are not in the vocabulary and are left out: unheard, x, y"]


def test_a_text_of_unknown_words_is_as_long_as_it_is(learned_run: Written) -> None:
    embed = embedder(learned_run)
    text = embed.tokenize("the " + "x " * 20 + "dog")
    tally = Tally(embed)
    tally.add([text], sequence=4)
    assert not any("context length" in note for note in tally.notes())
    tally.add([text])
    assert any(note.startswith("22 tokens are more than the context length 16") for note in tally.notes())


@pytest.fixture(scope="module")
def embedders(tmp_path_factory: pytest.TempPathFactory) -> list[Embedder]:
    """One of words and learned positions, one that lower-cases, one of a BPE and sinusoids, one of a single column."""
    folder = tmp_path_factory.mktemp("runs")
    words, counts = word_tokenizer(), np.array(WORD_COUNTS)
    runs = [
        write_run(folder / "learned", words, counts, positions="learned", dim=7),
        write_run(folder / "lower", words, counts, lowercase=True),
        write_run(folder / "bpe", bpe_tokenizer(), bpe_counts(), positions="sinusoidal"),
        write_run(folder / "one", words, counts, dim=1),
    ]
    return [embedder(run) for run in runs]


SOME_TEXTS = st.lists(
    st.one_of(
        st.text(max_size=20),
        st.sampled_from(["", "THE Dog", "the silver gold \n", f"a{SEPARATOR}b", "\udce4 dog"]),
        st.lists(st.sampled_from([*WORDS, "unheard", "x"]), max_size=40).map(" ".join),
    ),
    min_size=1,
    max_size=12,
)


@given(texts=SOME_TEXTS, which=st.integers(0, 3), at_once=st.sampled_from([1, 60, 2**22]))
def test_a_text_gets_the_same_numbers_in_any_company(
    embedders: list[Embedder], texts: list[str], which: int, at_once: int
) -> None:
    embed = embedders[which]
    together = embed.tokenize_batch(texts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(embed_module, "NUMBERS_AT_ONCE", at_once)
        means = embed.pool_batch(together)
        assert (means.shape, means.dtype) == ((len(texts), embed.model.dim), np.float32)
        for text, tokens, mean in zip(texts, together, means, strict=True):
            alone = embed.tokenize(text)
            assert alone.ids.tolist() == tokens.ids.tolist() == embed.model.encode(text).tolist()
            assert alone.positions.tolist() == tokens.positions.tolist()
            assert alone.unknown == tokens.unknown == tuple(embed.model.unknown(text).values())
            places = sorted([*tokens.positions.tolist(), *embed.model.unknown(text)])
            assert places == list(range(tokens.length))
            assert np.array_equal(mean, embed.pool(alone))
            if len(tokens.ids):
                assert np.allclose(mean, embed.embed(alone).mean(axis=0, dtype=np.float64), rtol=1e-6, atol=1e-7)
            else:
                assert not mean.any()


def test_the_mean_of_a_text_that_fits_is_numpys_to_the_last_bit(learned_run: Written) -> None:
    embed = embedder(learned_run)
    texts = [tokens(*np.random.default_rng(length).integers(0, 9, length)) for length in (1, 2, 7, 8, 9, 127, 1000)]
    for text, mean in zip(texts, embed.pool_batch(texts), strict=True):
        assert np.array_equal(mean, embed.embed(text).mean(axis=0, dtype=np.float64).astype(np.float32))


@pytest.mark.parametrize("suffix", [".npy", ".safetensors"])
@pytest.mark.parametrize("number", [1, 3])
def test_long_texts_are_written_in_parts(
    tmp_path: Path, learned_run: Written, monkeypatch: pytest.MonkeyPatch, suffix: str, number: int
) -> None:
    embed = embedder(learned_run)
    texts = [tokens(*np.random.default_rng(seed).integers(0, 8, 100)) for seed in range(number)]
    expected = [embed.embed(text) for text in texts]
    sizes = []
    vectors = Embedder.embed
    monkeypatch.setattr(Embedder, "embed", lambda self, part: sizes.append(len(part.ids)) or vectors(self, part))
    monkeypatch.setattr(embed_module, "NUMBERS_AT_ONCE", 8 * 30)
    shape = write_texts(tmp_path / f"x{suffix}", embed, texts)
    stacked = suffix == ".npy" and number > 1
    assert sizes == ([100] * number if stacked else [30, 30, 30, 10] * number)
    if suffix == ".npy":
        assert np.array_equal(np.load(tmp_path / "x.npy"), expected if stacked else expected[0])
    else:
        arrays = safetensors.numpy.load_file(tmp_path / "x.safetensors")
        assert np.array_equal(arrays["vectors"], np.concatenate(expected))
        assert arrays["offsets"].tolist() == [100 * text for text in range(number + 1)]
        assert shape == (100 * number, 8)


def test_a_text_of_another_length_ends_it_at_once(tmp_path: Path, word_run: Written) -> None:
    def texts() -> Iterator[Tokens]:
        yield from [tokens(1, 2)] * 10
        yield tokens(1)
        for _ in range(100):
            yield tokens(1, 2)
        raise AssertionError("a thousand tokens later")

    with pytest.MonkeyPatch.context() as patch, pytest.raises(SgnsError, match="different numbers of tokens"):
        patch.setattr(embed_module, "NUMBERS_AT_ONCE", 8 * 20)
        write_texts(tmp_path / "x.npy", embedder(word_run), texts())
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]


def test_a_full_group_does_not_wait_for_the_next_item() -> None:
    asked = []

    def items() -> Iterator[int]:
        for item in (1, 1, 5, 1):
            asked.append(item)
            yield item

    groups = in_groups(items(), size=lambda item: item, most=2)
    assert (next(groups), asked) == ([1, 1], [1, 1])
    assert (next(groups), asked) == ([5], [1, 1, 5])
    assert list(groups) == [[1]]


@given(sizes=st.lists(st.integers(0, 10), max_size=30), most=st.integers(0, 12))
def test_groups_hold_all_in_order_and_no_more_than_they_may(sizes: list[int], most: int) -> None:
    groups = list(in_groups(sizes, size=lambda size: size, most=most))
    assert [size for group in groups for size in group] == sizes
    assert all(sum(group) <= most or len([size for size in group if size]) == 1 for group in groups)


def test_tokens_beyond_the_last_row_are_left_out(word_run: Written) -> None:
    model = open_model(word_run.path)
    short = replace(model, embeddings=model.embeddings[:3], counts=None, load_contexts=None)
    embed = Embedder(short)
    text, other = embed.tokenize_batch(["the ball x fetched cat", "dog"])
    assert (text.ids.tolist(), text.positions.tolist()) == ([0, 2], [0, 3])
    assert sorted(text.unknown) == ["ball", "cat", "x"]
    assert (other.ids.tolist(), other.unknown) == ([1], ())
    assert np.array_equal(embed.embed(text), word_run.embeddings[[0, 2]])
    tally = Tally(embed)
    tally.add([text, other])
    assert list(tally.notes()) == ["3 of 6 words are not in the vocabulary and are left out: x, ball, cat"]


def test_a_tally_names_some_and_counts_all(word_run: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embed_module, "UNKNOWN_AT_MOST", 10)
    embed = embedder(word_run)
    tally = Tally(embed)
    for number in range(100):
        tally.add(embed.tokenize_batch([f"dog often x{number}", "", "rare"]))
    assert (len(tally.unknown), len(tally.first_empty)) == (10, 6)
    assert list(tally.notes()) == [
        "100 texts have no tokens: text 1, text 4, text 7, text 10, text 13, ...",
        "200 of 400 words are not in the vocabulary and are left out: often, x0, x1, x2, x3, ...",
        "100 of 200 tokens were never trained and have zero vectors: rare",
    ]
