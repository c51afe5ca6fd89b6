"""export: what is in the files, what is refused, and that files are whole. Other programs read them in
test_export_readers.py.
"""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import BPE_COUNTS, WORD_COUNTS, WORDS, Result, Written, bpe_counts, bpe_tokenizer, write_run
from safetensors.numpy import load_file, save_file

from sgns_cli.corpus.tokenizer import list_tokens
from sgns_cli.corpus.whitespace import WhitespaceTokenizer
from sgns_cli.vectors.export import formats, projector, selection
from sgns_cli.vectors.model import Model
from sgns_cli.vectors.opening import open_model

Sgns = Callable[..., Result]
TRAINED = 8  # of WORDS: all but the last


def of_list(tokens: list[bytes], embeddings: np.ndarray) -> Model:
    """A model as other programs' files give it: without counts."""
    return Model(Path("listed"), embeddings.astype(np.float32), lambda: list_tokens(tokens))


def test_what_it_says(sgns: Sgns, word_run: Written) -> None:
    result = sgns("export", "-o", "words.bin", "--format", "word2vec-bin")
    assert (result.code, result.out) == (0, "")
    assert result.err.splitlines() == [
        "note: using runs/words/step-00000010",
        "note: wrote words.bin: 8 x 8 float32, word2vec-bin",
        'note: read it: gensim.models.KeyedVectors.load_word2vec_format("words.bin", binary=True)',
    ]
    assert sgns("export", "-q", "-o", "words.txt", "--format", "word2vec") == Result(0, "", "")


def test_positions_and_the_alphabet_are_noted(sgns: Sgns, learned_run: Written, bpe_run: Written) -> None:
    notes = sgns("export", "--model", learned_run.path, "-o", "a.txt", "--format", "glove").err
    assert "has positions, which are not written" in notes
    assert "byte alphabet" not in notes
    notes = sgns("export", "--model", bpe_run.path, "-o", "b.txt", "--format", "glove").err
    assert "names are in GPT-2's byte alphabet: Ġ is a space, Ċ a newline" in notes
    assert "has positions" not in notes


def test_text_as_it_stands(sgns: Sgns, word_run: Written, tmp_path: Path) -> None:
    sgns("export", "-o", "words.txt", "--format", "word2vec", "--rows", "all")
    sgns("export", "-o", "glove.txt", "--format", "glove", "--rows", "all")
    lines = (tmp_path / "words.txt").read_text().split("\n")
    assert lines[0] == "9 8"
    assert lines[9:] == ["rare 0 0 0 0 0 0 0 0", ""]
    assert [line.split(" ")[0] for line in lines[1:10]] == WORDS
    numbers = np.float32([line.split(" ")[1:] for line in lines[1:10]])
    assert np.array_equal(numbers, word_run.embeddings)
    assert (tmp_path / "glove.txt").read_text() == "\n".join(lines[1:])


@pytest.mark.parametrize("format", ["word2vec", "word2vec-bin", "glove"])
def test_sgns_reads_its_own(sgns: Sgns, bpe_run: Written, tmp_path: Path, format: str) -> None:
    assert sgns("export", "-o", "vectors", "--format", format, "--vectors", "sum").code == 0
    model = open_model(tmp_path / "vectors")
    tokenizer = bpe_tokenizer()
    ids = [tokenizer.id_of(model.tokenizer.token_bytes(row)) for row in range(model.n_vocab)]
    assert ids[:3] == [261, 257, 260]
    assert np.array_equal(model.rows(slice(None)), (bpe_run.embeddings + bpe_run.contexts)[ids])


