"""Exports, read back by the programs they are for: gensim, model2vec, sentence-transformers, TensorBoard."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import BPE_TOKENS, bpe_counts, bpe_tokenizer, write_run

from sgns_cli.cli import main
from sgns_cli.corpus.token_text import show, to_byte_alphabet
from sgns_cli.corpus.whitespace import WhitespaceTokenizer
from sgns_cli.vectors.opening import open_model

WORDS = ["the", "dog", "naïve", '"quoted"', "#1", "σας", "漢字", "1\u200b2", "rare", "Ġx"]
WORD_COUNTS = [90, 70, 80, 60, 60, 50, 40, 30, 1, 20]
BY_COUNT = [0, 2, 1, 3, 4, 5, 6, 7, 9]  # of WORD_COUNTS, those of at least 5
TEXTS = [
    "the dog",
    "the\x1cdog\x1d\x1fnaïve\u2003the  \u3000\x85rare",
    "THE Dog ΣΑΣ ΣΑΣ. İ",
    "silver and gold silver\nthe [/b] [bold]\r\n a\tb",
    "<|end|> <|x|> 0 <unknown> 9 266 <hole>",
    "",
    " \n",
    "the dog " * 300,  # more than the 512 tokens after which model2vec cuts by default
    "unknown words the",
]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A run of words, the same lower-casing, and one of a BPE, all with positions."""
    folder = tmp_path_factory.mktemp("runs")
    words = (WhitespaceTokenizer(WORDS), np.array(WORD_COUNTS))
    return {
        "words": write_run(folder / "words", *words, positions="learned"),
        "lower": write_run(folder / "lower", *words, positions="sinusoidal", lowercase=True),
        "bpe": write_run(folder / "bpe", bpe_tokenizer(), bpe_counts(), positions="learned"),
    }


@pytest.fixture(scope="module")
def exports(runs, tmp_path_factory):
    """One process reads what is exported here; the tests look at what it found."""
    folder = tmp_path_factory.mktemp("exports")
    for kind in ("gensim", "models", "projectors"):
        (folder / kind).mkdir()

    def export(name: str, format: str, *options: str) -> None:
        run = runs[name.split("/")[1].split(".")[0].split("-")[0]]
        code = main(["export", "-q", "--model", str(run.path), "-o", str(folder / name), "--format", format, *options])
        assert code == 0

    for run in ("words", "bpe"):
        export(f"gensim/{run}.txt", "word2vec")
        export(f"gensim/{run}.bin", "word2vec-bin", "--rows", "all")
        export(f"gensim/{run}.glove", "glove", "--vectors", "context")
        export(f"gensim/{run}-half.txt", "word2vec", "--dtype", "float16")
        export(f"projectors/{run}", "projector")
        export(f"models/{run}", "model2vec")
    export("models/lower", "model2vec", "--vectors", "sum")
    export("models/bpe-half", "model2vec", "--dtype", "float16")
    export("models/bpe-int8", "model2vec", "--dtype", "int8")
    texts = folder / "texts.json"
    texts.write_text(json.dumps(TEXTS))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(Path(__file__).with_name("export_readers.py")), str(folder), str(texts)],
        capture_output=True,
        text=True,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def bpe_names(ids: list[int]) -> list[str]:
    return [to_byte_alphabet(bpe_tokenizer().token_bytes(id) or b"") for id in ids]


def by_count() -> list[int]:
    """The trained ids of the BPE run by falling count; the special token, the last, is not among them."""
    counts = bpe_counts()[:-1]
    return [id for id in np.argsort(-counts, kind="stable").tolist() if counts[id] >= 5]


@pytest.mark.parametrize("suffix", [".txt", ".glove"])
def test_gensim_reads_text(runs, exports, suffix):
    for run, names, ids in [
        ("words", [WORDS[id] for id in BY_COUNT], BY_COUNT),
        ("bpe", bpe_names(by_count()), by_count()),
    ]:
        read = exports[f"gensim/{run}{suffix}"]
        matrix = runs[run].contexts if suffix == ".glove" else runs[run].embeddings
        assert read["names"] == names
        assert np.array_equal(np.float32(read["vectors"]), matrix[ids])
    assert "Ġsilver" in names


