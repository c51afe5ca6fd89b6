"""Training from the command line, end to end: what is typed, and what must be on disk and on the screen after it."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from processes import SECONDS, forget_waiting, on_a_full_disk, signal_while_it_waits, waiting_behind
from safetensors.numpy import load_file

CONFIG = """\
data: {sources: [corpus.txt]}
tokenizer: {encoding: whitespace}
model: {dim: 8, min_count: 2, subsample_threshold: 1e-2, context_length: 7}
train: {epochs: 2}
"""
PROGRESS = [
    "step", "epoch", "tokens_seen", "tokens_total", "loss", "held_out_loss", "learning_rate", "tokens_per_second",
    "seconds", "device", "threads",
]  # fmt: skip
LAST = [
    "run", "checkpoint", "loss", "held_out_loss", "tokens_per_second", "train_seconds", "tokenize_seconds",
    "compile_seconds", "total_seconds", "device", "threads",
]  # fmt: skip
LETTERS = str.maketrans("0123456789", "abcdefghij")


def words(tokens: int = 3000, types: int = 60, line: int = 12, seed: int = 0) -> str:
    """Lines of words drawn by Zipf's law."""
    chances = 1 / np.arange(1, types + 1)
    drawn = np.random.default_rng(seed).choice(types, size=tokens, p=chances / chances.sum())
    names = [f"w{index:02d}" for index in drawn]
    return "".join(" ".join(names[start : start + line]) + "\n" for start in range(0, tokens, line))


@pytest.fixture
def here(tmp_path, sgns):
    """The working folder, with a corpus and a config that trains in a blink."""
    (tmp_path / "corpus.txt").write_text(words())
    (tmp_path / "c.yaml").write_text(CONFIG)
    return tmp_path


def step_of(run: Path) -> Path:
    return sorted(run.glob("step-*"), key=lambda step: int(step.name[5:]))[-1]


def tensors(run: Path) -> dict[str, np.ndarray]:
    step = step_of(run)
    return load_file(step / "model.safetensors") | load_file(step / "training.safetensors")


def arrays_of(run: Path) -> list[bytes]:
    return [(step_of(run) / name).read_bytes() for name in ("model.safetensors", "training.safetensors")]


def records(text: str) -> list[dict]:
    return [json.loads(line) for line in text.splitlines()]


def state(run: Path) -> dict:
    return json.loads((step_of(run) / "state.json").read_text())


def fails(result, code: int, *texts: str) -> None:
    """A failure is two lines on stderr, what and what to do, and nothing on stdout."""
    assert result.code == code, result
    assert result.out == ""
    lines = [line for line in result.err.splitlines() if line.startswith(("error: ", "hint: "))]
    assert [line.split(":")[0] for line in lines] == ["error", "hint"], result.err
    assert "Traceback" not in result.err
    for text in texts:
        assert text in result.err


# ------------------------------------------------------------------ a run and its files


def test_what_a_run_leaves_on_disk(sgns, here):
    with (here / "corpus.txt").open("a") as file:
        file.write("once\n")
    result = sgns("train", "c.yaml")
    assert (result.code, result.out) == (0, "")
    run = here / "runs" / "c"
    assert sorted(path.name for path in run.iterdir()) == [
        "config.yaml",
        "metrics.jsonl",
        step_of(run).name,
        "tokenizer",
    ]
    found, names = tensors(run), (run / "tokenizer" / "vocabulary.txt").read_text().split("\n")
    counts = {name: (here / "corpus.txt").read_text().split().count(name) for name in names if name}
    assert found["counts"].tolist() == list(counts.values()) == sorted(counts.values(), reverse=True)
    assert found["embeddings"].shape == found["contexts"].shape == (len(counts), 8)
    assert found["embeddings"].dtype == np.float32
    untrained = found["counts"] < 2
    assert untrained.any()
    assert not found["embeddings"][untrained].any()
    assert not found["contexts"][untrained].any()
    assert found["embeddings"][~untrained].any(axis=1).all()
    assert "positions" not in found
    saved = state(run)
    assert saved["tokens_seen"] == saved["tokens_total"] == 2 * (3001 - 12 - 1)  # 2 of 251 lines are held out
    assert step_of(run).name == f"step-{saved['step']:08d}"


