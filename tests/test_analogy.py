"""Analogies and similarities, against the definition and as people ask for them."""

import json
import os
import select
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import WORDS, Result, Written, bpe_counts, bpe_tokenizer, word_tokenizer, write_run
from hypothesis import given
from hypothesis import strategies as st

from sgns_cli.vectors.analogy import analogies, similarities
from sgns_cli.vectors.neighbors import make_space, mean_row
from sgns_cli.vectors.opening import open_model
from sgns_cli.vectors.query import resolve_query

Sgns = Callable[..., Result]


def unit(vector: np.ndarray) -> np.ndarray:
    return vector / np.sqrt((vector * vector).sum())


@given(centre=st.booleans(), words=st.lists(st.sampled_from(WORDS[:8]), min_size=3, max_size=3))
def test_answers_are_those_of_the_definition(
    tmp_path_factory: pytest.TempPathFactory, centre: bool, words: list[str]
) -> None:
    counts = np.array([90, 80, 70, 60, 50, 40, 30, 20, 1])
    written = write_run(tmp_path_factory.mktemp("run"), word_tokenizer(), counts)
    model = open_model(written.path)
    space = make_space(model, centre=centre)
    rows = written.embeddings[:8].astype(np.float64)
    rows = rows - rows.mean(axis=0) if centre else rows
    a, b, c = (WORDS.index(word) for word in words)
    direction = unit(rows[b]) - unit(rows[a]) + unit(rows[c])
    scores = {id: float(unit(rows[id]) @ unit(direction)) for id in range(8) if id not in (a, b, c)}
    question = tuple(resolve_query(model, word) for word in words)
    (answers,) = analogies(model, space, [question], "input", k=10)
    assert answers.ids.tolist() == sorted(scores, key=lambda id: -scores[id])
    np.testing.assert_allclose(answers.scores, sorted(scores.values(), reverse=True), atol=1e-6)
    (alike,) = similarities(model, [question[:2]], "input", mean_row(model, "input", centre=centre))
    assert alike == pytest.approx(float(unit(rows[a]) @ unit(rows[b])), abs=1e-6)


