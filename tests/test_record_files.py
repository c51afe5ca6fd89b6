"""Records of .jsonl, .csv and .tsv: the text as it stands in the file, and what is wrong by its line."""

import csv
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sgns_cli.config import DataConfig
from sgns_cli.corpus import record_files
from sgns_cli.corpus.sources import documents
from sgns_cli.errors import SgnsError


def texts(path, content, **options):
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))
    return [text for batch in documents(DataConfig(sources=[str(path)], **options)) for text in batch.texts]


TEXTS = st.lists(st.text().filter(bool) | st.sampled_from(["2024-01-02T00:00:00Z", "2020-01-01", "NA", "null", "007"]))


@given(TEXTS, st.booleans())
def test_json_texts_come_as_they_are(tmp_path_factory, strings, ascii):
    strings = [text for text in strings if ascii or text.isprintable()]
    lines = [json.dumps({"n": number, "text": text}, ensure_ascii=ascii) for number, text in enumerate(strings)]
    assert texts(tmp_path_factory.getbasetemp() / "a.jsonl", "\n".join(lines) + "\n") == strings


@given(TEXTS, st.sampled_from([("a.csv", ","), ("a.tsv", "\t")]))
def test_table_texts_come_as_they_are(tmp_path_factory, strings, kind):
    name, delimiter = kind
    written = io.StringIO(newline="")
    writer = csv.writer(written, delimiter=delimiter, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerows([["n", "text"], *([number, text] for number, text in enumerate(strings))])
    expected = [text.replace("\r\n", "\n") for text in strings]  # an end of a line, also where it is quoted
    assert texts(tmp_path_factory.getbasetemp() / name, written.getvalue()) == expected


def test_columns_that_nobody_asked_for_may_be_anything(tmp_path):
    rows = ['{"id": 1, "text": "a"}', '{"id": "x", "text": "b", "more": {"x": [1]}}', '{"id": 1e999999, "text": "c"}']
    assert texts(tmp_path / "a.jsonl", "\r\n".join(rows)) == ["a", "b", "c"]
    late = '{"id": 1}\n' * 3 + '{"text": "late"}\n'
    assert texts(tmp_path / "a.jsonl", late) == ["late"]


def test_half_a_surrogate_and_bad_bytes(tmp_path):
    assert texts(tmp_path / "a.jsonl", r'{"text": "a\ud800b"}') == ["a\ud800b"]
    bad = b'{"text": "good"}\n{"text": "caf\xe9"}\n'
    with pytest.raises(SgnsError, match="not UTF-8 at byte 30: 0xE9"):
        texts(tmp_path / "a.jsonl", bad)
    assert texts(tmp_path / "a.jsonl", bad, errors="replace") == ["good", "caf\ufffd"]


@pytest.mark.parametrize(
    ("name", "content", "wrong"),
    [
        ("a.jsonl", '{"text": "a"}\n\n{"text": "b"\n', "line 3: no JSON"),
        ("a.jsonl", '{"text": "a"}\n["b"]\n', "line 2: no JSON object"),
        ("a.jsonl", '{"text": "a", "x": ' + "[" * 100_000 + "]" * 100_000 + "}", "line 1: no JSON"),
        ("a.jsonl", '{"text": "a"}\n{"text": 12}\n', "line 2: column 'text' holds int"),
        ("a.csv", "text\nHello, world\n", "line 2: 2 fields, and the header has 1"),
        ("a.csv", "text\ra\rb\r", "line 1: new-line character"),
        ("a.tsv", "n,text\n1,a\n", "has no column 'text'"),
    ],
)
def test_what_is_wrong_is_named_by_its_line(tmp_path, name, content, wrong):
    with pytest.raises(SgnsError, match=wrong):
        texts(tmp_path / name, content)


def test_a_column_that_never_comes_is_not_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(record_files, "MOST_WITHOUT", 10)
    with pytest.raises(SgnsError, match="has no column 'text'") as caught:
        texts(tmp_path / "a.jsonl", '{"body": 1, "id": 2}\n' * 12 + '{"text": "too late"}\n')
    assert "body, id" in caught.value.hint
    assert texts(tmp_path / "a.jsonl", '{"body": 1, "id": 2}\n' * 9 + '{"text": "in time"}\n') == ["in time"]


def test_a_field_may_be_a_long_text(tmp_path):
    assert texts(tmp_path / "a.csv", "text\n" + "x" * 1_000_000 + "\n") == ["x" * 1_000_000]


@pytest.mark.parametrize(
    ("rows", "line"), [('"a b\nc d\n', 2), ('x\n"a ""b""\n\nc,d', 3), ('"five 5"" disks\nand no end', 2)]
)
def test_a_quote_that_is_never_closed_is_told(tmp_path, rows, line):
    with pytest.raises(SgnsError, match=rf"t.csv, line {line}: a quote is opened and never closed"):
        texts(tmp_path / "t.csv", f"text\n{rows}")


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        ('"a b\nc d"\n', ["a b\nc d"]),
        ('"a 5"" disk\n"\n', ['a 5" disk\n']),
        ('5" disk\n7" disk', ['5" disk', '7" disk']),
    ],
)
def test_quotes_that_are_closed_or_are_none_are_read(tmp_path, rows, found):
    assert texts(tmp_path / "t.csv", f"text\n{rows}") == found
