"""A run on disk: its folder, its steps, resuming, replacing, starting from another."""

import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from safetensors.numpy import load_file

from sgns_cli import run_folder
from sgns_cli.config_file import load_config
from sgns_cli.corpus.token_cache import cached_token_folder
from sgns_cli.errors import SgnsError
from sgns_cli.files import write_json
from sgns_cli.training import setup
from sgns_cli.training.run import prepare_run
from sgns_cli.training.start import Request

TEXT = [
    f"{animal} {verb} the {place}"
    for animal in ("cat", "dog", "fox")
    for verb in ("saw", "left")
    for place in ("barn", "hill")
]


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Make a run ready from overrides: start("model.dim=8", resume=True)."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "corpus.txt").write_text("\n".join(TEXT * 40) + "\nrare words here\n", encoding="utf-8")
    (tmp_path / "config.yaml").write_text(
        "data: {sources: [corpus.txt]}\n"
        "tokenizer: {encoding: whitespace}\n"
        "model: {dim: 12, min_count: 3, subsample_threshold: 0, context_length: 8}\n"
        "train: {epochs: 3}\n"
        "run: {directory: runs/one, log_seconds: 0.001}\n",
        encoding="utf-8",
    )

    def ready(*overrides, threads=1, **options):
        config = load_config(tmp_path / "config.yaml", list(overrides))
        store = cached_token_folder(config.data, config.tokenizer, tmp_path / "runs/.tokens")
        return prepare_run(config, store, request=Request(**options), device="cpu", threads=threads)

    return ready


def finish(training, *, stop_after=None):
    calls = iter(range(10**9))
    records = list(training.progress(lambda: stop_after is not None and next(calls) >= stop_after))
    return training, records


def model_of(training):
    return load_file(training.checkpoint / run_folder.MODEL)


def test_a_run_folder_holds_what_the_contract_says(start):
    training, records = finish(start("model.positions=learned"))
    assert training.complete
    run = training.folder
    assert sorted(path.name for path in run.iterdir()) == [
        "config.yaml",
        "metrics.jsonl",
        training.checkpoint.name,
        "tokenizer",
    ]
    assert sorted(path.name for path in training.checkpoint.iterdir()) == [
        "model.safetensors",
        "state.json",
        "training.safetensors",
    ]
    words = [word for line in [*TEXT * 40, "rare words here"] for word in line.split()]
    counts = load_file(training.checkpoint / run_folder.TRAINING)["counts"]
    assert counts.tolist() == sorted([words.count(word) for word in set(words)], reverse=True)
    model = model_of(training)
    assert model["embeddings"].shape == (len(counts), 12)
    assert model["positions"].shape == (8, 12)
    trained = np.abs(model["embeddings"]).max(axis=1) > 0
    assert (trained == (counts >= 3)).all()
    assert 0 < trained.sum() < len(counts)
    state = run_folder.read_state(training.checkpoint)
    assert (state["step"], state["epoch"], state["position"]) == (records[-1].step, 3, 0)
    assert state["tokens_seen"] == state["tokens_total"] == 3 * training.problem.epoch_tokens
    lines = (run / run_folder.METRICS).read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [record.step for record in records]
    assert load_config(run / run_folder.CONFIG, []) == training.config


def test_the_same_config_gives_the_same_bytes_and_another_seed_others(start):
    models = [
        (finish(start("run.directory=runs/a"))[0].checkpoint / run_folder.MODEL).read_bytes(),
        (finish(start("run.directory=runs/b"))[0].checkpoint / run_folder.MODEL).read_bytes(),
        (finish(start("run.directory=runs/c", "train.seed=2"))[0].checkpoint / run_folder.MODEL).read_bytes(),
    ]
    assert models[0] == models[1] != models[2]