def test_gensim_reads_binary_with_untrained_rows_last(runs, exports):
    ids = [*BY_COUNT, 8]
    read = exports["gensim/words.bin"]
    assert read["names"] == [WORDS[id] for id in ids]
    assert np.array_equal(np.float32(read["vectors"]), runs["words"].embeddings[ids])
    trained = by_count()
    ids = trained + [id for id in range(bpe_tokenizer().n_vocab) if id not in trained]
    read = exports["gensim/bpe.bin"]
    assert read["names"] == bpe_names(ids)
    assert np.array_equal(np.float32(read["vectors"]), runs["bpe"].embeddings[ids])


def test_gensim_reads_float16(runs, exports):
    read = np.float32(exports["gensim/bpe-half.txt"]["vectors"])
    assert np.array_equal(read.astype(np.float16), runs["bpe"].embeddings[by_count()].astype(np.float16))


@pytest.mark.parametrize("run", ["words", "lower", "bpe"])
def test_model2vec_gives_texts_the_ids_and_the_vectors_that_embed_gives(runs, exports, run, capsys):
    read = exports[f"models/{run}"]
    model = open_model(runs[run].path)
    assert read["ids"] == [model.encode(text).tolist() for text in TEXTS]
    kind = "sum" if run == "lower" else "input"
    capsys.readouterr()
    options = ["--pool", "mean", "--no-positions", "--vectors", kind, "--json", "-q"]
    assert main(["embed", *TEXTS, "--model", str(runs[run].path), *options]) == 0
    expected = [json.loads(line)["vector"] for line in capsys.readouterr().out.splitlines()]
    np.testing.assert_allclose(read["model2vec"], expected, rtol=1e-5, atol=1e-5)
    assert len(set(read["tokens"])) == len(read["tokens"]) == model.n_vocab + (run != "bpe")


@pytest.mark.skipif(not importlib.util.find_spec("sentence_transformers"), reason="needs sentence-transformers")
@pytest.mark.parametrize("run", ["words", "lower", "bpe", "bpe-half", "bpe-int8"])
def test_sentence_transformers_gives_the_same(runs, exports, run):
    read = exports[f"models/{run}"]
    ours = np.float32(read["model2vec"])
    if "bpe" not in run:  # unknown words count as zero rows
        model = open_model(runs[run].path)
        known = [len(model.encode(text)) for text in TEXTS]
        words = [known[at] + len(model.unknown(text)) for at, text in enumerate(TEXTS)]
        assert known != words
        ours *= [[one / max(all, 1)] for one, all in zip(known, words, strict=True)]
    np.testing.assert_allclose(read["sentence_transformers"], ours, rtol=2e-3, atol=1e-3 if "-" in run else 1e-5)


def test_smaller_numbers_in_model2vec(exports):
    exact = np.float32(exports["models/bpe"]["model2vec"])
    np.testing.assert_allclose(exports["models/bpe-half"]["model2vec"], exact, atol=1e-3)
    np.testing.assert_allclose(exports["models/bpe-int8"]["model2vec"], exact, atol=3 / 254)  # 3: the largest number
    assert exports["models/bpe-int8"]["model2vec"] != exports["models/bpe"]["model2vec"]


@pytest.mark.skipif(not importlib.util.find_spec("tensorboard"), reason="needs tensorboard")
def test_tensorboard_reads_points_and_labels(runs, exports):
    tokens = {**{id: bytes([id]) for id in range(256)}, **{256 + at: t.encode() for at, t in enumerate(BPE_TOKENS)}}
    labels = [f"{show(tokens[id])}\t{id}\t{bpe_counts()[id]}" for id in by_count()]
    read = exports["projectors/bpe"]
    assert read["metadata"] == ["token\tid\tcount", *labels]
    assert f"a⇥b\t{256 + 8}\t100" in labels
    assert np.array_equal(np.float32(read["vectors"]), runs["bpe"].embeddings[by_count()])
    read = exports["projectors/words"]
    assert read["metadata"][1:] == [f"{show(WORDS[id].encode())}\t{id}\t{WORD_COUNTS[id]}" for id in BY_COUNT]