def test_records_of_json(sgns, here):
    result = sgns("train", "c.yaml", "--json", "--device", "cpu", "--threads", 2)
    *reports, last = records(result.out)
    assert all(sorted(report) == sorted(PROGRESS) for report in reports)
    assert sorted(last) == sorted(LAST)
    assert reports == records((here / "runs" / "c" / "metrics.jsonl").read_text())
    report = reports[-1]
    assert (report["epoch"], report["device"], report["threads"]) == (2, "cpu", 2)
    assert report["tokens_seen"] == report["tokens_total"] == 5952
    assert report["tokens_per_second"] == pytest.approx(5952 / report["seconds"])
    assert report["learning_rate"] == pytest.approx(1e-4)
    assert 0 < report["loss"] < 6 * np.log(2)
    assert (last["run"], last["checkpoint"]) == ("runs/c", f"runs/c/step-{report['step']:08d}")
    assert (last["loss"], last["held_out_loss"]) == (report["loss"], report["held_out_loss"])
    assert last["train_seconds"] + last["compile_seconds"] + last["tokenize_seconds"] <= last["total_seconds"]
    assert state(here / "runs" / "c")["metrics"] == {
        key: report[key] for key in ("loss", "held_out_loss", "tokens_per_second", "seconds")
    }


def test_quiet_says_nothing(sgns, here):
    result = sgns("train", "-q", "c.yaml")
    assert (result.code, result.out, result.err) == (0, "", "")


def test_no_epochs_writes_what_training_would_start_from(sgns, here):
    assert sgns("train", "c.yaml", "--set", "train.epochs=0", "--set", "model.positions=learned").code == 0
    run = here / "runs" / "c"
    assert step_of(run).name == "step-00000000"
    found = tensors(run)
    trained = found["embeddings"][found["counts"] >= 2]
    assert not found["contexts"].any()
    assert found["positions"].shape == (7, 8)
    for table in (trained, found["positions"]):  # uniform in +-2/dim
        assert np.abs(table).max() <= 2 / 8
        assert table.std() == pytest.approx(4 / 8 / np.sqrt(12), rel=0.15)
    assert state(run)["tokens_seen"] == 0


def test_the_same_bytes_again_and_other_bytes_for_another_seed(sgns, here):
    threads = {name: ["--threads", count] for name, count in {"one": 1, "two": 2, "three": 3, "eight": 8}.items()}
    bytes_of = {}
    for name, more in {**threads, "again": [], "other": ["--set", "train.seed=2"]}.items():
        assert sgns("train", "c.yaml", "-o", f"runs/{name}", *more).code == 0
        bytes_of[name] = (step_of(here / "runs" / name) / "model.safetensors").read_bytes()
    other = bytes_of.pop("other")
    assert len(set(bytes_of.values())) == 1
    assert other != bytes_of["one"]


def test_the_command_that_it_prints_finds_the_run(sgns, here):
    (here / "corpus.txt").write_text(words().translate(LETTERS).replace("w", "word"))
    for folder in ("runs/plain", "it's here/ö run", "runs/nested/run"):
        result = sgns("train", "c.yaml", "-o", folder)
        command = shlex.split(result.err.splitlines()[-1].removeprefix("note: ask it: "))
        assert command[:2] == ["sgns", "neighbors"]
        answer = sgns(*command[1:], "--json", "-k", 3)
        assert answer.code == 0, answer
        found = tensors(here / folder)
        unit = found["embeddings"] / np.maximum(np.linalg.norm(found["embeddings"], axis=1, keepdims=True), 1e-30)
        for row in records(answer.out):
            assert row["score"] == pytest.approx(unit[row["query_ids"][0]] @ unit[row["id"]], abs=2e-6)


@pytest.mark.parametrize("letters", ["0123456789", "abcdefghij", "жзийклмноп"], ids=["ids", "short", "cyrillic"])
def test_the_command_that_it_prints_works_for_any_tokens(sgns, here, letters):
    (here / "corpus.txt").write_text(words().translate(str.maketrans("0123456789", letters)))
    result = sgns("train", "c.yaml")
    command = shlex.split(result.err.splitlines()[-1].removeprefix("note: ask it: "))
    assert sgns(*command[1:]).code == 0


def test_the_command_that_it_prints_finds_the_run_whatever_the_environment_names(sgns, here, monkeypatch):
    assert sgns("train", "c.yaml", "-o", "runs/old").code == 0
    monkeypatch.setenv("SGNS_MODEL", "runs/old")
    result = sgns("train", "c.yaml", "-o", "runs/new")
    command = shlex.split(result.err.splitlines()[-1].removeprefix("note: ask it: "))
    assert command[-2:] == ["--model", "runs/new"]