@pytest.mark.parametrize("positions", ["none", "learned"])
def test_a_resumed_run_ends_with_the_same_bytes(start, positions):
    keys = (f"model.positions={positions}", "train.epochs=40")
    whole, _ = finish(start(*keys, "run.directory=runs/whole"))
    halted, _ = finish(start(*keys), stop_after=2)
    assert not halted.complete
    resumed, _ = finish(start(*keys, resume=True))
    assert resumed.start.step == halted.last.step
    assert resumed.complete
    for name in (run_folder.MODEL, run_folder.TRAINING):
        assert (resumed.checkpoint / name).read_bytes() == (whole.checkpoint / name).read_bytes()
    steps = [json.loads(line)["step"] for line in (resumed.folder / run_folder.METRICS).read_text().splitlines()]
    assert steps == sorted(steps)


def test_training_is_deterministic_whatever_the_config_says(start):
    steady, _ = finish(start("run.directory=runs/a"))
    other, _ = finish(start("run.directory=runs/b", "train.deterministic=false", threads=2))
    assert (other.checkpoint / run_folder.MODEL).read_bytes() == (steady.checkpoint / run_folder.MODEL).read_bytes()
    assert any("always deterministic" in note for note in other.notes)
    assert not any("always deterministic" in note for note in steady.notes)


def test_metrics_after_the_step_resumed_from_are_dropped(start):
    halted, _ = finish(start("train.epochs=40"), stop_after=2)
    metrics = halted.folder / run_folder.METRICS
    with metrics.open("a") as file:
        file.write(json.dumps({"step": 10**6, "loss": 1.0}) + '\n{"step": 10')
    finish(start("train.epochs=40", resume=True))
    steps = [json.loads(line)["step"] for line in metrics.read_text().splitlines()]
    assert max(steps) < 10**6


def test_what_changes_the_experiment_cannot_be_resumed(start, tmp_path):
    finish(start(), stop_after=1)
    with pytest.raises(SgnsError, match=r"model\.window is 4 now and was 5"):
        start("model.window=4", resume=True)
    with pytest.raises(SgnsError, match=r"train\.seed"):
        start("train.seed=7", resume=True)
    with pytest.raises(SgnsError, match=r"train\.epochs is 2"):
        start("train.epochs=2", resume=True)
    (tmp_path / "corpus.txt").write_text("\n".join(TEXT * 50), encoding="utf-8")
    with pytest.raises(SgnsError, match="the corpus is not the one"):
        start(resume=True)


def test_more_epochs_may_follow(start):
    first, _ = finish(start())
    more = start("train.epochs=6", resume=True)
    assert any("train.epochs grew from 3 to 6" in note for note in more.notes)
    _, records = finish(more)
    assert more.start.step == first.last.step
    assert records[-1].step == 2 * first.last.step


def test_a_complete_run_has_nothing_to_resume(start):
    first, _ = finish(start())
    files = {path: path.read_bytes() for path in first.folder.rglob("*") if path.is_file()}
    again, records = finish(start(resume=True))
    assert any("nothing is left to train" in note for note in again.notes)
    assert records == []
    assert again.complete
    assert again.last == first.last
    assert again.checkpoint == first.checkpoint
    assert {path: path.read_bytes() for path in first.folder.rglob("*") if path.is_file()} == files


def test_a_folder_with_something_in_it_is_refused(start, tmp_path):
    finish(start())
    with pytest.raises(SgnsError, match="not empty") as caught:
        start()
    assert "--resume" in caught.value.hint
    assert "--overwrite" in caught.value.hint
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "dear.txt").write_text("keep me")
    with pytest.raises(SgnsError, match="no run folder"):
        start("run.directory=letters", overwrite=True)
    assert (tmp_path / "letters" / "dear.txt").read_text() == "keep me"


