"""A config file read, refused in words, and written back."""

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sgns_cli.config import (
    Config,
    DataConfig,
    ModelConfig,
    RunConfig,
    TokenizerConfig,
    TrainConfig,
    TrainTokenizerConfig,
)
from sgns_cli.config_file import dump_config, load_config
from sgns_cli.errors import SgnsError, UsageError

DATA = "data: {sources: [a.txt]}\n"


def load(folder: Path, text: str | bytes, *overrides: str) -> Config:
    path = folder / "my.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load_config(path, list(overrides))


def test_the_least_config_has_every_default(tmp_path: Path) -> None:
    config = load(tmp_path, DATA)
    assert config == Config(data=DataConfig(sources=["a.txt"]), run=RunConfig(directory="runs/my"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("model: {dims: 5}", "unknown key model.dims (%, line 2) | did you mean model.dim?"),
        ("dim: 5", "unknown key dim (%, line 2) | did you mean model.dim?"),
        ("modle: {dim: 5}", "unknown key modle (%, line 2) | did you mean model?"),
        ("train:\n  seed: 1\n  device: cpu", "unknown key train.device (%, line 4) | it is no config: give --device"),
        ("zzz: 1", "unknown key zzz (%, line 2) | the sections are data, tokenizer, model, train, run"),
        ("data.column: x", "unknown key data.column (%, line 2) | write `data:`"),
        ("? [a]\n: 5", "unknown key ? (%, line 2)"),
        ("model: {dim: true}", "model.dim must be a whole number from 1 to 65536, not true (%, line 2)"),
        ("model: {dim: 5.0}", "model.dim must be a whole number from 1 to 65536, not 5.0"),
        ("model: {dim: 0}", "model.dim must be a whole number from 1 to 65536, not 0"),
        ("model: {dim: }", "model.dim must be a whole number from 1 to 65536, not empty (%, line 2) | give it a value"),
        ("model: {dim: 1e2}", "not '1e2'"),
        ("model: {noise_power: 3}", "model.noise_power must be a number from -2 to 2, not 3"),
        ("train: {learning_rate: 0}", "train.learning_rate must be a number above 0, not 0"),
        ("train: {learning_rate: abc}", "train.learning_rate must be a number above 0, not 'abc'"),
        ("train: {learning_rate: true}", "train.learning_rate must be a number above 0, not true"),
        ("train: {learning_rate: .inf}", "train.learning_rate must be a number above 0, not inf"),
        ("train: {deterministic: 1}", "train.deterministic must be true or false, not 1"),
        ("train: {seed: -1}", "train.seed must be a whole number from 0 to 9223372036854775807, not -1"),
        (
            "model: {positions: learnt}",
            "one of none, learned, sinusoidal, not 'learnt' (%, line 2) | did you mean learned?",
        ),
        ("run: {directory: 2024-01-01}", 'must be text, not 2024-01-01 (%, line 2) | put it in quotes: "2024-01-01"'),
        ("run: {directory: ''}", "run.directory holds an empty text (%, line 2)"),
        ("model: 5", "model is a section of keys, not 5 (%, line 2) | the keys of model are dim, window"),
        ("model:\n  dim: 5\n  dim: 6", "model.dim appears twice (%, line 4; first %, line 3)"),
        ("data: {sources: [b]}", "data appears twice (%, line 2; first %, line 1)"),
        ("tokenizer:\n  encoding: gpt2\n  train: {vocab_size: 300}", "tokenizer.encoding and tokenizer.train exclude"),
        ("tokenizer: {train: {vocab_size: 255}}", "tokenizer.train.vocab_size must be a whole number from 256"),
        (
            "train: {learning_rate: 1e-5}",
            "train.final_learning_rate 0.0001 is above train.learning_rate 1e-05 (%, line 2)",
        ),
        ("a: b: c", "%, line 2: not valid YAML"),
        ("model: !!python/object:os.system {}", "%, line 2: the tag"),
        ("train: {seed: !!int abc}", "%, line 2: 'abc' is no value"),
        ("train: {seed: " + "9" * 5000 + "}", "%, line 2"),
        ("x: " + "[" * 100_000, "% is nested too deeply"),
        ("model: &m {dim: 5}\ntrain: *m", "%, line 2: & and * are not used"),
        ("--- \nx: 1", "%, line 2: not valid YAML"),
    ],
)
def test_what_is_refused(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        load(tmp_path, DATA + text)
    assert words.replace("%", str(tmp_path / "my.yaml")) in f"{caught.value.message} | {caught.value.hint}"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "data.sources is missing"),
        ("model: {dim: 5}", "data.sources is missing"),
        ("data:\n", "data.sources is missing"),
        ("data: {sources: a.txt}", "must be a list of one or more texts, not 'a.txt'"),
        ("data: {sources: []}", "must be a list of one or more texts, not []"),
        ("data: {sources: [a, 1]}", "data.sources[1] must be text, not 1"),
        ("data: {sources: ['']}", "data.sources holds an empty text"),
        ("In the beginning", "is no config"),
        ("[1, 2]", "is no config"),
        (b"data: {sources: [a\xff]}", "not valid UTF-8 at byte 18"),
        (b"data\x00: 1", "not valid YAML"),
        (b"#" * (2**20 + 1), "too large"),
    ],
)
def test_whole_files_that_are_refused(tmp_path: Path, text: str | bytes, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        load(tmp_path, text)
    assert words in caught.value.message
    assert caught.value.hint


def test_a_source_that_is_no_list_gets_the_list_as_a_hint(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        load(tmp_path, "data: {sources: a.txt}")
    assert caught.value.hint == "write a list: [a.txt]"


def test_a_missing_file_is_no_usage_error(tmp_path: Path) -> None:
    with pytest.raises(SgnsError) as caught:
        load_config(tmp_path / "no.yaml", [])
    assert caught.value.exit_code == 1
    with pytest.raises(SgnsError):
        load_config(tmp_path, [])


def test_text_that_is_a_number_and_empty_sections(tmp_path: Path) -> None:
    config = load(tmp_path, DATA + "model: {subsample_threshold: 1e-4}\ntrain:\nrun:\ntokenizer:\n")
    assert config.model.subsample_threshold == 1e-4
    assert config.train == TrainConfig()
    assert config.tokenizer == TokenizerConfig()


def test_an_empty_train_section_means_its_defaults_unless_an_encoding_is_named(tmp_path: Path) -> None:
    assert load(tmp_path, DATA + "tokenizer:\n  train:\n").tokenizer.train == TrainTokenizerConfig()
    assert load(tmp_path, DATA + "tokenizer:\n  encoding: gpt2\n  train:\n").tokenizer.train is None


def test_overrides_win_in_order(tmp_path: Path) -> None:
    config = load(tmp_path, DATA + "model: {dim: 5}", "model.dim=6", "model.dim=7", "data.sources=[b, c]")
    assert config.model.dim == 7
    assert config.data.sources == ["b", "c"]
    config = load(tmp_path, DATA + "tokenizer: {train: {}}", "tokenizer.train=null", "tokenizer.encoding=gpt2")
    assert config.tokenizer == TokenizerConfig(encoding="gpt2")
    assert load(tmp_path, "", "data.sources=[a]", "train.learning_rate=1e-2").train.learning_rate == 0.01


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("model.dim", "--set model.dim is not of the form section.key=value"),
        ("=5", "is not of the form"),
        ("model..dim=5", "is not of the form"),
        ("model.dmi=5", "unknown key model.dmi (--set model.dmi=5) | did you mean model.dim?"),
        ("model.dim=0", "model.dim must be a whole number from 1 to 65536, not 0 (--set model.dim=0)"),
        ("model.dim=", "not empty (--set model.dim=)"),
        ("model.dim=[", "--set model.dim=[, line 1: not valid YAML"),
        ("data.sources=b", "write a list: --set 'data.sources=[b]'"),
        ("data.sources.x=b", "data.sources has no keys"),
        ("model={dim: 5, dim: 6}", "model.dim appears twice"),
    ],
)
def test_overrides_that_are_refused(tmp_path: Path, override: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        load(tmp_path, DATA, override)
    assert words in f"{caught.value.message} | {caught.value.hint}"


names = st.text(min_size=1, max_size=12)
configs = st.builds(
    Config,
    data=st.builds(DataConfig, sources=st.lists(names, min_size=1, max_size=3), column=names, lowercase=st.booleans()),
    tokenizer=st.one_of(
        st.builds(TokenizerConfig, encoding=st.none() | names),
        st.builds(TokenizerConfig, encoding=st.none(), train=st.builds(TrainTokenizerConfig, pattern=names)),
    ),
    model=st.builds(
        ModelConfig, dim=st.integers(1, 65536), noise_power=st.floats(-2, 2), subsample_threshold=st.floats(0, 1)
    ),
    train=st.builds(
        TrainConfig,
        seed=st.integers(0, 2**63 - 1),
        learning_rate=st.floats(1e-3, 10),
        final_learning_rate=st.floats(0, 1e-3),
    ),
    run=st.builds(RunConfig, directory=names, log_seconds=st.floats(1e-9, 1e9)),
)


@given(config=configs)
@example(config=Config(data=DataConfig(sources=["\x85", "é\u2028"]), run=RunConfig(directory="r")))
def test_what_is_dumped_reads_back(tmp_path_factory: pytest.TempPathFactory, config: Config) -> None:
    path = tmp_path_factory.getbasetemp() / "dumped.yaml"
    path.write_text(dump_config(config), encoding="utf-8")
    assert load_config(path, []) == config