@pytest.mark.parametrize("positions", ["learned", "sinusoidal"])
def test_embed_is_a_lookup_plus_positions(sgns, here, positions):
    dim = 8
    assert sgns("train", "c.yaml", "--set", f"model.positions={positions}").code == 0
    found = tensors(here / "runs" / "c")
    text = "w00 w01 w00 w02 w03 w04 w05 w00 w01"  # two more than context_length
    rows = records(sgns("embed", text, "--json").out)
    if positions == "learned":
        table = found["positions"]
    else:
        angles = np.arange(7)[:, None] / 10_000 ** (2 * (np.arange(dim) // 2) / dim)
        table = np.where(np.arange(dim) % 2 == 0, np.sin(angles), np.cos(angles))
    assert [row["position"] for row in rows] == list(range(9))
    for row in rows:
        expected = found["embeddings"][row["id"]] + table[row["position"] % 7]
        assert row["vector"] == pytest.approx(expected, abs=1e-6)
    assert sgns("embed", text, "-o", "x.npy", "--context-length", 4, "--stride", 4).code == 0
    array, mask = np.load(here / "x.npy"), np.load(here / "x.mask.npy")
    assert array.shape == (3, 4, dim)
    assert mask.sum(axis=1).tolist() == [4, 4, 1]
    assert not array[~mask].any()
    assert array[2, 0] == pytest.approx(found["embeddings"][rows[8]["id"]] + table[0], abs=1e-6)


def test_corpora_of_next_to_nothing(sgns, here):
    for text in ("a\n", "a a a a a a a a\n", "a b\n", "a\nb\nc\nd\n", "a b c\n" * 3):
        (here / "corpus.txt").write_text(text)
        result = sgns(
            "train", "c.yaml", "--json", "--overwrite", "--set", "model.min_count=1", "--set", "model.window=9"
        )
        assert result.code == 0, result
        found = tensors(here / "runs" / "c")
        assert np.isfinite(found["embeddings"]).all()
        assert found["counts"].sum() == len(text.split())


@pytest.mark.parametrize(
    "settings", [["model.dim=1"], ["model.window=1", "model.negatives=1"], ["model.negatives=50", "model.window=40"]]
)
def test_extremes_of_the_model(sgns, here, settings):
    result = sgns("train", "c.yaml", *[part for setting in settings for part in ("--set", setting)], "--json")
    assert result.code == 0
    negatives = dict(setting.split("=") for setting in settings).get("model.negatives", 5)
    assert 0 < records(result.out)[-1]["loss"] < (int(negatives) + 1) * np.log(2)


def test_paths_are_relative_to_the_working_directory(sgns, here, monkeypatch):
    (here / "elsewhere").mkdir()
    monkeypatch.chdir(here / "elsewhere")
    fails(sgns("train", "../c.yaml"), 1, "corpus.txt does not exist")
    monkeypatch.chdir(here / "elsewhere")
    (here / "elsewhere" / "corpus.txt").write_text(words(seed=1))
    assert sgns("train", "../c.yaml").code == 0
    assert (here / "elsewhere" / "runs" / "c" / "config.yaml").is_file()
    assert not (here / "runs").exists()


# ------------------------------------------------------------------ token folders


def test_a_token_folder_is_a_source(sgns, here):
    assert sgns("tokenize", "corpus.txt", "-o", "tokens", "--encoding", "whitespace").code == 0
    (here / "t.yaml").write_text(
        CONFIG.replace("corpus.txt", "tokens").replace("tokenizer: {encoding: whitespace}\n", "")
    )
    assert sgns("train", "t.yaml").code == 0
    assert sgns("train", "c.yaml").code == 0
    assert arrays_of(here / "runs/t") == arrays_of(here / "runs/c")
    fails(sgns("train", "t.yaml", "-o", "x", "--set", "tokenizer.encoding=cl100k_base"), 2, "tokenizer")
    fails(sgns("train", "t.yaml", "-o", "x", "--set", "data.sources=[tokens, corpus.txt]"), 1, "tokens")
    damaged = bytearray((here / "tokens" / "tokens.bin").read_bytes())
    damaged[10] ^= 1
    (here / "tokens" / "tokens.bin").write_bytes(damaged)
    fails(sgns("train", "t.yaml", "-o", "x"), 1, "tokens is damaged: tokens.bin")
    assert not (here / "x").exists()


def test_tokens_are_kept_until_the_source_changes(sgns, here):
    def seconds(*more):
        result = sgns("train", "c.yaml", "--overwrite", *more)
        assert result.code == 0
        return "tokenizing 100%" in result.err

    cache = here / "runs" / ".tokens"
    assert seconds()
    assert not seconds("--set", "model.dim=4")
    assert len(list(cache.iterdir())) == 1
    assert seconds("--set", "data.lowercase=true")
    with (here / "corpus.txt").open("a") as file:
        file.write("something new\n")
    assert seconds()


def test_lower_case_goes_with_the_run(sgns, here):
    (here / "corpus.txt").write_text(words().upper())
    assert sgns("train", "c.yaml", "--set", "data.lowercase=true").code == 0
    result = sgns("neighbors", "W00", "--json", "-k", 1)
    assert records(result.out)[0]["query_ids"] == [0]


def test_lower_case_goes_with_a_token_folder(sgns, here):
    assert sgns("tokenize", "corpus.txt", "-o", "tokens", "--encoding", "whitespace", "--lowercase").code == 0
    (here / "t.yaml").write_text("data: {sources: [tokens]}\nmodel: {dim: 8, min_count: 2}\ntrain: {epochs: 1}\n")
    assert sgns("train", "t.yaml").code == 0
    result = sgns("neighbors", "W00", "--json", "-k", 1)
    assert records(result.out)[0]["query_ids"] == [0]


def test_a_vocabulary_smaller_than_asked_is_noted(sgns, here):
    settings = ["--set", "tokenizer={train: {vocab_size: 60000}}"]
    (here / "c.yaml").write_text(CONFIG.replace("tokenizer: {encoding: whitespace}\n", ""))
    result = sgns("train", "c.yaml", *settings, "--set", "model.min_count=1", "--set", "train.epochs=1")
    assert result.code == 0
    assert tensors(here / "runs" / "c")["embeddings"].shape[0] < 60000
    assert "note: 60000 tokens were asked for" in result.err


def test_a_training_without_a_pair_is_noted(sgns, here):
    (here / "corpus.txt").write_text("a\nb\nc\nd\n")
    result = sgns("train", "c.yaml", "--set", "model.min_count=1")
    assert "pair" in result.err


# ------------------------------------------------------------------ interrupted, killed, resumed

LONG = ["--json", "--set", "run.log_seconds=1e-6", "--set", "train.epochs=300"]


def start(folder: Path, *arguments: str, waits: str = "append_metrics") -> subprocess.Popen:
    """Start `sgns`, whose training waits behind a function: its first report, or its first step."""
    forget_waiting(folder)
    environment = {key: value for key, value in os.environ.items() if not key.startswith("SGNS_")}
    return subprocess.Popen(
        [sys.executable, "-c", waiting_behind(waits), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={**environment, "PYTHONPATH": str(Path(__file__).parents[1]), "TERM": "dumb"},
    )


def interrupt(folder: Path, process: subprocess.Popen, number: int) -> tuple[list[dict], str, int]:
    """Send the signal while it waits, and see what it said."""
    signal_while_it_waits(folder, process, number)
    out, err = process.communicate(timeout=SECONDS)
    return records(out), err, process.returncode


@pytest.mark.parametrize(
    ("kind", "positions"), [("SIGINT", "none"), ("SIGTERM", "learned"), ("SIGKILL", "learned")], ids=lambda value: value
)
def test_an_interrupted_run_resumed_is_the_undisturbed_one(sgns, here, kind, positions):
    """Also where each part of it and the undisturbed one have other numbers of threads."""
    run = here / "runs" / "c"
    options = [*LONG, "--set", f"model.positions={positions}"]
    often = ["--set", "run.checkpoint_minutes=1e-6"] if kind == "SIGKILL" else []
    waits = "save_step" if kind == "SIGKILL" else "append_metrics"
    process = start(here, "train", "c.yaml", *options, *often, "--threads", "3", waits=waits)
    seen, err, code = interrupt(here, process, getattr(signal, kind))
    stopped = state(run)
    assert 0 < stopped["tokens_seen"] < stopped["tokens_total"]
    if kind == "SIGKILL":
        assert code == -signal.SIGKILL
    else:
        assert code == 130
        assert f"saved at step {stopped['step']:,}" in err
        assert sorted(seen[-1]) == sorted(LAST)
        assert seen[-1]["checkpoint"] == f"runs/c/{step_of(run).name}"
        assert len(list(run.glob("step-*"))) == 1
    assert "Traceback" not in err

    result = sgns("train", "c.yaml", *options, "--resume", "--threads", 1)
    assert result.code == 0
    assert f"resuming runs/c at step {stopped['step']:,}" in result.err
    log = records((run / "metrics.jsonl").read_text())
    steps = [record["step"] for record in log]
    assert steps == sorted(set(steps))  # nothing twice
    rates = [record["learning_rate"] for record in log]
    assert rates == sorted(rates, reverse=True)
    assert log[-1]["tokens_seen"] == log[-1]["tokens_total"]
    for record in log:
        share = record["tokens_seen"] / record["tokens_total"]
        assert record["learning_rate"] == pytest.approx(max(1e-4, 0.025 * (1 - share)), abs=0.025 * 2 / 300)

    assert sgns("train", "c.yaml", *options, "-o", "runs/undisturbed", "--threads", 2).code == 0
    assert arrays_of(run) == arrays_of(here / "runs" / "undisturbed")
    assert not list((here / "runs").glob(".*incomplete*"))


def test_checkpoints_by_the_clock_and_only_the_newest_kept(sgns, here):
    often = ["--set", "run.checkpoint_minutes=0.0005", "--set", "run.keep_checkpoints=3", "--set", "train.epochs=200"]
    assert sgns("train", "c.yaml", "--json", *often).code == 0
    run = here / "runs" / "c"
    steps = sorted(int(path.name[5:]) for path in run.glob("step-*"))
    assert 1 < len(steps) <= 3
    assert steps[-1] == records((run / "metrics.jsonl").read_text())[-1]["step"]
    for step in run.glob("step-*"):
        assert sgns("neighbors", "w00", "--model", step, "-k", 1).code == 0


def test_overwrite_keeps_the_old_run_until_the_new_one_has_a_step(sgns, here):
    assert sgns("train", "c.yaml").code == 0
    run = here / "runs" / "c"
    before = arrays_of(run)
    process = start(here, "train", "c.yaml", "--overwrite", "--set", "train.seed=2", *LONG)
    interrupt(here, process, signal.SIGKILL)
    assert arrays_of(run) == before
    assert sgns("neighbors", "w00", "-k", 1).code == 0
    process = start(here, "train", "c.yaml", "--overwrite", "--set", "train.seed=2", *LONG)
    assert interrupt(here, process, signal.SIGINT)[2] == 130
    assert arrays_of(run) != before
    assert state(run)["seed"] == 2
    assert len(list(run.glob("step-*"))) == 1
    assert not list((here / "runs").glob(".*incomplete*"))


def test_overwrite_deletes_nothing_that_is_no_run(sgns, here):
    (here / "mine").mkdir()
    (here / "mine" / "thesis.txt").write_text("years of work")
    fails(sgns("train", "c.yaml", "-o", "mine", "--overwrite"), 1, "mine")
    fails(sgns("train", "c.yaml", "-o", ".", "--overwrite"), 1)
    assert (here / "mine" / "thesis.txt").read_text() == "years of work"
    assert (here / "c.yaml").exists()


def test_signal_handlers_are_put_back(sgns, here):
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    assert sgns("train", "c.yaml").code == 0
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_what_cannot_be_resumed(sgns, here):
    assert sgns("train", "c.yaml").code == 0
    before = arrays_of(here / "runs" / "c")
    for setting in ("model.dim=9", "model.window=4", "train.seed=2", "train.learning_rate=0.05", "train.epochs=1"):
        fails(sgns("train", "c.yaml", "--resume", "--set", setting), 1, setting.split("=")[0])
    with (here / "corpus.txt").open("a") as file:
        file.write("something new\n")
    fails(sgns("train", "c.yaml", "--resume"), 1, "corpus")
    assert arrays_of(here / "runs" / "c") == before


def test_a_changed_data_key_is_named_when_resuming(sgns, here):
    assert sgns("train", "c.yaml").code == 0
    fails(sgns("train", "c.yaml", "--resume", "--set", "data.lowercase=true"), 1, "data.lowercase")


def test_more_epochs_go_on(sgns, here):
    assert sgns("train", "c.yaml").code == 0
    result = sgns("train", "c.yaml", "--resume", "--set", "train.epochs=3")
    assert result.code == 0
    assert "train.epochs grew from 2 to 3" in result.err
    assert state(here / "runs" / "c")["tokens_seen"] == 3 * 2976


def test_a_complete_run_resumed_is_left_as_it_was(sgns, here):
    assert sgns("train", "c.yaml").code == 0
    run = here / "runs" / "c"
    before = arrays_of(run)
    result = sgns("train", "c.yaml", "--resume")
    assert result.code == 0
    assert "is complete" in result.err
    assert arrays_of(run) == before


def test_a_complete_run_resumed_keeps_its_loss(sgns, here):
    assert sgns("train", "c.yaml").code == 0
    run = here / "runs" / "c"
    before = (state(run)["metrics"], (run / "metrics.jsonl").read_text())
    assert sgns("train", "c.yaml", "--resume").code == 0
    assert (state(run)["metrics"], (run / "metrics.jsonl").read_text()) == before


def test_two_trainings_do_not_share_a_run_folder(sgns, here):
    process = start(here, "train", "c.yaml", *LONG)
    signal_while_it_waits(here, process, signal.SIGSTOP)
    try:
        for more in (["--resume"], ["--overwrite"], []):
            fails(sgns("train", "c.yaml", *LONG, *more), 1, "runs/c")
        fails(sgns("train", "c.yaml", *LONG, "--resume"), 1, "another process is writing runs/c")
        assert [path.name for path in (here / "runs").iterdir() if path.name[0] != "."] == ["c"]
    finally:
        process.kill()
        process.communicate()
    assert sgns("train", "c.yaml", *LONG, "--resume").code == 0  # it is dead


def test_a_reader_that_goes_loses_no_training(here):
    with start(here, "train", "c.yaml", *LONG) as process:
        (here / "go-on").touch()
        process.stdout.readline()
        process.stdout.close()
        process.stderr.read()
    assert list((here / "runs" / "c").glob("step-*"))


# ------------------------------------------------------------------ starting from another run


def test_init_from_takes_the_matrices_of_shared_tokens(sgns, here):
    assert sgns("train", "c.yaml", "-o", "runs/old", "--set", "model.positions=learned").code == 0
    old = tensors(here / "runs" / "old")
    still = ["--init-from", "runs/old", "--set", "train.epochs=0"]
    assert sgns("train", "c.yaml", "-o", "runs/same", *still, "--set", "model.positions=learned").code == 0
    same = tensors(here / "runs" / "same")
    assert all(np.array_equal(old[name], same[name]) for name in ("embeddings", "contexts", "positions"))

    (here / "corpus.txt").write_text(words(types=40, seed=5) + "new words new words\n")
    result = sgns("train", "c.yaml", "-o", "runs/new", *still)
    assert result.code == 0
    new = tensors(here / "runs" / "new")
    ids = [
        {
            name: index
            for index, name in enumerate((here / "runs" / run / "tokenizer" / "vocabulary.txt").read_text().split())
        }
        for run in ("old", "new")
    ]
    shared = [name for name in ids[1] if name in ids[0] and old["counts"][ids[0][name]] >= 2]
    assert f"{len(shared)} of {(new['counts'] >= 2).sum()} trained rows start from" in result.err
    for name in shared:
        for matrix in ("embeddings", "contexts"):
            assert np.array_equal(new[matrix][ids[1][name]], old[matrix][ids[0][name]])
    assert new["embeddings"][ids[1]["new"]].any()
    assert not new["contexts"][ids[1]["new"]].any()


def test_init_from_what_does_not_fit(sgns, here):
    assert sgns("train", "c.yaml", "-o", "runs/old").code == 0
    fails(sgns("train", "c.yaml", "--init-from", "runs/old", "--set", "model.dim=4"), 1, "dim 8", "model.dim 4")
    fails(sgns("train", "c.yaml", "--init-from", "nowhere"), 1, "nowhere")
    fails(sgns("train", "c.yaml", "--init-from", "."), 1)
    fails(sgns("train", "c.yaml", "--init-from", "runs/old", "--resume"), 2)
    assert not (here / "runs" / "c").exists()


# ------------------------------------------------------------------ what is refused


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("data: {sources: [corpus.txt]}\nmodel: {dmi: 5}\n", ["model.dmi", "line 2", "model.dim"]),
        ("data: {sources: [corpus.txt]}\nmodle: {dim: 5}\n", ["modle", "line 2", "model"]),
        ("data: {sources: [corpus.txt]}\nmodel: {dim: x}\n", ["model.dim", "line 2", "'x'"]),
        ("data: {sources: [corpus.txt]}\nmodel: {dim: true}\n", ["model.dim", "line 2"]),
        ("data: {sources: [corpus.txt]}\nmodel: {dim: 0}\n", ["model.dim", "line 2"]),
        ("data: {sources: [corpus.txt]}\nmodel:\n  dim: 5\n  dim: 6\n", ["model.dim", "twice", "line 4"]),
        ("data: {sources: [corpus.txt]}\ntrain: {learning_rate: 1e-5}\n", ["train.final_learning_rate", "line 2"]),
        ("data: {sources: [corpus.txt]}\nmodel: {subsample_threshold: .nan}\n", ["model.subsample_threshold"]),
        ("data: {sources: [corpus.txt]}\ntrain: {device: cpu}\n", ["train.device", "--device"]),
        ("data: {sources: corpus.txt}\n", ["data.sources", "[corpus.txt]"]),
        ("data: {sources: []}\n", ["data.sources"]),
        ("data: {}\n", ["data.sources"]),
        ("data: [\n", ["line 2"]),
        ("data: {sources: [corpus.txt]}\ntokenizer: {encoding: whitspace}\n", ["whitspace", "whitespace"]),
    ],
)
def test_a_config_that_is_refused(sgns, here, text, words):
    (here / "c.yaml").write_text(text)
    fails(sgns("train", "c.yaml"), 2, *words)
    assert not (here / "runs").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--set", "model.dmi=3"], 2, ["model.dmi", "model.dim"]),
        (["--set", "model.dim"], 2, ["model.dim"]),
        (["--set", "data.sources=corpus.txt"], 2, ["data.sources", "[corpus.txt]"]),
        (["--set", "model.min_count=100000"], 1, ["model.min_count", "3,000 tokens", "60 types"]),
        (["--resume", "--overwrite"], 2, ["--resume", "--overwrite"]),
        (["--device", "mainframe"], 2, ["mainframe", "cuda"]),
        (["--device", "cuda:x"], 2, ["cuda:x"]),
        (["-o", "corpus.txt"], 1, ["corpus.txt"]),
        (["-o", "corpus.txt/run"], 1, ["corpus.txt"]),
        (["--threads", "0"], 2, ["--threads"]),
        (["--set", "data.sources=[nowhere.txt]"], 1, ["nowhere.txt"]),
        (["--set", "data.sources=['*.nope']"], 1, ["*.nope"]),
        (["--set", "data.sources=[empty.txt]"], 1, ["empty.txt"]),
        (["--set", "data.sources=[folder]"], 1, ["folder"]),
        (["--set", "data.sources=[bad.txt]"], 1, ["bad.txt", "byte 10004", "0xFF"]),
        (["--set", "data.sources=[table.csv]"], 1, ["table.csv", "'text'", "body"]),
    ],
)
def test_what_is_refused(sgns, here, arguments, code, words):
    (here / "empty.txt").touch()
    (here / "folder").mkdir()
    (here / "bad.txt").write_bytes(b"okay\n" * 2000 + b"then\xff\n")
    (here / "table.csv").write_text("body\nhello\n")
    fails(sgns("train", "c.yaml", *arguments), code, *words)
    assert not (here / "runs" / "c").exists()
    assert (here / "corpus.txt").is_file()