def test_a_planted_analogy(sgns: Sgns, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    rows = random.normal(size=(9, 40))
    rows[4] = rows[1] - rows[0] + rows[3]  # fetched is to... the : dog :: ball : cat
    write_run(tmp_path / "runs" / "a", word_tokenizer(), np.full(9, 50), dim=40, embeddings=rows)
    result = sgns("analogy", "the", "dog", "ball", "-k", 2, "--json", "-q")
    assert result.code == 0
    first, second = map(json.loads, result.out.splitlines())
    assert list(first) == ["query", "query_ids", "rank", "token", "id", "bytes", "count", "score"]
    assert (first["query"], first["query_ids"], first["rank"]) == (["the", "dog", "ball"], [0, 1, 3], 1)
    assert (first["token"], second["rank"]) == ("cat", 2)
    assert first["score"] > second["score"]


def test_the_variants_of_the_question_are_no_answers(tmp_path: Path) -> None:
    rows = np.ones((bpe_tokenizer().n_vocab, 6))
    model = open_model(write_run(tmp_path / "run", bpe_tokenizer(), bpe_counts(), dim=6, embeddings=rows).path)
    question = tuple(resolve_query(model, text) for text in ("silver", "gold", "the "))
    (answers,) = analogies(model, make_space(model), [question], "input", k=500)
    answered = {model.tokenizer.token_bytes(id) for id in answers.ids.tolist()}
    assert b"[/b]" in answered
    assert answered.isdisjoint({b"silver", b" silver", b"silver ", b"gold", b" gold", b"the "})


def test_batches_from_standard_input(sgns_process: Callable[..., object], word_run: Written) -> None:
    done = sgns_process("similarity", "-", "--json", "-q", stdin="dog cat\r\ndog\n\nsilver\tgold\nthe xyzzy\ndog dog\n")
    assert done.returncode == 1  # type: ignore[attr-defined]
    records = [json.loads(line) for line in done.stdout.splitlines()]  # type: ignore[attr-defined]
    assert [(record["a"], record["b"]) for record in records] == [("dog", "cat"), ("silver", "gold"), ("dog", "dog")]
    assert records[2]["score"] == 1
    errors = [line for line in done.stderr.splitlines() if line.startswith("error")]  # type: ignore[attr-defined]
    assert errors == [
        "error: query 2 has 1 word, and 2 are needed",
        "error: query 3 is empty",
        "error: 'xyzzy' is no token of this model",
    ]
    done = sgns_process("analogy", "-", "-k", 1, "-q", stdin="the dog ball\n")
    assert done.stdout.splitlines()[0].split("\t")[0] == "query"  # type: ignore[attr-defined]
    assert done.stdout.splitlines()[1].startswith("the dog ball\t0 1 3\t1\t")  # type: ignore[attr-defined]


def test_a_line_that_is_no_text_is_reported_and_skipped(sgns_process: Callable[..., object], word_run: Written) -> None:
    done = sgns_process("neighbors", "-", "-k", 1, "--json", "-q", stdin=b"dog\nc\xffat\ngold\n")
    assert done.returncode == 1  # type: ignore[attr-defined]
    assert [json.loads(line)["query"] for line in done.stdout.splitlines()] == ["dog", "gold"]  # type: ignore[attr-defined]
    assert done.stderr.startswith("error: standard input, line 2: not valid UTF-8")  # type: ignore[attr-defined]


def test_what_is_no_text_or_very_long_is_said_in_a_line(sgns: Sgns, bpe_run: Written) -> None:
    result = sgns("neighbors", "78\udcff")
    assert (result.code, "is not valid UTF-8" in result.err) == (1, True)
    result = sgns("embed", "a\udcff")
    assert (result.code, "text 0 is not valid UTF-8" in result.err) == (1, True)
    result = sgns("neighbors", "7" * 100_000)
    assert (result.code, len(result.err) < 1000) == (1, True)
    result = sgns("neighbors", "gold " * 100_000, "-k", 1, "--model", bpe_run.path)
    assert (result.code, len(result.err) < 1000) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["analogy", "the", "dog"],
            "error: 2 texts, and 3 are needed\nhint: for example `sgns analogy king queen man`",
        ),
        (["analogy", "-", "dog", "ball", "the"], "error: 4 texts, and 3 are needed"),
        (["similarity", "the"], "error: 1 text, and 2 are needed"),
        (["similarity"], "Missing argument 'A B'"),
    ],
)
def test_too_few_and_too_many(sgns: Sgns, word_run: Written, arguments: list[str], words: str) -> None:
    result = sgns(*arguments)
    assert (result.code, result.out) == (2, "")
    assert words in result.err


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pseudo-terminals")
def test_a_prompt_on_a_terminal(word_run: Written, tmp_path: Path) -> None:
    import pty

    child, terminal = pty.fork()
    if child == 0:
        os.chdir(tmp_path)
        environment = {**os.environ, "TERM": "dumb", "XDG_STATE_HOME": str(tmp_path / "state"), "COLUMNS": "80"}
        os.execve(sys.executable, [sys.executable, "-m", "sgns_cli", "neighbors", "-k", "2"], environment)
    shown = b""
    try:
        for line in (b"dog\n", b"xyzzy\n", b"\n", b"cat\n", b"\x04", None):
            asked = shown.count(b"sgns> ")
            while shown.count(b"sgns> ") == asked:
                assert select.select([terminal], [], [], 60)[0], f"silent after {shown!r}"
                shown += os.read(terminal, 4096)
            if line is not None:
                os.write(terminal, line)
    except OSError:  # the other side is closed, as Linux says it
        pass
    finally:
        os.close(terminal)  # which ends a program that is still there
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    text = shown.decode()
    assert text.count("rank") == 2
    assert "error: 'xyzzy' is no token of this model" in text
    assert "Traceback" not in text
    history = (tmp_path / "state" / "sgns" / "history").read_text(encoding="utf-8")
    assert [line for line in history.splitlines() if not line.startswith("_")] == ["dog", "xyzzy", "cat"]
