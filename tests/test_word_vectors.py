"""Files of vectors that other programs write, as those programs write them; and the broken ones."""

import itertools
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import Result
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sgns_cli.corpus.token_text import to_byte_alphabet
from sgns_cli.errors import SgnsError, UsageError
from sgns_cli.vectors import word_vectors
from sgns_cli.vectors.opening import open_model
from sgns_cli.vectors.query import resolve_query

WORDS = ["the", "dog", "café", "東京", "don't", "New_York", "1984", "new"]
MATRIX = np.random.default_rng(0).normal(size=(len(WORDS), 5)).astype(np.float32)
LINES = [f"{word} {' '.join(map(str, row))}\n" for word, row in zip(WORDS, MATRIX.tolist(), strict=True)]


def write(path: Path, data: str | bytes) -> Path:
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def binary(words: list[bytes], matrix: np.ndarray, end: bytes = b"\n") -> bytes:
    rows = b"".join(word + b" " + row.astype("<f4").tobytes() + end for word, row in zip(words, matrix, strict=True))
    return f"{len(matrix)} {matrix.shape[1]}\n".encode() + rows


@pytest.mark.parametrize(
    "kind",
    ["word2vec", "mark", "GloVe with a mark", "fastText", "CRLF", "tabs", "GloVe", "no last end", "binary", "gensim's"],
)
def test_every_kind_of_file(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_vectors, "LINES_AT_ONCE", 3)
    head = f"{len(WORDS)} 5\n"
    data = {
        "word2vec": head + "".join(LINES),
        "fastText": head + "".join(line.replace("\n", " \n") for line in LINES),
        "mark": "\ufeff" + head + "".join(LINES),
        "GloVe with a mark": "\ufeff" + "".join(LINES),
        "CRLF": "".join([head, *LINES]).replace("\n", "\r\n"),
        "tabs": head + "".join(LINES).replace(" ", "\t"),
        "GloVe": "".join(LINES),
        "no last end": "".join(LINES).rstrip("\n"),
        "binary": binary([word.encode() for word in WORDS], MATRIX),
        "gensim's": binary([word.encode() for word in WORDS], MATRIX, end=b""),
    }[kind]
    model = open_model(write(tmp_path / "vectors", data))
    assert model.embeddings.dtype == np.float32
    np.testing.assert_array_equal(model.embeddings, MATRIX)
    assert [model.tokenizer.token_bytes(id) for id in range(model.n_vocab)] == [word.encode() for word in WORDS]
    assert model.by_frequency.tolist() == list(range(len(WORDS)))
    assert (model.count(0), model.load_contexts, model.notes) == (None, None, ())
    assert model.encode("the dog barks new").tolist() == [0, 1, 7]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.binary(min_size=1, max_size=6).filter(lambda name: not set(name) & set(b" \t\n\r\x0b\x0c")), min_size=1
    ),
    st.sampled_from(["text", "binary"]),
)
def test_any_names_and_any_numbers_come_back(tmp_path: Path, names: list[bytes], kind: str) -> None:
    matrix = np.random.default_rng(len(names)).normal(size=(len(names), 3)).astype(np.float32)
    matrix[0] = [1e-38, -3.4e38, 1 / 3]
    if kind == "binary":
        data = binary(names, matrix)
    else:
        rows = [b"%s %.9g %.9g %.9g\n" % (name, *row) for name, row in zip(names, matrix.tolist(), strict=True)]
        data = b"%d 3\n" % len(names) + b"".join(rows)
    model = open_model(write(tmp_path / "vectors", data))
    np.testing.assert_array_equal(model.embeddings, matrix)
    if not any("alphabet" in note for note in model.notes):
        assert [model.tokenizer.token_bytes(id) for id in range(len(names))] == names