@pytest.mark.parametrize(
    "arguments", [["--device", "mainframe"], ["--init-from", "nowhere"]], ids=["device", "init-from"]
)
def test_options_are_checked_before_the_corpus_is_read(sgns, here, arguments):
    assert sgns("train", "c.yaml", *arguments).code in (1, 2)
    assert not (here / "runs").exists()


def test_a_run_that_is_there_is_not_touched(sgns, here):
    assert sgns("train", "c.yaml").code == 0
    before = arrays_of(here / "runs" / "c")
    fails(sgns("train", "c.yaml", "--set", "train.seed=2"), 1, "--resume", "--overwrite")
    assert arrays_of(here / "runs" / "c") == before


def test_dry_run_writes_no_run(sgns, here):
    result = sgns("train", "c.yaml", "--dry-run", "--json")
    assert result.code == 0
    assert not (here / "runs" / "c").exists()
    (record,) = records(result.out)
    text = (here / "corpus.txt").read_text().split()
    assert (record["documents"], record["tokens"], record["n_vocab"]) == (250, 3000, len(set(text)))


def test_a_step_that_cannot_be_written_is_not_there(sgns, here):
    assert sgns("train", "c.yaml", "-o", "runs/first").code == 0  # the tokens and the kernel are cached now
    done = on_a_full_disk(here, 20_000, "train", "c.yaml", "--set", "model.dim=300")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "cannot write runs/c" in done.stderr
    assert not list((here / "runs" / "c").glob("*step-*"))


