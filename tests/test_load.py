"""`sgns_cli.load`: the same answers as the commands give, as Python objects."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import Result, Written

import sgns_cli
from sgns_cli.errors import SgnsError

Sgns = Callable[..., Result]


def test_answers_are_those_of_the_commands(sgns: Sgns, bpe_run: Written) -> None:
    model = sgns_cli.load(bpe_run.path)
    for options in ([], ["--vectors", "sum", "--centre"]):
        loaded = sgns_cli.load(str(bpe_run.path), vectors="sum", centre=True) if options else model
        printed = sgns("neighbors", "silver", "-k", 4, "--json", *options).out
        for record, answer in zip(map(json.loads, printed.splitlines()), loaded.neighbors("silver", k=4), strict=True):
            assert [answer.token, answer.id, answer.bytes.hex(), answer.count] == [
                record[name] for name in ("token", "id", "bytes", "count")
            ]
            assert answer.score == pytest.approx(record["score"], abs=1e-6)
        printed = sgns("analogy", "silver", "gold", "a", "-k", 3, "--json", *options).out
        answers = loaded.analogy("silver", "gold", "a", k=3)
        assert [json.loads(line)["id"] for line in printed.splitlines()] == [answer.id for answer in answers]
        printed = sgns("similarity", "silver", "gold", "--json", *options).out
        assert loaded.similarity("silver", "gold") == pytest.approx(json.loads(printed)["score"], abs=1e-6)


def test_vectors_by_text_and_by_id(bpe_run: Written) -> None:
    model = sgns_cli.load(bpe_run.path)
    assert (len(model), model.dim) == bpe_run.embeddings.shape
    np.testing.assert_array_equal(model.vectors, bpe_run.embeddings)
    np.testing.assert_array_equal(model["silver"], bpe_run.embeddings[257])  # " silver", trained most often
    np.testing.assert_array_equal(model[262], bpe_run.embeddings[262])
    assert model.query("silver").notes
    assert model.encode("silver the").tolist() == [*b"silver the"]
    assert "silver" in model
    assert "78" not in model
    assert [row.tolist() for row in model] == bpe_run.embeddings.tolist()
    with pytest.raises(ValueError, match="vectors is 'output'"):
        sgns_cli.load(bpe_run.path, vectors="output")
    with pytest.raises(TypeError):
        model.neighbors(None)
    with pytest.raises(SgnsError, match="78"):
        model["78"]
    with pytest.raises(SgnsError, match="there is no token 5000"):
        model.neighbors(5000)


def test_embed(learned_run: Written) -> None:
    model = sgns_cli.load(learned_run.path)
    one = model.embed("the dog the")
    np.testing.assert_array_equal(one, learned_run.embeddings[[0, 1, 0]] + learned_run.positions[:3])
    np.testing.assert_array_equal(model.embed("the", positions=False), learned_run.embeddings[[0]])
    several = model.embed(["the dog the", "cat"])
    assert [part.shape for part in several] == [(3, 8), (1, 8)]
    pooled = model.embed(["the dog the", "cat"], pool="mean")
    np.testing.assert_allclose(pooled, [part.mean(axis=0) for part in several], rtol=1e-6)
    contexts = sgns_cli.load(learned_run.path, vectors="context").embed("the dog")
    np.testing.assert_array_equal(contexts, learned_run.contexts[:2])  # positions belong to input vectors
    assert model.embed([], pool="mean").shape == (0, 8)
    assert model.embed("the dog the", pool="mean").shape == (8,)


def test_loading_needs_no_torch_and_importing_nothing(bpe_run: Written, tmp_path: Path) -> None:
    code = (
        "import sys, sgns_cli; light = set(sys.modules)\n"
        "model = sgns_cli.load(); model.neighbors('silver'); model.embed('gold')\n"
        "heavy = {'torch', 'numba', 'datasets', 'pandas', 'rich', 'typer', 'pydantic'} & set(sys.modules)\n"
        "assert not heavy and 'numpy' not in light, (heavy, 'numpy' in light)\n"
        "print(model)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "<267 x 8 embeddings of runs/bpe/step-00000010>\n"