def test_gensim_reads_and_writes_the_same(tmp_path: Path) -> None:
    pytest.importorskip("gensim", reason="gensim, of the extra dev, is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from gensim.models import KeyedVectors
    vectors = KeyedVectors(5)
    vectors.add_vectors(WORDS, MATRIX)
    for is_binary, header in itertools.product([True, False], [True, False]):
        path = tmp_path / f"{is_binary}{header}"
        vectors.save_word2vec_format(path, binary=is_binary, write_header=header or is_binary)
        model = open_model(path)
        np.testing.assert_array_equal(model.embeddings, vectors.vectors)
        assert [model.tokenizer.token_bytes(id).decode() for id in range(8)] == vectors.index_to_key


def test_names_with_spaces(tmp_path: Path) -> None:
    model = open_model(write(tmp_path / "v.txt", "2 2\na 1 2\nb c 3 4\n"))
    assert model.tokenizer.token_bytes(1) == b"b c"
    lines = ["the 1 2 3\n", ". . . 4 5 6\n", "at name@domain.com 7 8 9\n"]
    for order in itertools.permutations(lines):
        model = open_model(write(tmp_path / "glove.txt", "".join(order)))
        assert model.dim == 3
        assert model.tokenizer.id_of(b". . .") == order.index(lines[1])
        assert model.rows(np.array([order.index(lines[2])])).tolist() == [[7, 8, 9]]


def test_names_in_the_byte_alphabet_are_the_tokens_themselves(tmp_path: Path) -> None:
    tokens = [" silver", "silver", "the ", "é", "\n", " gold"]
    lines = [f"{to_byte_alphabet(token.encode())} {i + 1} 1\n" for i, token in enumerate(tokens)]
    model = open_model(write(tmp_path / "bpe.txt", "6 2\n" + "".join(lines)))
    assert [model.tokenizer.token_bytes(id) for id in range(6)] == [token.encode() for token in tokens]
    assert "byte alphabet" in model.notes[0]
    query = resolve_query(model, "silver")
    assert query.ids == (0,)  # of two the row that comes first
    assert query.notes == ("'silver' is read as ␣silver; also a token: silver",)


@pytest.mark.parametrize(
    "words",
    [
        ["ĉiu", "ĝi", "ŝi", "estas"],  # Esperanto: ŝ is no letter of the alphabet
        ["ĉevalo", "ĝi", "ĵurnalo", "mi"],  # its letters are, but make no sense
        ["café", "déjà", "vu"],
        ["łąka", "dąb", "lęk"],
    ],
)
def test_words_of_any_language_are_no_byte_alphabet(tmp_path: Path, words: list[str]) -> None:
    model = open_model(write(tmp_path / "words.txt", "".join(f"{word} {i} 1\n" for i, word in enumerate(words))))
    assert model.notes == ()
    assert [model.tokenizer.token_bytes(id).decode() for id in range(len(words))] == words


def test_a_repeated_name_means_its_first_row_and_zero_rows_are_no_answers(tmp_path: Path) -> None:
    model = open_model(write(tmp_path / "v.txt", "a 1 2\nb 3 4\na 5 6\nc 0 0\n"))
    assert model.notes == ("1 row has the name of a row before and can be no answer",)
    assert model.trained.tolist() == [True, True, False, False]
    assert model.encode("a c").tolist() == [0, 3]
    with pytest.raises(SgnsError, match="'c' was never trained: its row is zero"):
        resolve_query(model, "c")


ROW = b"ab " + bytes(8)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is no file of vectors"),
        (b"hello world\n", "is no file of vectors: its first line is neither"),
        (b"\x1f\x8b\x08\x00", "is packed with gzip"),
        (b"PK\x03\x04 1", "is packed with zip"),
        (b"3 2\na 1 2\nb 3 4\n", "announces 3 rows and ends after 2"),
        (b"1 2\na 1 2\nb 3 4\n", "announces 1 rows and has more"),
        (b"2 2\na 1 2\nb 3 x\n", "line 3 has something else than 2 numbers"),
        (b"2 2\na 1 2\nb 3\n", "line 3 has 2 fields, a row has 3"),
        (b"2 2\na 1 2\n\n", "line 3 has 0 fields"),
        (b"2 2\na 1 nan\nb 3 4\n", "line 2 has a number that is not finite"),
        (b"2 2\na 1 2\nb 1e39 4\n", "line 3 has a number that is not finite"),
        (b"a 1 2\nb 3 inf\n", "line 2 has a number that is not finite"),
        (b"0 5\n", "says 0 rows of 5 numbers"),
        (b"5 0\n", "says 5 rows of 0 numbers"),
        (b"999999999999 300\na 1\n", "more than 21 bytes can hold"),
        (b"2 3\na 1 2\nb 3 4\n", "line 2 has 3 fields, a row has 4"),  # what the header says is wrong
        (b"-12 5\na 1 2 3 4 5\n", "its first line is neither"),
        (b"2 2\na 1 2 3\nb 4 5 6\n", "line 2 has more than 2 numbers"),
        (b"a 1 2\nb 3 4\nc 5\nd 6 7\n", "line 3 has 2 fields, a row has 3"),
        (b"3 2\n" + ROW * 2, "announces 3 rows and ends in row 3"),
        (b"2 2\n" + ROW * 2 + b"xy", "announces 2 rows and has more"),
        (b"1 2\nab " + np.array([1, np.nan], "<f4").tobytes(), "row 1 (ab) has a number that is not finite"),
        (b"2 2\nab " + bytes(200), "ends in row 2"),
    ],
)
def test_broken_files_say_where(tmp_path: Path, data: bytes, words: str) -> None:
    with pytest.raises(SgnsError) as raised:
        open_model(write(tmp_path / "vectors.bin", data))
    assert words in raised.value.message
    assert raised.value.hint


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_damage_is_more_than_an_error(tmp_path: Path, data: st.DataObject) -> None:
    whole = data.draw(st.sampled_from([binary([b"a", b"b"], MATRIX[:2]), "".join(["2 5\n", *LINES[:2]]).encode()]))
    at = data.draw(st.integers(0, len(whole) - 1))
    changed = whole[:at] + data.draw(st.binary(max_size=3)) + whole[at + data.draw(st.integers(0, 9)) :]
    try:
        model = open_model(write(tmp_path / "vectors", changed))
    except SgnsError:
        return
    assert np.isfinite(model.embeddings).all()


def test_options_that_do_not_go_with_a_file(tmp_path: Path, sgns: Callable[..., Result]) -> None:
    path = write(tmp_path / "glove.txt", "".join(LINES))
    with pytest.raises(UsageError, match=r"go with a \.safetensors file"):
        open_model(path, tensor="embeddings")
    result = sgns("neighbors", "dog", "--model", path, "-k", 2, "--json")
    assert result.code == 0
    assert '"count": null' in result.out
    result = sgns("neighbors", "dog", "--model", path, "--vectors", "context")
    assert (result.code, "has no contexts" in result.err) == (1, True)
    result = sgns("embed", "the dog barks", "--model", path)
    assert result.code == 0
    assert "1 of 3 words are not in the vocabulary" in result.err