@pytest.mark.parametrize("options", [{}, {"resume": True}, {"overwrite": True}])
def test_a_folder_with_a_config_and_a_text_is_no_run(start, tmp_path, options):
    """`sgns init` writes config.yaml too: a project's own folder must survive whatever is asked."""
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "config.yaml").write_text((tmp_path / "config.yaml").read_text())
    (tmp_path / "project" / "book.txt").write_text("keep me")
    with pytest.raises(SgnsError, match="no run folder"):
        start("run.directory=project", **options)
    assert (tmp_path / "project" / "book.txt").read_text() == "keep me"


def test_a_run_that_fails_before_its_first_step_leaves_nothing_of_its_own(start, tmp_path, monkeypatch):
    def full(*arguments, **options):
        raise SgnsError("no space", "free some")

    monkeypatch.setattr("sgns_cli.training.run.save_step", full)
    with pytest.raises(SgnsError, match="no space"):
        finish(start())
    assert not (tmp_path / "runs/one").exists()
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    old, _ = finish(start())
    before = sorted(path.name for path in old.folder.iterdir())
    monkeypatch.setattr("sgns_cli.training.run.save_step", full)
    with pytest.raises(SgnsError, match="no space"):
        finish(start(overwrite=True))
    assert sorted(path.name for path in old.folder.iterdir()) == before


def test_a_resume_that_is_stopped_at_once_changes_nothing(start):
    halted, _ = finish(start("train.epochs=40"), stop_after=2)
    state = (halted.checkpoint / run_folder.STATE).read_text()
    lines = (halted.folder / run_folder.METRICS).read_text()
    again, records = finish(start("train.epochs=40", resume=True), stop_after=0)
    assert records == []
    assert not again.complete
    assert again.last == halted.last
    assert (halted.checkpoint / run_folder.STATE).read_text() == state
    assert (halted.folder / run_folder.METRICS).read_text() == lines


def test_a_run_stopped_before_its_first_round_again_and_again_reports_that_once(start):
    for options in ({}, {"resume": True}, {"resume": True}):
        halted, _ = finish(start(**options), stop_after=0)
    finish(start(resume=True))
    steps = [json.loads(line)["step"] for line in (halted.folder / run_folder.METRICS).read_text().splitlines()]
    assert steps == sorted(set(steps))
    assert steps[0] == 0


def test_threads_that_cannot_be_started_are_an_error_that_says_so(start, monkeypatch):
    def submit(*arguments):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(ThreadPoolExecutor, "submit", submit)
        with pytest.raises(SgnsError, match="cannot start 3 threads") as caught:
            finish(start(threads=3))
    assert "--threads 1" in caught.value.hint
    finish(start(threads=3))  # nothing was left in the way


def test_notes_of_compiling_and_of_threads_without_work(start, monkeypatch):
    monkeypatch.setattr(setup, "must_compile", lambda device: True)
    notes = start(threads=40).notes
    assert "compiling the kernel for this processor, once: some ten seconds, for which Ctrl-C waits" in notes
    assert "training uses 32 of 40 threads: a round has no work for more" in notes
    monkeypatch.setattr(setup, "is_kept", lambda: False)
    assert any("in each run, as no cache folder can be written to" in note for note in start("run.directory=r").notes)


def test_a_second_training_is_refused_while_the_first_one_lives(start):
    first = start()
    with pytest.raises(SgnsError, match="another process is writing"):
        start(resume=True)
    finish(first)
    finish(start(resume=True))


def test_a_place_that_cannot_be_written_to_is_not_taken_for_a_running_training(start, monkeypatch):
    def refuse(path, *arguments, **options):
        raise PermissionError(13, "Permission denied", str(path))

    start("run.directory=runs/first")  # its tokens are kept for the next
    monkeypatch.setattr("pathlib.Path.touch", refuse)
    monkeypatch.setattr("pathlib.Path.mkdir", refuse)
    with pytest.raises(SgnsError, match="cannot write runs/second: Permission denied"):
        start("run.directory=runs/second")