def test_after_a_failed_first_step_the_hint_can_be_followed(sgns, here):
    assert sgns("train", "c.yaml", "-o", "runs/first").code == 0
    done = on_a_full_disk(here, 20_000, "train", "c.yaml", "--set", "model.dim=300")
    assert done.returncode == 1
    again = sgns("train", "c.yaml", "--set", "model.dim=300")
    assert again.code == 0 or "--resume" in done.stderr


def test_an_init_that_cannot_write_leaves_nothing(here):
    done = on_a_full_disk(here, 100, "init", "new.yaml", "--source", "corpus.txt")
    assert done.returncode == 1
    assert not (here / "new.yaml").exists()


# ------------------------------------------------------------------ beside training


def test_torch_is_not_imported_to_train_on_a_processor(here):
    code = (
        "import sys\nfrom sgns_cli.cli import main\n"
        "assert main(['train', 'c.yaml', '--device', 'cpu', '-q']) == 0\n"
        "assert not {'torch', 'datasets'} & set(sys.modules)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", code], cwd=here, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_kernel_that_may_not_be_compiled_is_an_error_that_says_so(here):
    code = "from sgns_cli.cli import main; raise SystemExit(main(['train', 'c.yaml']))"
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(Path(__file__).parents[1])}
    result = subprocess.run([sys.executable, "-c", code], cwd=here, env=environment, capture_output=True, text=True)
    assert result.returncode == 1
    assert "error: NUMBA_DISABLE_JIT is set" in result.stderr
    assert not (here / "runs" / "c").exists()


