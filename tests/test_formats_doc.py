"""The lines of Python in docs/formats.md read what the program writes, and the page names every key that it writes."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from conftest import Result

from sgns_cli.training.trainer import Progress

TEXT = "and the silver and the gold of the king\nthe king drank wine\n" * 40


@pytest.fixture
def folder(sgns: Callable[..., Result], tmp_path: Path) -> Path:
    """A token folder in tokens, and a run trained on it in runs/kjv-cl100k."""
    Path("text.txt").write_text(TEXT, encoding="utf-8")
    assert sgns("tokenize", "text.txt", "-o", "tokens", "--train-vocab", 300, "-q").code == 0
    Path("kjv-cl100k.yaml").write_text(
        "data: {sources: [tokens]}\nmodel: {dim: 8, positions: learned, context_length: 32}\ntrain: {epochs: 2}\n",
        encoding="utf-8",
    )
    result = sgns("train", "kjv-cl100k.yaml", "-q")
    assert result.code == 0, result.err
    return tmp_path


def test_the_python_lines_read_it(folder: Path, project: Path) -> None:
    page = (project / "docs" / "formats.md").read_text(encoding="utf-8")
    lines = "".join(re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL))
    checks = """
assert len(tokens) == meta["tokens"] == starts[-1] == counts.sum()
assert encoding.encode_ordinary("and the silver and the gold of the king") == first_document.tolist()
assert embedding.weight.shape == (meta["tokenizer"]["n_vocab"], 8) == model["embeddings"].shape
assert np.array_equal(one_row, model["embeddings"][100:101])
assert trained.any() and not model["embeddings"][~trained].any() and model["embeddings"][trained].any()
assert inputs.shape == (3, 8)
assert losses[-1] == state["metrics"]["loss"]
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore::ResourceWarning", "-c", lines + checks],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr


def test_the_page_names_every_key(folder: Path, project: Path, sgns: Callable[..., Result]) -> None:
    page = (project / "docs" / "formats.md").read_text(encoding="utf-8")
    meta = json.loads((folder / "tokens" / "meta.json").read_text())
    state = json.loads(next((folder / "runs" / "kjv-cl100k").glob("step-*/state.json")).read_text())
    keys = {*meta, *meta["tokenizer"], *state, *state["fingerprints"], *state["metrics"]}
    keys |= {field.name for field in fields(Progress)}
    keys |= set(json.loads((folder / "tokens" / "tokenizer" / "ranks.json").read_text()))
    often = int(np.load(folder / "tokens" / "counts.npy").argmax())
    for arguments in (["neighbors", "--id", often, "-k", 1], ["embed", "the", "--context-length", 1]):
        result = sgns(*arguments, "--json", "-q")
        assert result.code == 0, result.err
        keys |= set(json.loads(result.out.splitlines()[0]))
    assert {key for key in keys if f"`{key}`" not in page} == set()


def test_arrays_have_the_shapes_of_the_page(folder: Path, sgns: Callable[..., Result]) -> None:
    tokens = len(sgns("embed", "the king", "-q").out.splitlines()) - 1
    for arguments, shape in (
        (["the king"], (tokens, 8)),
        (["the king", "the king"], (2, tokens, 8)),
        (["the king", "wine", "--pool", "mean"], (2, 8)),
        (["the king", "--context-length", tokens + 1], (1, tokens + 1, 8)),
    ):
        assert sgns("embed", *arguments, "-o", "x.npy", "-q").code == 0
        assert np.load("x.npy").shape == shape
    assert np.load("x.mask.npy").tolist() == [[True] * tokens + [False]]
    result = sgns("embed", "the king", "the king drank wine and silver", "-o", "x.npy", "-q")
    assert (result.code, "different numbers of tokens" in result.err) == (1, True)
