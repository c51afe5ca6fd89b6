"""What is said of a run's tokens: each table held against its definition, and runs with little or nothing in them."""

import json
import tempfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from conftest import BPE_COUNTS, WORD_COUNTS, Result, Written, bpe_counts, bpe_tokenizer, word_tokenizer, write_run
from hypothesis import given, settings
from hypothesis import strategies as st
from test_cli_main import HEAVY, run_python
from test_report import gappy_tokenizer

from sgns_cli.config import Config, DataConfig, TrainConfig
from sgns_cli.config_file import dump_config
from sgns_cli.corpus.whitespace import WhitespaceTokenizer
from sgns_cli.training import engine
from sgns_cli.vectors import report
from sgns_cli.vectors.neighbors import cosines
from sgns_cli.vectors.report import describe_model, near_duplicates, trained_rows
from sgns_cli.vectors.run import open_run

Sgns = Callable[..., Result]
TABLES = ["rows_by_count", "under_trained", "best_trained", "near_duplicates", "outlying_norms", "never_seen"]


def write_words(path: Path, rows: object, counts: object = None, **more: object) -> Written:
    """A run of the words w0, w1, ... with these embeddings; counts fall from the first, unless they are given."""
    embeddings = np.array(rows, dtype=np.float32)
    words = WhitespaceTokenizer([f"w{id}" for id in range(len(embeddings))])
    falling = np.arange(len(embeddings), 0, -1) + 4
    counts = falling if counts is None else np.array(counts)
    return write_run(path, words, counts, dim=embeddings.shape[1], embeddings=embeddings, **more)


def along(lengths: object, dim: int = 3) -> np.ndarray:
    """Rows of these lengths, all in one direction."""
    return np.array(lengths)[:, None] * np.eye(1, dim)


def strictly(text: str) -> dict:
    """JSON as the standard has it: NaN and Infinity are none."""

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    return json.loads(text, parse_constant=refuse)


@settings(max_examples=40)
@given(
    counts=st.lists(st.sampled_from([0, 1, 4, 5, 7, 99, 100, 101, 999, 1000, 70_000]), min_size=277, max_size=277),
    min_count=st.sampled_from([1, 2, 5, 99, 100, 101, 999, 1000, 2000]),
)
def test_every_id_is_in_one_class(counts: list[int], min_count: int) -> None:
    tokenizer = gappy_tokenizer()
    assert tokenizer.n_vocab == len(counts)
    with tempfile.TemporaryDirectory() as folder:
        run = write_run(Path(folder) / "r", tokenizer, np.array(counts), min_count=min_count)
        rows = describe_model(run.path).tables["rows_by_count"]
    spans = []  # of the trained: their names, least and most counts
    for least, end in pairwise([*sorted({min_count, *(edge for edge in (100, 1000) if edge > min_count)}), 10**9]):
        name = f"{least} and more" if end == 10**9 else f"{least}-{end - 1}" if end - 1 > least else f"{least}"
        spans.append((name, range(least, end)))
    expected: dict[str, list[int]] = {"never seen": [], "below min_count": []}
    expected |= {name: [] for name, _ in spans} | {"special": [], "hole": []}
    for id, count in enumerate(counts):
        if id in tokenizer.special_ids:
            name = "special"
        elif tokenizer.token_bytes(id) is None:
            name = "hole"
        elif count < min_count:
            name = "below min_count" if count else "never seen"
        else:
            name = next(name for name, span in spans if count in span)
        expected[name].append(id)
    assert [row["count"] for row in rows] == list(expected)
    norms = np.linalg.norm(run.embeddings, axis=1)
    for row in rows:
        ids = expected[row["count"]]
        trained = [id for id in ids if counts[id] >= min_count and id not in tokenizer.special_ids]
        assert row["ids"] == len(ids)
        assert row["tokens"] == sum(counts[id] for id in ids)
        assert row["share_of_ids"] == len(ids) / len(counts)
        assert row["share_of_tokens"] == (row["tokens"] / sum(counts) if any(counts) else None)
        assert row["mean_norm"] == (pytest.approx(norms[trained].mean(), abs=1e-5) if trained else None)
    assert sum(row["ids"] for row in rows) == len(counts)
    assert sum(row["tokens"] for row in rows) == sum(counts)