def test_a_row_of_every_size_and_more_rows_than_are_read_at_once(
    sgns: Sgns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selection, "ROWS_AT_ONCE", 7)
    monkeypatch.setattr("sgns_cli.vectors.export.word_files.LINES_AT_ONCE", 3)
    random = np.random.default_rng(1)
    rows = random.normal(size=(40, 5)) * 10.0 ** random.integers(-44, 38, size=(40, 5))
    rows[0] = [np.finfo(np.float32).max, np.finfo(np.float32).tiny, 1e-45, -0.0, 1 / 3]
    model = of_list([b"w%d" % row for row in range(40)], rows)
    for format in ("word2vec", "word2vec-bin", "glove"):
        formats.export(model, tmp_path / format, format)
        found = open_model(tmp_path / format)
        assert [found.tokenizer.token_bytes(row) for row in range(40)] == [b"w%d" % row for row in range(40)]
        assert np.array_equal(found.embeddings, model.embeddings)


def test_safetensors_of_trained_rows(sgns: Sgns, bpe_run: Written, tmp_path: Path) -> None:
    result = sgns("export", "-o", "v.safetensors", "--format", "safetensors")
    assert 'read it: safetensors.numpy.load_file("v.safetensors")' in result.err
    found = load_file(tmp_path / "v.safetensors")
    assert sorted(found) == ["counts", "embeddings", "ids"]
    assert found["ids"].dtype == found["counts"].dtype == np.int64
    assert found["ids"].tolist() == [*range(97, 123), *(256 + at for at, n in enumerate(BPE_COUNTS) if n >= 5)]
    assert np.array_equal(found["embeddings"], bpe_run.embeddings[found["ids"]])
    assert np.array_equal(found["counts"], bpe_counts()[found["ids"]])


def test_safetensors_of_all_rows(sgns: Sgns, bpe_run: Written, tmp_path: Path) -> None:
    options = ["--format", "safetensors", "--rows", "all", "--dtype", "float16"]
    sgns("export", "-o", "v.safetensors", *options)
    found = load_file(tmp_path / "v.safetensors")
    assert sorted(found) == ["counts", "embeddings"]
    assert found["embeddings"].dtype == np.float16
    assert np.array_equal(found["embeddings"], bpe_run.embeddings.astype(np.float16))
    assert np.array_equal(found["counts"], bpe_counts())
    model = of_list([b"a", b"b"], np.eye(2))
    formats.export(model, tmp_path / "listed.safetensors", "safetensors")
    assert sorted(load_file(tmp_path / "listed.safetensors")) == ["embeddings", "ids"]


def test_int8(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "ROWS_AT_ONCE", 7)
    rows = np.random.default_rng(2).normal(size=(40, 5)) * np.logspace(-35, 30, 40)[:, None]
    rows[3] = 0
    model = of_list([b"w%d" % row for row in range(40)], rows)
    formats.export(model, tmp_path / "v.safetensors", "safetensors", rows="all", dtype="int8")
    found = load_file(tmp_path / "v.safetensors")
    assert (found["embeddings"].dtype, found["scales"].dtype) == (np.int8, np.float32)
    restored = found["embeddings"] * found["scales"][:, None]
    assert (np.abs(restored - model.embeddings) <= found["scales"][:, None] * 0.5001).all()
    assert found["scales"][3] == 0
    assert np.abs(found["embeddings"]).max(axis=1).tolist() == [127] * 3 + [0] + [127] * 36


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    old = tmp_path / "v"
    old.write_text("old")
    model = of_list([b"a", b"too much"], np.array([[65504.0, 1], [-65520.0, 1]]))
    with pytest.raises(formats.SgnsError, match=r"the vector of too␣much \(id 1\) has a number that float16 cannot"):
        formats.export(model, old, "safetensors", dtype="float16")
    model = of_list([b"a", b"b"], np.array([[1.0, 1], [np.nan, 1]]))
    with pytest.raises(formats.SgnsError, match=r"the vector of b \(id 1\) has a number that is not finite"):
        formats.export(model, tmp_path / "folder", "model2vec", dtype="int8")
    assert [path.name for path in tmp_path.iterdir()] == ["v"]
    assert old.read_text() == "old"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["word2vec", "--dtype", "int8"], "word2vec has no int8"),
        (["word2vec-bin", "--dtype", "float16"], "one that has: word2vec, glove, safetensors, model2vec"),
        (["projector", "--dtype", "float16"], "projector has no float16"),
        (["model2vec", "--rows", "trained"], "model2vec has a row for each id of its tokenizer"),
        (["gensim"], "sgns export --help"),
    ],
)
def test_options_that_do_not_go_together(sgns: Sgns, tmp_path: Path, options: list[str], words: str) -> None:
    result = sgns("export", "--model", "nowhere", "-o", "out", "--format", *options)
    assert (result.code, list(tmp_path.iterdir())) == (2, [])
    assert words in result.err


