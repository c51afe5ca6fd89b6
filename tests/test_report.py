"""What is said of a corpus: held against counting by hand, for text that is hard to show, and refused when damaged."""

import hashlib
import json
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from conftest import Result, bpe_tokenizer
from corpora import change_meta
from hypothesis import given, settings
from hypothesis import strategies as st
from test_cli_main import HEAVY, run_python

from sgns_cli.corpus import report
from sgns_cli.corpus.bpe import BpeTokenizer
from sgns_cli.corpus.report import CHARACTERS, CLASSES, describe_corpus
from sgns_cli.corpus.token_store import dtype_for, write_token_store
from sgns_cli.corpus.tokenizer import Tokenizer
from sgns_cli.corpus.whitespace import WhitespaceTokenizer
from sgns_cli.errors import SgnsError

Sgns = Callable[..., Result]
FACTS = {"bytes": 60, "sources": ["x.txt"], "options": {}, "skipped": [], "notes": []}
IDS = 256 + 10  # of bpe_tokenizer without its special token


def gappy_tokenizer() -> BpeTokenizer:
    """The tokens of conftest's, two special ones, and nine ids between that are nothing."""
    ordinary = {bpe_tokenizer().token_bytes(id) or b"": id for id in range(IDS)}
    return BpeTokenizer("gappy", ".", ordinary, {"<|end|>": IDS + 4, "<|pad|>": IDS + 10})


def write(folder: Path, documents: Sequence[Sequence[int]], tokenizer: Tokenizer, **facts: object) -> Path:
    with write_token_store(folder, dtype_for(tokenizer.n_vocab)) as writer:
        ids = np.array([id for document in documents for id in document], dtype=np.uint32)
        writer.add(ids, np.array([len(document) for document in documents], dtype=np.int64))
        writer.finish(tokenizer, {**FACTS, **facts})
    return folder


def encoded(tokenizer: Tokenizer, *texts: str) -> list[list[int]]:
    return [tokenizer.encode(text).tolist() for text in texts]


def class_of(id: int, count: int, tokenizer: Tokenizer) -> str:
    if id in tokenizer.special_ids:
        return "special"
    if tokenizer.token_bytes(id) is None:
        return "hole"
    bounds = ((0, "never seen"), (4, "1-4"), (99, "5-99"))
    return next((name for most, name in bounds if count <= most), "100 and more")


documents_of_few_ids = st.lists(
    st.builds(
        lambda ids, times: ids * times,
        st.lists(st.sampled_from([10, 27, 97, 98, 0xE2, 0xFF, 256, 257, 265, IDS + 4]), min_size=1, max_size=5),
        st.sampled_from([1, 1, 1, 2, 4, 5, 20, 99, 100]),
    ),
    min_size=1,
    max_size=12,
)


@given(documents_of_few_ids, st.integers(1, 12), st.integers(1, 12), st.integers(1, 5))
@settings(max_examples=40)
def test_every_number_is_what_counting_by_hand_gives(
    documents: list[list[int]], frequent: int, longest: int, at_once: int
) -> None:
    tokenizer = gappy_tokenizer()
    with tempfile.TemporaryDirectory() as name, mock.patch.object(report, "DOCUMENTS_AT_ONCE", at_once):
        corpus = describe_corpus(write(Path(name) / "tokens", documents, tokenizer), frequent=frequent, longest=longest)
    tokens = [id for document in documents for id in document]
    counted = Counter(tokens)
    assert corpus.facts["tokens"] == len(tokens)
    assert corpus.facts["documents"] == len(documents)
    assert corpus.facts["types"] == len(counted)
    assert corpus.facts["bytes_per_token"] == 60 / len(tokens)
    assert corpus.facts["tokens_per_document"] == len(tokens) / len(documents)

    classes = {id: class_of(id, counted[id], tokenizer) for id in range(tokenizer.n_vocab)}
    rows = corpus.tables["ids_by_count"]
    assert [row["count"] for row in rows] == list(CLASSES)
    for row in rows:
        ids = [id for id, name in classes.items() if name == row["count"]]
        assert (row["ids"], row["tokens"]) == (len(ids), sum(counted[id] for id in ids))
        assert row["share_of_ids"] == len(ids) / tokenizer.n_vocab
        assert row["share_of_tokens"] == row["tokens"] / len(tokens)
    assert sum(row["ids"] for row in rows) == tokenizer.n_vocab
    assert sum(row["tokens"] for row in rows) == len(tokens)

    often = sorted(counted.items(), key=lambda item: (-item[1], item[0]))[:frequent]
    shown = corpus.tables["frequent_tokens"]
    assert [(row["id"], row["count"], row["share_of_tokens"]) for row in shown] == [
        (id, count, count / len(tokens)) for id, count in often
    ]
    assert [bytes.fromhex(row["bytes"]) for row in shown] == [tokenizer.token_bytes(id) for id, _ in often]

    order = sorted(range(len(documents)), key=lambda place: (-len(documents[place]), place))[:longest]
    rows = corpus.tables["longest_documents"]
    assert [(row["document"], row["start"], row["tokens"]) for row in rows] == [
        (place + 1, sum(map(len, documents[:place])), len(documents[place])) for place in order
    ]
    for row, place in zip(rows, order, strict=True):
        text = b"".join(tokenizer.token_bytes(id) or b"" for id in documents[place])
        assert row["beginning"] == text.decode(errors="replace")[:CHARACTERS]