def test_under_trained_rows_are_the_shortest_beside_their_start(tmp_path: Path) -> None:
    assert engine.START == report.START
    dim = 75  # a row starts with a length of about 2 / sqrt(3 * 75) = 2 / 15
    lengths = np.array([3, 1, 2, 0, 4, 5]) * 2 / 15
    run = write_words(tmp_path / "r", along(lengths, dim), counts=[50, 40, 30, 20, 10, 4])
    described = describe_model(run.path, many=4)
    rows = described.tables["under_trained"]
    assert [(row["token"], row["count"], row["times_start"]) for row in rows] == [
        ("w3", 20, 0),
        ("w1", 40, 1),
        ("w2", 30, 2),
        ("w0", 50, 3),
    ]
    assert [row["norm"] for row in rows] == pytest.approx([0, 2 / 15, 4 / 15, 6 / 15], abs=1e-6)
    assert (described.facts["rows_near_start"], described.facts["trained_rows"]) == (2, 5)


@pytest.mark.parametrize("dim", [30, 100, 300])
def test_rows_at_random_are_as_long_as_a_start(tmp_path: Path, dim: int) -> None:
    rows = np.random.default_rng(dim).uniform(-engine.START / dim, engine.START / dim, size=(300, dim))
    described = describe_model(write_words(tmp_path / "r", rows).path, many=300)
    assert described.facts["rows_near_start"] == described.facts["trained_rows"] == 300
    assert all(0.6 < row["times_start"] < 1.4 for row in described.tables["under_trained"])


def test_best_trained_are_the_most_frequent(bpe_run: Written) -> None:
    rows = describe_model(bpe_run.path).tables["best_trained"]
    assert [(row["token"], row["id"], row["bytes"], row["count"]) for row in rows] == [
        ("the␣", 261, b"the ".hex(), 500),
        ("␣silver", 257, b" silver".hex(), 400),
        ("␣gold", 260, b" gold".hex(), 300),
        ("[/b]", 262, b"[/b]".hex(), 200),
        ("[bold]", 263, b"[bold]".hex(), 150),
    ]
    norms = np.linalg.norm(bpe_run.embeddings, axis=1)
    assert [row["norm"] for row in rows] == pytest.approx([norms[row["id"]] for row in rows], abs=1e-5)


@settings(max_examples=40)
@given(
    rows=st.integers(1, 40),
    dim=st.integers(1, 9),
    block=st.sampled_from([1, 2, 7, 512]),
    compared=st.sampled_from([1, 2, 10, 5000]),
    number=st.integers(1, 12),
    seed=st.integers(0, 2**31),
)
def test_near_duplicates_are_those_of_every_pair(
    rows: int, dim: int, block: int, compared: int, number: int, seed: int
) -> None:
    random = np.random.default_rng(seed)
    counts = random.integers(3, 30, size=rows)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(report, "BLOCK", block)
        patch.setattr(report, "COMPARED", compared)
        run = write_words(Path(folder) / "r", random.normal(size=(rows, dim)), counts)
        model = open_run(run.path)
        found = near_duplicates(model, trained_rows(model), number)
        told = describe_model(run.path).facts["compared_rows"]
    order = sorted((id for id in range(rows) if counts[id] >= 5), key=lambda id: (-counts[id], id))[:compared]
    assert told == len(order)
    best = {
        id: cosines(run.embeddings[order[:place]], run.embeddings[id]).max() for place, id in enumerate(order) if place
    }
    expected = sorted(best.values(), reverse=True)[:number]
    assert [row["score"] for row in found] == pytest.approx(expected, abs=2e-6)
    assert len({row["id"] for row in found}) == len(found)
    for row in found:
        id, other = row["id"], row["other_id"]
        assert order.index(other) < order.index(id)
        assert row["score"] == pytest.approx(best[id], abs=2e-6)
        assert row["score"] == pytest.approx(cosines(run.embeddings[[id]], run.embeddings[other])[0], abs=2e-6)
        assert (row["token"], row["count"], row["bytes"]) == (f"w{id}", counts[id], f"w{id}".encode().hex())
        assert (row["other"], row["other_count"]) == (f"w{other}", counts[other])
        assert row["other_bytes"] == f"w{other}".encode().hex()