def test_every_dtype_of_every_format_is_written(word_run: Written, tmp_path: Path) -> None:
    model = open_model(word_run.path)
    for name, format in formats.FORMATS.items():
        for dtype in format.dtypes:
            exported = formats.export(model, tmp_path / f"{name}-{dtype}", name, rows=None, dtype=dtype)
            assert exported.shape == ((10 if name == "model2vec" else TRAINED), 8)


def test_no_contexts(tmp_path: Path) -> None:
    model = of_list([b"a"], np.ones((1, 2)))
    with pytest.raises(formats.SgnsError, match="listed has no contexts"):
        formats.export(model, tmp_path / "out", "word2vec", kind="context")
    assert list(tmp_path.iterdir()) == []


def test_nothing_was_trained(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", WhitespaceTokenizer(["a"]), np.array([1]))
    with pytest.raises(formats.SgnsError, match=r"no token of .* was trained"):
        formats.export(open_model(run.path), tmp_path / "out", "word2vec")
    assert formats.export(open_model(run.path), tmp_path / "out", "word2vec", rows="all").shape == (1, 8)


def test_folders_are_replaced_only_if_they_are_exports(sgns: Sgns, word_run: Written, tmp_path: Path) -> None:
    export = ["export", "-q", "-o", "out", "--format", "projector"]
    assert sgns(*export).code == 0
    assert "error: out exists already" in sgns(*export).err
    (tmp_path / "out" / "metadata.tsv").write_text("old")
    assert sgns(*export, "--overwrite") == Result(0, "", "")
    assert (tmp_path / "out" / "metadata.tsv").read_text().startswith("token\tid\tcount\nthe\t0\t90\n")
    for other in ("model2vec", "projector"):
        (tmp_path / "out" / "mine.txt").touch()
        result = sgns("export", "-q", "-o", "out", "--format", other, "--overwrite")
        assert result.code == 1
        assert f"error: out is no earlier {other} export: other things are in it" in result.err
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted([*projector.FILES, "mine.txt"])
    (tmp_path / "file").write_text("mine")
    assert sgns("export", "-q", "-o", "file", "--format", "projector", "--overwrite").code == 1
    assert (tmp_path / "file").read_text() == "mine"
    assert sgns("export", "-q", "-o", "file", "--format", "glove") == Result(0, "", "")
    assert "cannot write out: Is a directory" in sgns("export", "-q", "-o", "out", "--format", "glove").err


def test_folders_hold_the_names_that_overwrite_knows(word_run: Written, tmp_path: Path) -> None:
    model = open_model(word_run.path)
    for name, format in formats.FORMATS.items():
        formats.export(model, tmp_path / name, name)
        found = sorted(path.name for path in (tmp_path / name).iterdir()) if format.files else []
        assert found == sorted(format.files)


def test_names_with_white_space_bring_the_byte_alphabet(tmp_path: Path) -> None:
    tokens = [b"a", b" the", "é".encode(), b"", b"a", b"\xff\n", "x\u3000y".encode(), b"dropped"]
    embeddings = np.arange(16.0).reshape(8, 2) + 1
    embeddings[7] = 0
    model = of_list(tokens, embeddings)
    exported = formats.export(model, tmp_path / "out", "glove", rows="all")
    names = [line.split(" ")[0] for line in (tmp_path / "out").read_text().splitlines()]
    assert names == ["a", "Ġthe", "Ã©", "ÿĊ", "xãĢĢy", "dropped"]
    assert exported.shape == (6, 2)
    assert exported.notes[0] == "2 rows are left out: their token is empty, or that of a row before"
    assert "byte alphabet" in exported.notes[1]


def test_names_that_are_no_utf_8_keep_their_bytes(tmp_path: Path) -> None:
    model = of_list([b"caf\xe9", "Ġx".encode()], np.ones((2, 1)))
    exported = formats.export(model, tmp_path / "out", "word2vec")
    assert (tmp_path / "out").read_bytes() == b"2 1\ncaf\xe9 1\n" + "Ġx 1\n".encode()
    assert "unicode_errors" in exported.notes[0]


def test_the_projector_takes_the_most_frequent(
    sgns: Sgns, bpe_run: Written, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(projector, "MOST_POINTS", 3)
    result = sgns("export", "-o", "out", "--format", "projector")
    assert "note: the projector shows 3 points: the 32 least frequent tokens are left out" in result.err
    assert "wrote out: 3 x 8 float32, projector" in result.err
    assert 'read it: tensorboard --logdir "out"' in result.err
    lines = (tmp_path / "out" / "metadata.tsv").read_text().splitlines()
    assert lines == ["token\tid\tcount", "the␣\t261\t500", "␣silver\t257\t400", "␣gold\t260\t300"]
    assert len((tmp_path / "out" / "vectors.tsv").read_text().splitlines()) == 3


def test_the_projector_without_counts(tmp_path: Path) -> None:
    formats.export(of_list([b"a\tb", b"c"], np.eye(2)), tmp_path / "out", "projector")
    assert (tmp_path / "out" / "metadata.tsv").read_text() == "token\tid\na⇥b\t0\nc\t1\n"


def test_a_matrix_and_an_encoding_of_different_sizes(sgns: Sgns, ranks: object, tmp_path: Path) -> None:
    """A language model's matrix is padded, or its tokenizer has ids without rows: both have an entry and a row."""
    file = str(ranks.encoding)  # type: ignore[attr-defined]  # 258 ids
    for rows in (250, 258, 270):
        matrix = np.random.default_rng(3).normal(size=(rows, 4)).astype(np.float16)
        save_file({"wte": matrix}, tmp_path / "llm.safetensors")
        named = ["--model", "llm.safetensors", "--encoding", file]
        assert sgns("export", "-o", f"out-{rows}", "--format", "model2vec", *named, "--dtype", "int8").code == 0
        found = load_file(tmp_path / f"out-{rows}" / "model.safetensors")
        tokenizer = json.loads((tmp_path / f"out-{rows}" / "tokenizer.json").read_text())
        assert sorted(found) == ["embeddings", "weights"]
        assert len(found["embeddings"]) == len(found["weights"]) == max(rows, 258)
        assert sorted(tokenizer["model"]["vocab"].values()) == list(range(max(rows, 258)))
        restored = found["embeddings"][:rows] * found["weights"][:rows, None]
        np.testing.assert_allclose(restored, matrix, atol=4 / 254)
        assert not found["embeddings"][rows:].any()
        assert sgns("export", "-o", "words.txt", "--format", "word2vec", "--rows", "all", *named).code == 0
        assert (tmp_path / "words.txt").read_text().startswith(f"{min(rows, 258)} 4\n")


def test_counts_order_the_rows(word_run: Written, tmp_path: Path) -> None:
    counts = np.array(WORD_COUNTS)[::-1]
    run = write_run(tmp_path / "turned", WhitespaceTokenizer(WORDS), counts)
    formats.export(open_model(run.path), tmp_path / "out", "glove")
    names = [line.split(" ")[0] for line in (tmp_path / "out").read_text().splitlines()]
    assert names == WORDS[:0:-1]
