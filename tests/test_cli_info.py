"""info and init, as people run them."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import WORD_COUNTS, Result, Written, word_tokenizer, write_run

from sgns_cli.config import Config, DataConfig, RunConfig, TokenizerConfig, TrainTokenizerConfig
from sgns_cli.config_file import load_config

Sgns = Callable[..., Result]


def test_a_run_and_its_steps(sgns: Sgns, word_run: Written) -> None:
    write_run(word_run.path, word_tokenizer(), np.array(WORD_COUNTS), step=20)
    facts = json.loads(sgns("info", word_run.path, "--json").out)
    assert (facts["kind"], facts["step"], facts["steps"]) == ("run", "step-00000020", 2)
    assert (facts["loss"], facts["held_out_loss"], facts["n_vocab"], facts["dim"]) == (2.5, 2.75, 9, 8)
    facts = json.loads(sgns("info", word_run.path / "step-00000010", "--json").out)
    assert (facts["kind"], facts["step"]) == ("step", "step-00000010")


def test_a_token_folder_and_what_is_here(sgns: Sgns, tmp_path: Path, word_run: Written) -> None:
    (tmp_path / "text.txt").write_text("a b a", encoding="utf-8")
    for folder in ("tokens", "runs/.tokens/0123"):
        assert sgns("tokenize", "text.txt", "--encoding", "whitespace", "-o", folder).code == 0
    facts = json.loads(sgns("info", "tokens", "--json").out)
    assert (facts["kind"], facts["tokens"], facts["documents"], facts["types"]) == ("tokens", 3, 1, 2)
    assert facts["tokenizer"] == "whitespace"
    (word_run.path.parent / "stray").mkdir()
    broken = write_run(tmp_path / "runs" / "broken", word_tokenizer(), np.array(WORD_COUNTS))
    (broken.step / "state.json").write_text("{")
    result = sgns("info", "--json")
    listed = [json.loads(line) for line in result.out.splitlines()]
    assert [(facts["kind"], facts["path"]) for facts in listed] == [
        ("run", "runs/words"),
        ("tokens", "runs/.tokens/0123"),
    ]
    assert all(facts["disk_bytes"] > 0 and len(facts) == 9 for facts in listed)
    assert result.code == 1
    assert "is damaged" in result.err


def test_the_listing_opens_no_token_folder(sgns: Sgns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "text.txt").write_text("a b a", encoding="utf-8")
    assert sgns("tokenize", "text.txt", "--encoding", "whitespace", "-o", "runs/.tokens/0123").code == 0
    listing = sgns("info", "--json")
    monkeypatch.setitem(sys.modules, "sgns_cli.corpus.report", None)  # an import of it fails
    assert sgns("info", "--json") == listing
    assert json.loads(listing.out)["tokens"] == 3
    assert sgns("info", "runs/.tokens/0123").code == 1


def test_the_listing_opens_no_run(sgns: Sgns, word_run: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    listing = sgns("info", "--json")
    for module in ("sgns_cli.vectors.report", "sgns_cli.config_file"):
        monkeypatch.delitem(sys.modules, module, raising=False)
        monkeypatch.setitem(sys.modules, module, None)  # an import of it fails
    for file in ("model.safetensors", "training.safetensors"):
        (word_run.step / file).write_bytes(b"x" * (word_run.step / file).stat().st_size)
    assert sgns("info", "--json") == listing
    assert json.loads(listing.out)["held_out_loss"] == 2.75
    assert sgns("info", word_run.path).code == 1


def test_nothing_here(sgns: Sgns, tmp_path: Path) -> None:
    result = sgns("info")
    assert (result.code, result.out) == (0, "")
    assert "there are no runs" in result.err
    assert sgns("info", "nowhere").code == 1
    assert "no run, step or token folder" in sgns("info", tmp_path).err


def test_encodings(sgns: Sgns) -> None:
    result = sgns("info", "--encodings", "--json")
    ranks = {record["encoding"]: record["ranks"] for record in map(json.loads, result.out.splitlines())}
    assert set(ranks.values()) <= {"at hand", "to download", "needs none"}
    assert {"cl100k_base", "gpt2", "whitespace"} <= set(ranks)
    assert sgns("info", "x", "--encodings").code == 2


def test_the_starter_config_names_every_key_with_its_default(sgns: Sgns, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("some text\n" * 400_000, encoding="utf-8")
    assert sgns("init").code == 0
    config = load_config(tmp_path / "config.yaml", [])
    expected = Config(
        data=DataConfig(sources=["notes.txt"]),
        tokenizer=TokenizerConfig(train=TrainTokenizerConfig()),
        run=RunConfig(directory="runs/config"),
    )
    assert config == expected
    lines = (tmp_path / "config.yaml").read_text(encoding="utf-8").splitlines()
    written = {line.strip().lstrip("# ").partition(":")[0] for line in lines if ":" in line}
    keys = {key for section in Config.model_fields for key in _keys(Config.model_fields[section].annotation)}
    assert keys | {"vocab_size", "pattern"} <= written


def _keys(section) -> list[str]:
    return list(section.model_fields)


def test_init_never_overwrites(sgns: Sgns, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("mine")
    result = sgns("init")
    assert result.code == 1
    assert "config.yaml exists already" in result.err
    assert (tmp_path / "config.yaml").read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["config.yaml"]


def test_init_where_there_is_no_text_writes_a_sample(sgns: Sgns, tmp_path: Path) -> None:
    result = sgns("init", "new/my.yaml")
    assert "wrote new/sample.txt" in result.err
    assert load_config(tmp_path / "new" / "my.yaml", []).data.sources == ["new/sample.txt"]
    sample = (tmp_path / "new" / "sample.txt").read_text(encoding="utf-8")
    assert sample.startswith("In the beginning God created the heaven and the earth.\n")
    assert len(sample) < 400_000
    assert "new/my.yaml, which reads new/sample.txt" in sgns(
        "init", "new/my.yaml2", "--source", "new/sample.txt"
    ).err.replace("yaml2", "yaml")


@pytest.mark.parametrize("name", ["data/kjv.txt", 'it\'s "quoted": [a].txt', "ünï.txt"])
def test_init_finds_and_quotes_sources(sgns: Sgns, tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("text", encoding="utf-8")
    (tmp_path / "empty.txt").write_text("")
    assert sgns("init").code == 0
    assert load_config(tmp_path / "config.yaml", []).data.sources == [name]


def test_init_with_many_texts_writes_a_glob(sgns: Sgns, tmp_path: Path) -> None:
    for number in range(11):
        (tmp_path / f"{number}.txt").write_text("text")
    sgns("init")
    assert load_config(tmp_path / "config.yaml", []).data.sources == ["*.txt"]


def test_init_on_a_token_folder_leaves_the_tokenizer_to_it(sgns: Sgns, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("a b a", encoding="utf-8")
    sgns("tokenize", "text.txt", "--encoding", "whitespace", "-o", "tokens")
    assert sgns("init", "--source", "tokens").code == 0
    config = load_config(tmp_path / "config.yaml", [])
    assert config.tokenizer == TokenizerConfig()
    assert sgns("init", "other.yaml", "--source", "nowhere").code == 1
    assert not (tmp_path / "other.yaml").exists()


@pytest.mark.parametrize("size", [2_000, 20_000, 366_000])
def test_the_starter_config_fits_the_size_of_the_text(sgns: Sgns, tmp_path: Path, project: Path, size: int) -> None:
    text = (project / "sgns_cli" / "cli" / "sample.txt").read_text(encoding="utf-8")
    (tmp_path / "notes.txt").write_text(text[:size], encoding="utf-8")
    assert sgns("init").code == 0
    config = load_config(tmp_path / "config.yaml", [])
    train = config.tokenizer.train
    assert train is not None
    assert train.pattern == "words"
    assert 256 < train.vocab_size <= max(512, size / 100)
    assert config.model.min_count <= 5
    assert size * config.train.epochs < 20_000_000
    reasons = [line for line in (tmp_path / "config.yaml").read_text().splitlines() if "# The default is" in line]
    assert len(reasons) == (4 if size < 100_000 else 3)
    run = json.loads(sgns("train", "config.yaml", "--dry-run", "--json").out)
    assert run["trained_rows"] > 50


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("empty.txt", "", "empty.txt is empty"),
        ("blank.txt", "\n\n", "there is no text in blank.txt"),
        ("table.csv", "body,n\nhello,1\n", "table.csv has no column 'text'"),
        ("table.jsonl", '{"body": "hello"}\n', "table.jsonl has no column 'text'"),
        ("header.csv", "text\n", "there is no text in header.csv"),
        ("folder/x.bin", "x", "folder has no text in it"),
    ],
)
def test_init_refuses_what_cannot_be_trained_on(
    sgns: Sgns, tmp_path: Path, name: str, content: str, words: str
) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(content)
    result = sgns("init", "--source", name.split("/")[0])
    assert (result.code, result.out) == (1, "")
    assert f"error: {words}" in result.err
    assert result.err.splitlines()[-1].startswith("hint: ")
    assert not (tmp_path / "config.yaml").exists()


def test_init_cannot_judge_stdin_or_the_hub(sgns: Sgns, tmp_path: Path) -> None:
    for number, source in enumerate(("-", "hf:someone/something")):
        assert sgns("init", f"{number}.yaml", "--source", source).code == 0
        config = load_config(tmp_path / f"{number}.yaml", [])
        assert config.tokenizer.train == TrainTokenizerConfig()
        assert config.train.epochs == 5


def test_init_does_not_take_a_dash_for_a_name(sgns: Sgns, tmp_path: Path) -> None:
    assert sgns("init", "-").code == 2
    assert list(tmp_path.iterdir()) == []


def test_a_token_folder_that_is_not_whole_is_named(sgns: Sgns, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("a b a", encoding="utf-8")
    assert sgns("tokenize", "text.txt", "--encoding", "whitespace", "-o", "tokens").code == 0
    (tmp_path / "tokens" / "counts.npy").rename(tmp_path / "counts.npy")
    result = sgns("info", "tokens")
    assert (result.code, result.out) == (1, "")
    assert "error: tokens is damaged: counts.npy is missing" in result.err
    (tmp_path / "counts.npy").rename(tmp_path / "tokens" / "counts.npy")
    meta = tmp_path / "tokens" / "meta.json"
    meta.write_text(meta.read_text().replace('"format_version": 1', '"format_version": 2'))
    assert "error: tokens has format 2, and this version reads 1" in sgns("info", "tokens").err