def test_special_tokens_and_holes_are_not_called_never_seen(tmp_path: Path) -> None:
    corpus = describe_corpus(write(tmp_path / "t", [[97] * 3, [256] * 5], gappy_tokenizer()))
    ids = {row["count"]: (row["ids"], row["tokens"]) for row in corpus.tables["ids_by_count"]}
    assert ids == {
        "never seen": (IDS - 2, 0),
        "1-4": (1, 3),
        "5-99": (1, 5),
        "100 and more": (0, 0),
        "special": (2, 0),
        "hole": (9, 0),
    }


HARD = [[10] * 4, [27] * 3, list("é🙂".encode())[:-1]]  # newlines, escapes, a byte each with the last one missing
SKIPPED = [{"source": "x.txt", "document": 7 + place, "reason": "the tokenizer\ngave up"} for place in range(6)]


def test_tokens_that_are_hard_to_show(sgns: Sgns, tmp_path: Path) -> None:
    write(tmp_path / "t", HARD, bpe_tokenizer())
    out = sgns("info", "t", "--json").out
    assert out.removesuffix("\n").isprintable()
    corpus = json.loads(out)
    shown = [(row["token"], row["bytes"]) for row in corpus["frequent_tokens"]]
    assert shown[:4] == [("⏎", "0a"), ("<0x1B>", "1b"), ("<0x99>", "99"), ("<0x9F>", "9f")]
    assert [row["beginning"] for row in corpus["longest_documents"]] == ["é\ufffd", "\n" * 4, "\x1b" * 3]


def test_a_beginning_has_whole_characters(tmp_path: Path) -> None:
    text = "🙂" * (CHARACTERS - 1) + "éa"
    corpus = describe_corpus(write(tmp_path / "t", [list(text.encode()), [97]], bpe_tokenizer()))
    assert [row["beginning"] for row in corpus.tables["longest_documents"]] == [text[:CHARACTERS], "a"]


