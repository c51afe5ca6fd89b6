"""Which model is asked, and what is checked when it is opened."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import WORD_COUNTS, Result, Written, bpe_counts, bpe_tokenizer, word_tokenizer, write_run

from sgns_cli import run_folder
from sgns_cli.errors import SgnsError
from sgns_cli.files import read_json, write_json
from sgns_cli.tensors import whole, write_tensors
from sgns_cli.vectors.opening import open_model, resolve_model


def test_a_run_opens_as_what_was_written(learned_run: Written) -> None:
    model = open_model(learned_run.path)
    assert model.path == learned_run.step
    assert np.array_equal(model.embeddings, learned_run.embeddings)
    assert np.array_equal(model.rows(np.array([2, 2]), "context"), learned_run.contexts[[2, 2]])
    assert np.array_equal(model.rows(np.array([1]), "sum"), (learned_run.embeddings + learned_run.contexts)[[1]])
    assert model.position_rows is not None
    assert np.array_equal(model.position_rows, learned_run.positions)
    assert model.trained.tolist() == [True] * 8 + [False]
    assert (model.n_vocab, model.dim, model.context_length) == (9, 8, 16)


def test_embeddings_are_mapped_not_read(word_run: Written) -> None:
    assert isinstance(open_model(word_run.path).embeddings, np.memmap)


def test_special_tokens_are_not_trained_whatever_their_count(bpe_run: Written) -> None:
    model = open_model(bpe_run.path)
    assert model.counts[-1] == 1000
    assert not model.trained[-1]


def test_a_step_of_a_run_can_be_named(tmp_path: Path) -> None:
    for step in (9, 100_000_000):
        write_run(tmp_path / "run", word_tokenizer(), np.array(WORD_COUNTS), step=step)
    assert open_model(tmp_path / "run").path.name == "step-100000000"
    assert open_model(tmp_path / "run" / "step-00000009").path.name == "step-00000009"


def test_the_run_written_last_is_asked(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    for name in ("a", "b", ".hidden"):
        write_run(runs / name, word_tokenizer(), np.array(WORD_COUNTS))
    (runs / "empty").mkdir()
    for name, seconds in (("a", 2000), ("b", 1000), (".hidden", 3000)):
        os.utime(runs / name / "step-00000010" / run_folder.STATE, (seconds, seconds))
    step, note = resolve_model(None, environment={}, runs=runs)
    assert step == runs / "a" / "step-00000010"
    assert str(step) in note
    step, note = resolve_model(None, environment={"SGNS_MODEL": str(runs / "b")}, runs=runs)
    assert step == runs / "b" / "step-00000010"
    assert "SGNS_MODEL" in note
    assert resolve_model(runs / "b", environment={"SGNS_MODEL": "nowhere"}, runs=runs) == (step, "")


def test_no_model_at_all(tmp_path: Path) -> None:
    with pytest.raises(SgnsError, match="no model is named"):
        resolve_model(None, environment={}, runs=tmp_path / "runs")
    with pytest.raises(SgnsError, match="there is no run at"):
        resolve_model(tmp_path / "no", environment={})
    with pytest.raises(SgnsError, match="no run folder"):
        resolve_model(tmp_path, environment={})


def broken_state(run: Written) -> None:
    state = read_json(run.step / run_folder.STATE)
    del state["min_count"]
    write_json(run.step / run_folder.STATE, state)


def odd_positions(run: Written) -> None:
    state = read_json(run.step / run_folder.STATE)
    write_json(run.step / run_folder.STATE, state | {"positions": "rotary"})


def newer_format(run: Written) -> None:
    write_json(run.step / run_folder.STATE, {"format_version": 99})


def short_file(run: Written) -> None:
    path = run.step / run_folder.MODEL
    path.write_bytes(path.read_bytes()[:-1])


def other_shape(run: Written) -> None:
    tensors = {"contexts": whole(run.contexts[:3]), "counts": whole(run.counts.astype(np.int64))}
    write_tensors(run.step / run_folder.TRAINING, tensors)


def fewer_counts(run: Written) -> None:
    tensors = {"contexts": whole(run.contexts), "counts": whole(run.counts[:3].astype(np.int64))}
    write_tensors(run.step / run_folder.TRAINING, tensors)


def no_positions(run: Written) -> None:
    write_tensors(run.step / run_folder.MODEL, {"embeddings": whole(run.embeddings)})


def no_training_file(run: Written) -> None:
    (run.step / run_folder.TRAINING).unlink()


@pytest.mark.parametrize(
    "damage",
    [broken_state, odd_positions, newer_format, short_file, other_shape, fewer_counts, no_positions, no_training_file],
)
def test_a_damaged_run_is_refused(learned_run: Written, damage) -> None:
    damage(learned_run)
    with pytest.raises(SgnsError) as caught:
        open_model(learned_run.path)
    assert str(learned_run.step) in caught.value.message
    assert caught.value.hint


def test_a_bpe_run_loads_its_tokenizer(bpe_run: Written) -> None:
    model = open_model(bpe_run.path)
    assert model.tokenizer.fingerprint == bpe_tokenizer().fingerprint
    assert np.array_equal(model.counts, bpe_counts())


def test_folders_that_are_no_run_say_what_they_are(tmp_path: Path, word_run: Written) -> None:
    with pytest.raises(SgnsError, match="has some in it"):
        resolve_model(word_run.path.parent, environment={})
    (tmp_path / "llm").mkdir()
    (tmp_path / "llm" / "model.safetensors").touch()
    with pytest.raises(SgnsError) as raised:
        resolve_model(tmp_path / "llm", environment={})
    assert "model.safetensors --tensor NAME" in raised.value.hint


@pytest.mark.parametrize(
    ("command", "names"),
    [
        (["export", "--format", "glove"], ["model.safetensors", "vectors.txt"]),
        (["embed", "dog"], ["model.safetensors", "x.npy"]),
        (["plot", "dog"], ["map.html"]),
    ],
)
def test_nothing_is_written_into_a_run(
    sgns: Callable[..., Result], word_run: Written, command: list[str], names: list[str]
) -> None:
    for folder in (word_run.step, word_run.path):
        before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
        for name in names:
            result = sgns(*command, "-o", folder / name, "--model", word_run.path)
            assert (result.code, "lies in the run folder" in result.err) == (2, True)
        assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before
    assert sgns(*command, "-o", "", "--model", word_run.path).code == 2