def test_of_rows_that_are_alike_each_is_named_with_one_more_frequent(tmp_path: Path) -> None:
    rows = [[1, 0, 0], [0, 1, 0], [0, 2, 0], [0, 3, 0], [1, 1, 1]]
    found = describe_model(write_words(tmp_path / "r", rows).path, many=2).tables["near_duplicates"]
    assert [(row["token"], row["other"], row["score"]) for row in found] == [("w2", "w1", 1), ("w3", "w1", 1)]


def test_norms_are_outlying_among_tokens_of_like_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "ALIKE", 5)
    lengths = np.exp([0, 1, 2, 3, 4, 5, 6.5, 6, 5.5, 9])  # two groups of five, by falling count
    rows = describe_model(write_words(tmp_path / "r", along(lengths)).path, few=2).tables["outlying_norms"]
    assert [row["token"] for row in rows] == ["w0", "w5", "w9", "w4"]
    deviations = np.array([-2 / 1, -1 / 0.5, 3 / 0.5, 2 / 1]) / 1.4826  # from medians 2 and 6, by deviations 1 and 0.5
    assert [row["z"] for row in rows] == pytest.approx(deviations, abs=1e-4)
    assert [row["usual_norm"] for row in rows] == pytest.approx(np.exp([2, 6, 6, 2]), rel=1e-5)
    assert [row["norm"] for row in rows] == pytest.approx(np.exp([0, 5, 9, 4]), rel=1e-5)


def test_usual_norms_are_not_outlying(tmp_path: Path) -> None:
    lengths = [2.0] * 8 + [0.0]  # zero has no logarithm: under_trained has that row
    described = describe_model(write_words(tmp_path / "r", along(lengths)).path)
    assert described.tables["outlying_norms"] == []
    assert described.tables["under_trained"][0]["token"] == "w8"


def test_words_that_the_corpus_lacks(tmp_path: Path) -> None:
    counts = bpe_counts()
    described = describe_model(write_run(tmp_path / "r", bpe_tokenizer(), counts).path)
    assert described.tables["never_seen"] == []
    counts[256 : 256 + len(BPE_COUNTS)] = 0
    rows = describe_model(write_run(tmp_path / "s", bpe_tokenizer(), counts).path).tables["never_seen"]
    # `silver` and `gold` may be pieces of words, ` <|x|>` and the bytes are none
    assert [(row["token"], row["id"]) for row in rows] == [("␣silver", 257), ("silver␣", 258), ("␣gold", 260)]
    assert [bytes.fromhex(row["bytes"]) for row in rows] == [b" silver", b"silver ", b" gold"]


CONFIG = Config(data=DataConfig(sources=["a.txt", "b.txt"], lowercase=True), train=TrainConfig(epochs=3))
REPORTS = [
    {"step": 10, "seconds": 9.0, "tokens_per_second": 1.0, "device": "cpu", "threads": 1},
    {"step": 10, "seconds": 1.5, "tokens_per_second": 2000.0, "device": "cpu", "threads": 4},
    {"step": 20, "seconds": 2.5, "tokens_per_second": float("nan"), "device": "cuda:0", "threads": 1},
]
FACTS = [
    "kind",
    "path",
    "step",
    "steps",
    "epoch",
    "tokens_seen",
    "tokens_total",
    "loss",
    "held_out_loss",
    "n_vocab",
    "dim",
    "min_count",
    "positions",
    "context_length",
    "seed",
    "disk_bytes",
    "trained_rows",
    "rows_near_start",
    "compared_rows",
    "tokenizer",
    "tokenizer_kind",
    "sources",
    "document",
    "lowercase",
    "window",
    "negatives",
    "noise_power",
    "subsample_threshold",
    "epochs",
    "learning_rate",
    "train_seconds",
    "tokens_per_second",
    "device",
    "threads",
    "written",
]


def write_history(run: Written) -> None:
    """A second step, a config, and a metrics.jsonl whose last line is cut short."""
    write_run(run.path, word_tokenizer(), np.array(WORD_COUNTS), step=20)
    (run.path / "config.yaml").write_text(dump_config(CONFIG), encoding="utf-8")
    lines = "".join(json.dumps(record) + "\n" for record in REPORTS)
    (run.path / "metrics.jsonl").write_text(f'{lines}[]\n{{"step": 20, "sec', encoding="utf-8")