def test_a_run_goes_on_with_rounds_of_the_length_it_was_begun_with(start, monkeypatch):
    begun, _ = finish(start("train.epochs=40"), stop_after=2)
    monkeypatch.setattr(setup, "round_centres", lambda device: 500)  # as another device has it
    assert start("run.directory=runs/other").problem.span != begun.problem.span
    resumed = start("train.epochs=40", resume=True)
    assert resumed.problem.span == begun.problem.span
    finish(resumed)
    assert resumed.complete


def test_a_step_that_does_not_fit_its_rounds_is_not_resumed(start):
    training, _ = finish(start("train.epochs=40"), stop_after=2)
    state = run_folder.read_state(training.checkpoint)
    write_json(training.checkpoint / run_folder.STATE, {**state, "round_tokens": 100})
    with pytest.raises(SgnsError, match="rounds have another length"):
        start("train.epochs=40", resume=True)


def test_a_matrix_with_a_hole_is_not_saved(start):
    training = start("model.positions=learned")
    training.matrices["positions"][7, 3] = np.inf  # no document is that long: no loss tells of it
    with pytest.raises(SgnsError, match="positions hold a number that is not finite"):
        finish(training)
    assert run_folder.steps(training.folder) == []


def test_the_old_run_stays_until_the_new_one_has_a_step(start):
    old, _ = finish(start())
    model = old.checkpoint / run_folder.MODEL
    before = model.read_bytes()
    new = start("model.dim=5", overwrite=True)
    assert model.read_bytes() == before
    finish(new)
    assert new.folder == old.folder
    assert model_of(new)["embeddings"].shape[1] == 5
    assert load_config(new.folder / run_folder.CONFIG, []).model.dim == 5
    assert not list(new.folder.parent.glob(".*.incomplete"))


def test_only_the_newest_checkpoints_are_kept(start):
    training, records = finish(start("train.epochs=200", "run.checkpoint_minutes=1e-9", "run.keep_checkpoints=3"))
    steps = [run_folder.step_number(step) for step in run_folder.steps(training.folder)]
    assert steps == [record.step for record in records[-3:]]


def test_no_epochs_writes_the_untrained_matrices(start):
    training, _ = finish(start("train.epochs=0"))
    assert training.checkpoint.name == "step-00000000"
    embeddings = model_of(training)["embeddings"]
    assert 0 < np.abs(embeddings).max() <= 2 / 12
    assert not load_file(training.checkpoint / run_folder.TRAINING)["contexts"].any()


def test_a_run_can_start_from_the_vectors_of_another(start, tmp_path):
    first, _ = finish(start())
    text = TEXT * 30 + ["the cat saw the new moon", "new moon"] * 20
    (tmp_path / "corpus.txt").write_text("\n".join(text), encoding="utf-8")
    training, _ = finish(start("run.directory=runs/two", "train.epochs=0", init_from=first.folder))
    old, new = model_of(first)["embeddings"], model_of(training)["embeddings"]
    old_tokenizer, new_tokenizer = (run.folder / run_folder.TOKENIZER / "vocabulary.txt" for run in (first, training))
    old_words, new_words = (path.read_text().splitlines() for path in (old_tokenizer, new_tokenizer))
    for word in ("cat", "hill", "the"):
        assert (new[new_words.index(word)] == old[old_words.index(word)]).all()
    assert np.abs(new[new_words.index("moon")]).max() <= 2 / 12
    assert training.notes == [f"8 of 10 trained rows start from {first.checkpoint}, the others at random"]
    with pytest.raises(SgnsError, match="dim 12"):
        start("run.directory=runs/three", "model.dim=6", init_from=first.folder)


def test_damage_to_a_step_is_found_before_training_goes_on(start):
    halted, _ = finish(start("train.epochs=40"), stop_after=2)
    path = halted.checkpoint / run_folder.TRAINING
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(SgnsError, match=r"training\.safetensors is damaged"):
        start("train.epochs=40", resume=True)