def test_the_starter_config_trains_as_it_is(sgns, tmp_path):
    assert sgns("init").code == 0
    result = sgns("train", "config.yaml", "--set", "train.epochs=1", "--set", "model.dim=8")
    assert result.code == 0, result
    command = shlex.split(result.err.splitlines()[-1].removeprefix("note: ask it: "))
    assert sgns(*command[1:], "-k", 1).code == 0


def test_the_starter_config_trains_on_a_short_text(sgns, tmp_path):
    assert sgns("init").code == 0  # brings the sample
    (tmp_path / "notes.txt").write_text((tmp_path / "sample.txt").read_text()[:20_000])
    (tmp_path / "sample.txt").unlink()
    assert sgns("init", "notes.yaml").code == 0
    assert sgns("train", "notes.yaml", "--set", "train.epochs=1", "--set", "model.dim=8").code == 0


def test_the_command_that_init_prints_can_be_pasted(sgns, here):
    result = sgns("init", "my configs/c.yaml", "--source", "corpus.txt")
    command = result.err.split("`")[1]
    assert shlex.split(command) == ["sgns", "train", "my configs/c.yaml"]


def test_info_lists_the_others_when_one_run_cannot_be_read(sgns, here):
    for name in ("a", "b"):
        assert sgns("train", "c.yaml", "-o", f"runs/{name}").code == 0
    file = step_of(here / "runs" / "a") / "state.json"
    file.write_text(file.read_text().replace('"format_version": 1', '"format_version": 99'))
    assert "runs/b" in [record["path"] for record in records(sgns("info", "--json").out)]


