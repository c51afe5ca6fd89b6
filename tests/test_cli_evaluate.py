"""evaluate, as people run it."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Result, Written

Sgns = Callable[..., Result]
FIELDS = ["set", "section", "kind", "score", "questions", "skipped", "candidates"]


@pytest.fixture
def analogies(tmp_path: Path) -> Path:
    path = tmp_path / "analogies" / "animals.txt"
    path.parent.mkdir()
    path.write_text(": first\nthe dog the Cat\nthe dog silver gold\ndog cat dog lynx\n: second\nlynx cat dog ball\n")
    return path


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    path = tmp_path / "pairs.csv"
    path.write_text("Word 1,Word 2,Human (mean)\ndog,cat,7.5\nsilver,gold,8\nball,night,1\nlynx,cat,9\n")
    return path


def test_the_fields_of_json(sgns: Sgns, word_run: Written, analogies: Path, pairs: Path) -> None:
    result = sgns("evaluate", "--similarity", pairs, "--analogies", analogies, "--model", word_run.path, "--json")
    assert result.code == 0
    records = [json.loads(line) for line in result.out.splitlines()]
    assert [list(record) for record in records] == [FIELDS] * 4
    assert [(one["set"], one["section"], one["kind"], one["questions"], one["skipped"]) for one in records] == [
        ("animals.txt", "first", "analogy", 2, 1),
        ("animals.txt", "second", "analogy", 0, 1),
        ("animals.txt", "total", "analogy", 2, 2),
        ("pairs.csv", "total", "similarity", 3, 1),
    ]
    assert records[1]["score"] is None
    assert records[0]["score"] == records[2]["score"]
    assert records[0]["score"] in (0, 0.5, 1)
    assert -1 <= records[3]["score"] <= 1
    assert {record["candidates"] for record in records} == {8}
    assert result.err == (
        "note: candidates are all 8 trained tokens; words are compared without regard to case\n"
        "note: animals.txt: 7 words: 6 found, 1 not found\n"
        "note: pairs.csv: 7 words: 6 found, 1 not found\n"
    )


def test_a_pipe_gets_tsv_and_quiet_no_notes(sgns: Sgns, word_run: Written, analogies: Path) -> None:
    result = sgns("evaluate", "--analogies", analogies, "-q")
    assert (result.code, result.err) == (0, "")
    lines = [line.split("\t") for line in result.out.splitlines()]
    assert lines[0] == FIELDS
    assert lines[2] == ["animals.txt", "second", "analogy", "", "0", "1", "8"]


def test_files_of_both_kinds_may_come_more_than_once(sgns: Sgns, word_run: Written, pairs: Path) -> None:
    result = sgns("evaluate", "--similarity", pairs, "--similarity", pairs, "--json")
    one, other = result.out.splitlines()
    assert one == other


def test_restrict_and_the_matrix_change_what_is_asked(sgns: Sgns, word_run: Written, pairs: Path) -> None:
    result = sgns("evaluate", "--similarity", pairs, "--restrict", 5, "--json")
    record = json.loads(result.out)
    assert (record["questions"], record["skipped"], record["candidates"]) == (1, 3, 5)
    assert record["score"] is None
    assert "note: candidates are the 5 most frequent of 8 trained tokens" in result.err
    assert result.code == 0
    for options in (["--vectors", "context"], ["--vectors", "sum"], ["--centre"]):
        assert json.loads(sgns("evaluate", "--similarity", pairs, "--json", *options).out)["questions"] == 3


def test_of_a_bpe_the_means_are_counted(sgns: Sgns, bpe_run: Written, analogies: Path) -> None:
    result = sgns("evaluate", "--analogies", analogies, "--json")
    assert result.code == 0
    assert "note: animals.txt: 7 words: 3 are one token, 3 the mean of several, 1 not found\n" in result.err
    records = [json.loads(line) for line in result.out.splitlines()]
    assert {record["candidates"] for record in records} == {26 + 9 + 3}  # letters and tokens trained, and the means
    assert [record["questions"] for record in records] == [1, 0, 1]  # the C of Cat was not trained


def test_nothing_could_be_asked(sgns: Sgns, word_run: Written, analogies: Path) -> None:
    analogies.write_text("lynx cat dog ball\n")
    result = sgns("evaluate", "--analogies", analogies, "--json", "-q")
    assert result.code == 1
    records = [json.loads(line) for line in result.out.splitlines()]
    assert [(one["section"], one["score"], one["skipped"]) for one in records] == [
        ("animals", None, 1),
        ("total", None, 1),
    ]
    assert result.err.splitlines()[0] == "error: no question could be asked: each has a word that was not found"
    assert result.err.splitlines()[1].startswith("hint: ")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ([], 2, "error: nothing to evaluate on\nhint: give --analogies FILE"),
        (["--analogies", "nothing.txt"], 1, "error: cannot read nothing.txt: No such file"),
        (["--similarity", "."], 1, "error: cannot read .: "),
        (["--analogies", "pairs.csv"], 1, "error: pairs.csv, line 2: 1 word, not 4"),
        (["--similarity", "pairs.csv", "--restrict", "0"], 2, "error: Invalid value for '--restrict'"),
        (["--similarity", "pairs.csv", "--model", "nowhere"], 1, "error: there is no run at nowhere"),
    ],
)
def test_what_fails(sgns: Sgns, word_run: Written, pairs: Path, arguments: list[str], code: int, words: str) -> None:
    result = sgns("evaluate", *arguments)
    assert (result.code, result.out) == (code, "")
    assert words in result.err
    assert result.err.splitlines()[-1].startswith("hint: ")


def test_files_are_read_before_anything_is_asked(sgns: Sgns, word_run: Written, analogies: Path, pairs: Path) -> None:
    pairs.write_text("dog cat 1\nno number here\n")
    result = sgns("evaluate", "--analogies", analogies, "--similarity", pairs)
    assert (result.code, result.out) == (1, "")
    assert "line 2: no number after two words" in result.err


def test_a_terminal_shows_where_each_score_comes_from(
    sgns: Sgns, word_run: Written, analogies: Path, pairs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("sgns_cli.console.is_terminal", lambda stream: True)
    result = sgns("evaluate", "--analogies", analogies, "--similarity", pairs, "-q")
    assert all(name in result.out for name in FIELDS)
    assert "animals.txt" in result.out
    assert "pairs.csv" in result.out


def test_the_example_of_the_repository(sgns: Sgns, word_run: Written, project: Path) -> None:
    result = sgns("evaluate", "--analogies", project / "data" / "analogies.txt", "--json")
    assert result.code == 1  # dog and cat are the only ones of its words in this run
    records = [json.loads(line) for line in result.out.splitlines()]
    assert [record["section"] for record in records] == ["family", "capitals", "units", "animals", "total"]
    assert [record["skipped"] for record in records] == [8, 8, 8, 8, 32]