def test_words(sgns: Sgns, tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("b  a b\tc b\n\na c\n", encoding="utf-8")
    assert sgns("tokenize", "x.txt", "--encoding", "whitespace", "-o", "t").code == 0
    corpus = json.loads(sgns("info", "t", "--json").out)
    assert {name: corpus[name] for name in ("tokens", "documents", "types", "n_vocab", "text_bytes")} == {
        "tokens": 7,
        "documents": 2,
        "types": 3,
        "n_vocab": 3,
        "text_bytes": len("b  a b\tc b") + len("a c"),
    }
    assert [(row["token"], row["count"]) for row in corpus["frequent_tokens"]] == [("b", 3), ("a", 2), ("c", 2)]
    assert [row["beginning"] for row in corpus["longest_documents"]] == ["b a b c b", "a c"]
    assert [row["ids"] for row in corpus["ids_by_count"]] == [0, 3, 0, 0, 0, 0]


def test_one_document_of_one_token(tmp_path: Path) -> None:
    corpus = describe_corpus(write(tmp_path / "t", [[0]], WhitespaceTokenizer(["a"]), bytes=1))
    assert corpus.facts["tokens_per_document"] == corpus.facts["bytes_per_token"] == 1
    assert corpus.tables["longest_documents"] == [{"document": 1, "start": 0, "tokens": 1, "beginning": "a"}]
    assert corpus.tables["skipped_documents"] == []


def test_json_is_one_object_and_a_pipe_gets_its_facts(sgns: Sgns, tmp_path: Path) -> None:
    facts = {"sources": ["x.txt", "y.txt"], "notes": ["one thing", "another"], "skipped": SKIPPED}
    folder = write(tmp_path / "t", HARD, bpe_tokenizer(), **facts)
    result = sgns("info", "t", "--json")
    assert (result.code, result.err, result.out.count("\n")) == (0, "", 1)
    corpus = json.loads(result.out)
    assert (corpus["sources"], corpus["notes"], corpus["skipped"]) == (facts["sources"], facts["notes"], 6)
    assert corpus["skipped_documents"] == SKIPPED[:5]
    assert corpus["disk_bytes"] == sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    header, row = (line.split("\t") for line in sgns("info", "t").out.splitlines())
    tables = ["ids_by_count", "frequent_tokens", "longest_documents", "skipped_documents"]
    assert [*header, *tables] == list(corpus)
    assert dict(zip(header, row, strict=True))["notes"] == "one thing another"
    assert dict(zip(header, row, strict=True))["tokens"] == "12"


TERMINAL = """\
kind                  tokens
path                  t
sources               x.txt
                      y.txt
tokenizer             tiny
n_vocab               267
dtype                 uint16
documents             4
tokens                40012
types                 8
skipped               1
text_bytes            60
bytes_per_token       0.001
tokens_per_document   10003
notes                 one thing
                      another
ids by count
 count          ids   tokens   share_of_ids   share_of_tokens
 ────────────────────────────────────────────────────────────
 never seen     258        0          0.966             0.000
 1-4              7       12          0.026             0.000
 5-99             0        0          0.000             0.000
 100 and more     1    40000          0.004             1.000
 special          1        0          0.004             0.000
 hole             0        0          0.000             0.000
frequent tokens
 token     id   bytes   count   share_of_tokens
 ──────────────────────────────────────────────
 a         97   61      40000             1.000
 ⏎         10   0a          4             0.000
 <0x1B>    27   1b          3             0.000
 <0x99>   153   99          1             0.000
 <0x9F>   159   9f          1             0.000
 <0xA9>   169   a9          1             0.000
 <0xC3>   195   c3          1             0.000
 <0xF0>   240   f0          1             0.000
longest documents
 document   start   tokens   beginning
 ────────────────────────────────────────────────────────────────────────────
        4      12    40000   aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
        3       7        5   é�
        1       0        4   \\n\\n\\n\\n
        2       4        3   \\x1b\\x1b\\x1b
skipped documents
 source   document   reason
 ──────────────────────────────────────────
 x.txt           7   the tokenizer\\ngave up
"""


def test_a_terminal_shows_lines_and_tables(tmp_path: Path) -> None:
    pytest.importorskip("pty", reason="needs a terminal")
    from test_readme import shell

    facts = {"sources": ["x.txt", "y.txt"], "notes": ["one thing", "another"], "skipped": SKIPPED[:1]}
    write(tmp_path / "t", [*HARD, [97] * 40_000], bpe_tokenizer(), **facts)
    result = shell("sgns info t", tmp_path)
    assert result.code == 0
    assert [line for line in result.lines if "disk_bytes" not in line] == TERMINAL.splitlines()
    assert any(line.startswith("disk_bytes            ") for line in result.lines)


def swap_counts(folder: Path) -> None:
    counts = np.load(folder / "counts.npy")
    np.save(folder / "counts.npy", counts[::-1].copy())


def other_tokenizer(folder: Path) -> None:
    ranks = (folder / "tokenizer" / "ranks.tiktoken").read_text()
    (folder / "tokenizer" / "ranks.tiktoken").write_text(ranks.replace("Z29sZA==", "Z29sZQ=="))  # gold, gole


def change_byte(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def lay_tokens(*ids: int) -> Callable[[Path], object]:
    """As a stranger may lay them: with the right checksum."""

    def lay(folder: Path) -> None:
        data = np.array(ids, dtype="<u2").tobytes()
        (folder / "tokens.bin").write_bytes(data)
        checksums = json.loads((folder / "meta.json").read_text())["checksums"]
        change_meta(folder, checksums={**checksums, "tokens.bin": hashlib.sha256(data).hexdigest()})

    return lay


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "a file gone": (lambda folder: (folder / "documents.npy").unlink(), "documents.npy is missing"),
    "tokens cut": (lay_tokens(10), "tokens.bin has not the size"),
    "another token": (lambda folder: change_byte(folder / "tokens.bin"), "tokens.bin is not what was written"),
    "another fact": (lambda folder: change_byte(folder / "meta.json"), "meta.json is damaged"),
    "an id that was not counted": (lay_tokens(*[98] * 12), "counts.npy is not how often its ids occur"),
    "an id of no token": (lay_tokens(*[999] * 12), "tokens.bin has an id beyond those of its tokenizer"),
    "documents that begin elsewhere": (
        lambda folder: np.save(folder / "documents.npy", np.array([0, 5, 7, 12])),
        "documents.npy is not what was written",
    ),
    "counts of other ids": (swap_counts, "counts.npy is not what was written"),
    "another tokenizer": (other_tokenizer, "ranks.tiktoken is not what was written"),
    "another number of types": (lambda folder: change_meta(folder, types=8), "do not fit each other"),
    "another number of documents": (lambda folder: change_meta(folder, documents=2), "documents.npy is not 3 int64"),
    "bytes that are no number": (lambda folder: change_meta(folder, bytes="60"), "nothing proper of `bytes`"),
    "no sources": (lambda folder: change_meta(folder, sources=None), "nothing proper of `sources`"),
    "a tokenizer that is a name": (lambda folder: change_meta(folder, tokenizer="x"), "nothing proper of `tokenizer`"),
    "checksums in a list": (lambda folder: change_meta(folder, checksums=[]), "nothing proper of `checksums`"),
    "a skipped document unnamed": (lambda folder: change_meta(folder, skipped=[{}]), "nothing proper of `skipped`"),
    "a skipped document no object": (lambda folder: change_meta(folder, skipped=[1]), "nothing proper of `skipped`"),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("option", [[], ["--json"]])
def test_a_damaged_folder_is_an_error(sgns: Sgns, tmp_path: Path, damage: str, option: list[str]) -> None:
    folder = write(tmp_path / "t", HARD, bpe_tokenizer())
    assert sgns("info", "t", *option).code == 0
    spoil, words = DAMAGES[damage]
    spoil(folder)
    result = sgns("info", "t", *option)
    assert (result.code, result.out) == (1, "")
    what, hint = result.err.splitlines()
    assert what.startswith(("error: t is damaged: ", "error: t/meta.json is damaged: "))
    assert words in what
    assert hint in ("hint: remove it and make it again", "hint: make the folder again")


def test_a_special_token_that_occurs_is_counted_as_one(tmp_path: Path) -> None:
    special = bpe_tokenizer().n_vocab - 1
    corpus = describe_corpus(write(tmp_path / "t", [[97, special]], bpe_tokenizer()))
    assert corpus.tables["ids_by_count"][-2] == {
        "count": "special",
        "ids": 1,
        "tokens": 1,
        "share_of_ids": 1 / (special + 1),
        "share_of_tokens": 0.5,
    }
    assert corpus.tables["longest_documents"][0]["beginning"] == "a<|end|>"


def test_a_folder_with_a_token_of_no_bytes_is_refused(tmp_path: Path) -> None:
    folder = write(tmp_path / "t", [[97, IDS]], gappy_tokenizer())
    with pytest.raises(SgnsError, match=f"there is token id {IDS} in it"):
        describe_corpus(folder)


def test_a_report_imports_nothing_heavy(tmp_path: Path) -> None:
    write(tmp_path / "t", HARD, bpe_tokenizer())
    code = "import sys; from sgns_cli.cli import main; assert main(['info', 't']) == 0; print('LOADED', *sys.modules)"
    loaded = set(run_python(code, tmp_path).splitlines()[-1].split())
    assert "sgns_cli.corpus.report" in loaded
    assert not loaded & set(HEAVY)