def test_embed_of_nothing_is_an_error(sgns, here):
    assert sgns("train", "c.yaml").code == 0
    assert sgns("embed", "").code in (1, 2)


def test_embed_says_which_words_it_left_out(sgns, here):
    assert sgns("train", "c.yaml").code == 0
    assert "unheard" in sgns("embed", "w00 unheard w01").err


def test_tokens_of_an_empty_stdin(sgns_process):
    assert sgns_process("tokenize", "-", "--encoding", "whitespace").returncode == 1


def test_an_empty_pattern_is_refused(sgns, here):
    assert sgns("tokenize", "corpus.txt", "--train-vocab", 300, "--pattern", "").code == 2


@pytest.mark.parametrize("options", [["--encoding", "cl100k_base"], ["--train-vocab", "300"], ["--lowercase"]])
def test_options_that_a_token_folder_cannot_follow_are_refused(sgns, here, options):
    assert sgns("tokenize", "corpus.txt", "-o", "tokens", "--encoding", "whitespace").code == 0
    result = sgns("tokenize", "tokens", *options)
    assert result.code != 0 or "note" in result.err


def test_hints_of_tokenize_name_its_options(sgns, here):
    (here / "bad.txt").write_bytes(b"\xff\n")
    (here / "table.csv").write_text("body\nhello\n")
    assert "--errors replace" in sgns("tokenize", "bad.txt", "--encoding", "whitespace").err
    assert "--column" in sgns("tokenize", "table.csv", "--encoding", "whitespace").err


def test_a_run_can_be_moved(sgns, here):
    assert sgns("train", "c.yaml").code == 0
    before = sgns("neighbors", "w00", "--model", "runs/c")
    shutil.move(here / "runs" / "c", here / "elsewhere")
    after = sgns("neighbors", "w00", "--model", "elsewhere")
    assert after.out == before.out != ""