def test_facts_of_a_run_and_of_a_step(sgns: Sgns, word_run: Written) -> None:
    write_history(word_run)
    told = strictly(sgns("info", "runs/words", "--json").out)
    assert list(told) == [*FACTS, *TABLES]
    assert (told["kind"], told["step"], told["steps"], told["trained_rows"]) == ("run", "step-00000020", 2, 8)
    assert (told["train_seconds"], told["tokens_per_second"], told["device"]) == (2.5, None, "cuda:0")
    assert (told["sources"], told["lowercase"], told["epochs"], told["window"]) == (["a.txt", "b.txt"], True, 3, 5)
    assert (told["tokenizer"], told["tokenizer_kind"]) == ("whitespace", "whitespace")
    assert told["written"][10] == "T"
    step = strictly(sgns("info", "runs/words/step-00000010", "--json").out)
    assert list(step) == [name for name in [*FACTS, *TABLES] if name != "steps"]
    assert (step["kind"], step["step"], step["train_seconds"], step["threads"]) == ("step", "step-00000010", 1.5, 4)
    norms = np.linalg.norm(word_run.embeddings, axis=1)
    assert step["best_trained"][0]["norm"] == pytest.approx(norms[0], abs=1e-5)


def test_a_pipe_gets_the_facts(sgns: Sgns, word_run: Written) -> None:
    write_history(word_run)
    header, row = (line.split("\t") for line in sgns("info", "runs/words").out.splitlines())
    assert header == FACTS
    assert row[:4] == ["run", "runs/words", "step-00000020", "2"]
    assert row[FACTS.index("sources")] == "a.txt b.txt"


def test_without_config_and_metrics_their_values_are_empty(sgns: Sgns, word_run: Written) -> None:
    told = strictly(sgns("info", "runs/words", "--json").out)
    assert list(told) == [*FACTS, *TABLES]
    assert {told[name] for name in ("document", "window", "epochs", "train_seconds", "threads")} == {None}


SMALL: dict[str, tuple[list[list[float]], list[int]]] = {
    "no rows that were trained": ([[0, 0], [0, 0]], [4, 0]),
    "nothing counted": ([[0, 0], [0, 0]], [0, 0]),
    "one row": ([[1, 2], [0, 0]], [5, 4]),
    "rows of zeros": ([[0, 0], [0, 0], [0, 0]], [9, 8, 7]),
    "rows that are equal": ([[1, 1], [1, 1], [1, 1]], [9, 8, 7]),
    "rows of one number": ([[1], [-2], [3]], [9, 8, 7]),
    "rows that are very long and very short": ([[1e18, 0], [1e-30, 0], [0, 1]], [9, 8, 7]),
}


@pytest.mark.parametrize("name", SMALL)
def test_runs_with_little_in_them(sgns: Sgns, tmp_path: Path, name: str) -> None:
    rows, counts = SMALL[name]
    write_words(tmp_path / "r", rows, counts)
    result = sgns("info", "r", "--json")
    assert (result.code, result.err) == (0, "")
    told = strictly(result.out)
    trained = sum(count >= 5 for count in counts)
    assert (told["trained_rows"], told["compared_rows"]) == (trained, trained)
    assert sum(row["ids"] for row in told["rows_by_count"]) == len(counts)
    assert len(told["under_trained"]) == len(told["best_trained"]) == trained
    assert len(told["near_duplicates"]) == max(0, trained - 1)
    assert "nan" not in sgns("info", "r").out


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e30])
def test_numbers_that_are_none_are_an_error(sgns: Sgns, tmp_path: Path, value: float) -> None:
    write_words(tmp_path / "r", [[1, 1], [value, 1]])
    result = sgns("info", "r", "--json")
    assert (result.code, result.out) == (1, "")
    assert "row 1 has numbers that are not finite" in result.err


def spoil(name: str, text: str) -> Callable[[Written], object]:
    return lambda run: (run.path / name).write_text(text)


DAMAGES: dict[str, tuple[Callable[[Written], object], int, str]] = {
    "a config that is none": (spoil("config.yaml", "- 1"), 2, "config.yaml is no config"),
    "a config with other keys": (spoil("config.yaml", "dat: 1"), 2, "unknown key dat"),
    "a matrix cut short": (lambda run: (run.step / "model.safetensors").write_bytes(b"x" * 99), 1, "no whole"),
    "no contexts": (lambda run: (run.step / "training.safetensors").unlink(), 1, "cannot read"),
    "no tokenizer": (lambda run: (run.path / "tokenizer" / "vocabulary.txt").unlink(), 1, "vocabulary.txt"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_run_is_an_error(sgns: Sgns, word_run: Written, damage: str) -> None:
    spoil_it, code, words = DAMAGES[damage]
    spoil_it(word_run)
    result = sgns("info", "runs/words", "--json")
    assert (result.code, result.out) == (code, "")
    assert words in result.err
    assert len(result.err.splitlines()) == 2


def test_losses_that_are_no_numbers_are_null(sgns: Sgns, tmp_path: Path) -> None:
    nothing = {"loss": float("nan"), "held_out_loss": float("inf")}
    write_run(tmp_path / "runs" / "r", word_tokenizer(), np.array(WORD_COUNTS), metrics=nothing)
    write_run(tmp_path / "runs" / "s", word_tokenizer(), np.array(WORD_COUNTS), metrics=[1])
    for run in ("r", "s"):
        told = strictly(sgns("info", f"runs/{run}", "--json").out)
        assert (told["loss"], told["held_out_loss"]) == (None, None)
    assert [strictly(line)["loss"] for line in sgns("info", "--json").out.splitlines()] == [None, None]


TERMINAL = """\
rows by count
 count             ids   tokens   share_of_ids   share_of_tokens   mean_norm
 ───────────────────────────────────────────────────────────────────────────
 never seen          0        0          0.000             0.000
 below min_count     1        1          0.143             0.004
 5-99                6      245          0.857             0.996        1.75
 100-999             0        0          0.000             0.000
 1000 and more       0        0          0.000             0.000
 special             0        0          0.000             0.000
 hole                0        0          0.000             0.000
under trained
 token   id   bytes   count    norm   times_start
 ────────────────────────────────────────────────
 w3       3   7733       40   0.500         0.750
 w0       0   7730       50       1           1.5
 w1       1   7731       45       1           1.5
 w2       2   7732       42       2             3
 w4       4   7734       38       2             3
 w5       5   7735       30       4             6
best trained
 token   id   bytes   count    norm
 ──────────────────────────────────
 w0       0   7730       50       1
 w1       1   7731       45       1
 w2       2   7732       42       2
 w3       3   7733       40   0.500
 w4       4   7734       38       2
near duplicates
 token   id   bytes   count   other   other_id   other_count   score
 ───────────────────────────────────────────────────────────────────
 w1       1   7731       45   w0             0            50       1
 w2       2   7732       42   w0             0            50       1
 w3       3   7733       40   w0             0            50       1
 w4       4   7734       38   w0             0            50       1
 w5       5   7735       30   w0             0            50       1
outlying norms
 token   id   bytes   count    norm   usual_norm        z
 ────────────────────────────────────────────────────────
 w3       3   7733       40   0.500        1.414   -2.023
 w0       0   7730       50       1        1.414   -0.674
 w1       1   7731       45       1        1.414   -0.674
 w5       5   7735       30       4        1.414    2.023
 w4       4   7734       38       2        1.414    0.674
 w2       2   7732       42       2        1.414    0.674
"""


def test_a_terminal_shows_lines_and_tables(tmp_path: Path) -> None:
    pytest.importorskip("pty", reason="needs a terminal")
    from test_readme import shell

    write_words(tmp_path / "r", along([1, 1, 2, 0.5, 2, 4, 0]), [50, 45, 42, 40, 38, 30, 1])
    result = shell("sgns info r", tmp_path)
    assert result.code == 0
    assert result.lines[0] == "kind                  run"
    start = result.lines.index("rows by count")
    assert list(result.lines[start:]) == TERMINAL.splitlines()


def test_a_report_imports_nothing_heavy(word_run: Written) -> None:
    write_history(word_run)
    code = "import sys; from sgns_cli.cli import main; code = main(['info', 'words']); print(code, *sys.modules)"
    loaded = set(run_python(code, word_run.path.parent).splitlines()[-1].split())
    assert {"0", "sgns_cli.vectors.report"} <= loaded
    assert not loaded & set(HEAVY)
