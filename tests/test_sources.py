"""Sources become documents: what is read, in which order, where a document ends, and what is refused."""

import bz2
import gzip
import io
import lzma
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sgns_cli.config import DataConfig
from sgns_cli.corpus import sources, text_documents
from sgns_cli.corpus.findings import Findings
from sgns_cli.corpus.source_paths import find_sources
from sgns_cli.corpus.sources import count_bytes, documents, source_documents
from sgns_cli.corpus.unpack import zstd
from sgns_cli.errors import SgnsError, UsageError

pytestmark = pytest.mark.usefixtures("no_network")


def texts(*paths, stdin=None, **options):
    data = DataConfig(sources=[str(source) for source in paths], **options)
    return [text for batch in documents(data, stdin=stdin) for text in batch.texts]


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


# Documents


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        ("a\nb\n", ["a", "b"]),
        ("a\nb", ["a", "b"]),
        ("a\r\nb\r\n", ["a", "b"]),
        ("\n\na\n\n\nb\n", ["a", "b"]),
        ("a\r\n\r\n\n", ["a"]),
        ("a\rb\n", ["a\rb"]),
        ("a\r\r\nb\r", ["a\r", "b\r"]),
        ("a\u2028b\x0bc\x85d\n", ["a\u2028b\x0bc\x85d"]),
        ("  \n a \n", ["  ", " a "]),
        ("\ufeffa\n\ufeffb", ["a", "\ufeffb"]),
        ("\ufeff\na", ["a"]),
        ("\n", []),
    ],
)
def test_lines(tmp_path, content, lines):
    assert texts(write(tmp_path / "a.txt", content)) == lines


@pytest.mark.parametrize(
    ("content", "paragraphs"),
    [
        ("a\nb\n\nc\n", ["a\nb", "c"]),
        ("\n\na\n\n\n\nb\nc", ["a", "b\nc"]),
        ("a\r\nb\r\n\r\nc", ["a\nb", "c"]),
        ("a\n \t\nb", ["a", "b"]),
        (" a\nb \n", [" a\nb "]),
    ],
)
def test_paragraphs(tmp_path, content, paragraphs):
    assert texts(write(tmp_path / "a.txt", content), document="paragraph") == paragraphs


@pytest.mark.parametrize("content", ["a\r\nb\n\n\nc\n", " ", "\n"])
def test_a_file_is_its_exact_text(tmp_path, content):
    assert texts(write(tmp_path / "a.txt", content), document="file") == [content]
    assert texts(write(tmp_path / "b.txt", "\ufeff" + content), document="file") == [content]


def test_lowercase_is_pythons(tmp_path):
    path = write(tmp_path / "a.txt", "ÀB İ\nΟΔΟΣ ΣΑΣ\n")
    assert texts(path, lowercase=True) == ["àb i̇", "οδος σας"]
    assert texts(path, lowercase=True, document="file") == ["àb i̇\nοδος σας\n"]


@given(st.text(alphabet="aé🙂\n\r\u2028 "), st.integers(1, 7), st.sampled_from(["line", "paragraph", "file"]))
def test_the_size_of_blocks_changes_nothing(text, size, document):
    def read():
        blocks = text_documents.read_blocks(io.BytesIO(text.encode()), "x", errors="strict")
        batches = text_documents.stream_documents(blocks, "x", document=document, lowercase=False)
        return [text for batch in batches for text in batch.texts]

    whole = read()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_documents, "BLOCK", size)
        assert read() == whole
    if document == "line":
        lines = text.split("\n")
        ends = [line.removesuffix("\r") for line in lines[:-1]] + lines[-1:]
        assert whole == [line for line in ends if line]


def test_batches_know_their_source_and_number(tmp_path, monkeypatch):
    monkeypatch.setattr(text_documents, "BLOCK", 4)
    first, second = write(tmp_path / "a.txt", "a\n\nb\nc\nd\n"), write(tmp_path / "b.txt", "e\n")
    batches = list(documents(DataConfig(sources=[str(first), str(second)])))
    numbered = [(batch.origin, batch.first + i, text) for batch in batches for i, text in enumerate(batch.texts)]
    assert numbered == [(str(first), i + 1, text) for i, text in enumerate("abcd")] + [(str(second), 1, "e")]
    assert batches[-1].bytes_read == 2


# Bytes


@pytest.mark.parametrize("block", [1, 3, 1000])
@pytest.mark.parametrize(
    ("content", "at"),
    [
        (b"abc\xffdef", 3),
        (b"\xef\xbb\xbfab\xff", 5),
        ("é🙂".encode() + b"\xe2\x80", 6),
        (b"ab\n" * 10 + b"\xc3(", 30),
        (b"\xff\xfea\x00", 0),
        (b"\xed\xa0\x80", 0),
    ],
)
def test_a_bad_byte_is_named(tmp_path, monkeypatch, block, content, at):
    monkeypatch.setattr(text_documents, "BLOCK", block)
    path = write(tmp_path / "a.txt", content)
    with pytest.raises(SgnsError, match=rf"a\.txt is not UTF-8 at byte {at}: 0x") as caught:
        texts(path)
    assert "data.errors" in caught.value.hint
    for document in ("line", "file"):
        assert texts(path, errors="replace", document=document) == [
            line
            for line in ([content.decode(errors="replace").removeprefix("\ufeff")])
            for line in (line.split("\n") if document == "line" else [line])
        ]


def test_utf16_is_recognized(tmp_path):
    with pytest.raises(SgnsError, match="looks like UTF-16"):
        texts(write(tmp_path / "a.txt", "abc".encode("utf-16")))


@pytest.mark.parametrize(
    ("suffix", "pack"),
    [(".gz", gzip.compress), (".xz", lzma.compress), (".bz2", bz2.compress), (".zst", zstd.compress)],
)
def test_compressed_text(tmp_path, suffix, pack):
    data = "first line\nsecond é\n".encode() * 100
    whole = write(tmp_path / f"a.txt{suffix}", pack(data))
    assert texts(whole) == ["first line", "second é"] * 100
    cut = write(tmp_path / f"cut{suffix}", pack(data)[:-12])
    with pytest.raises(SgnsError, match="cannot unpack"):
        texts(cut)
    bad = write(tmp_path / f"bad{suffix}", pack(data + b"\xff"))
    with pytest.raises(SgnsError, match=f"not UTF-8 at byte {len(data)}"):
        texts(bad)
    with pytest.raises(SgnsError, match="cannot"):
        texts(write(tmp_path / f"not{suffix}", b"plain text"))


# Which files


@pytest.fixture
def tree(tmp_path):
    for name in ("b.txt", "a/z.md", "a/b.TXT.gz", "c.gz", "d.jsonl"):
        write(tmp_path / name, gzip.compress(b"x\n") if name.endswith("gz") else f"{name}\n")
    for name in ("e.png", ".hidden.txt", ".git/x.txt", "f.tar.gz", "g.py", "empty.txt"):
        write(tmp_path / name, "" if name == "empty.txt" else "never read")
    return tmp_path


def names(tree, *sources):
    return [source.name.removeprefix(f"{tree}/") for source in find_sources([str(source) for source in sources])]


def test_a_folder_is_read_whole_in_a_stable_order(tree):
    assert names(tree, tree) == ["a/b.TXT.gz", "a/z.md", "b.txt", "c.gz", "d.jsonl"]
    assert [source.kind for source in find_sources([str(tree)])] == ["text", "text", "text", "text", "records"]


def test_a_glob_takes_any_suffix_and_no_hidden_files(tree):
    assert names(tree, tree / "*") == ["b.txt", "c.gz", "d.jsonl", "e.png", "f.tar.gz", "g.py"]
    assert names(tree, tree / "**" / "*.md") == ["a/z.md"]
    assert names(tree, tree / "[bg].*") == ["b.txt", "g.py"]


def test_sources_keep_their_order_and_a_name_with_brackets_is_a_name(tree):
    write(tree / "[x].txt", "x\n")
    assert names(tree, tree / "g.py", tree / "[x].txt", tree / "b.txt") == ["g.py", "[x].txt", "b.txt"]
    assert texts(tree / "g.py", tree / "b.txt") == ["never read", "b.txt"]


def test_paths_may_be_relative_or_begin_with_a_tilde(tree, monkeypatch):
    monkeypatch.chdir(tree)
    monkeypatch.setenv("HOME", str(tree))
    assert texts("b.txt", "~/b.txt", "./b*") == ["b.txt"] * 3


def test_a_pipe_is_a_file(tmp_path):
    reading, writing = os.pipe()
    os.write(writing, b"a\nb\n")
    os.close(writing)
    try:
        assert texts(f"/dev/fd/{reading}") == ["a", "b"]
    finally:
        os.close(reading)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("nothing.txt", "does not exist"),
        ("empty.txt", "is empty"),
        ("folder", "has no text in it"),
        ("*.nothing", "no file matches"),
        ("em*.txt", "every file is empty"),
        ("", "has no text in it"),
    ],
)
def test_nothing_to_read_is_an_error_before_anything_is_read(tmp_path, name, wrong):
    write(tmp_path / "empty.txt", "")
    write(tmp_path / "folder" / "x.png", "x")
    if not name:
        (tmp_path / "folder" / "x.png").unlink()
        name = "folder"
    with pytest.raises(SgnsError, match=wrong) as caught:
        documents(DataConfig(sources=[str(tmp_path / name)]))
    assert caught.value.hint


@pytest.mark.parametrize(("name", "error"), [("", UsageError), ("a\0b", SgnsError), ("x" * 5000, SgnsError)])
def test_names_that_no_file_can_have(name, error):
    with pytest.raises(error):
        find_sources([name])


def test_standard_input():
    assert texts("-", stdin=io.BytesIO(b"\xef\xbb\xbfa\r\nb")) == ["a", "b"]
    with pytest.raises(SgnsError, match="standard input is not UTF-8 at byte 1"):
        texts("-", stdin=io.BytesIO(b"a\xff"))
    with pytest.raises(UsageError, match="given twice"):
        texts("-", "-", stdin=io.BytesIO(b"a"))


# Structured files


def test_each_record_is_a_document_and_no_network_is_asked(tmp_path, no_network, monkeypatch):
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    records = '{"text": "one\\n\\ntwo", "id": 1}\n{"text": ""}\n{"text": null}\n{"id": 2}\n{"text": "CAFÉ"}\n'
    jsonl = write(tmp_path / "a.jsonl", records)
    packed = write(tmp_path / "a.jsonl.gz", gzip.compress(records.encode()))
    zipped = write(tmp_path / "a.jsonl.zst", zstd.compress(records.encode()))
    table = write(tmp_path / "a.csv", 'id,text\n1,"two\nlines"\n2,NA\n3,007\n4,\n')
    tabs = write(tmp_path / "a.tsv", "text\tid\nnull\t1\n1e3\t2\n")
    assert texts(jsonl) == texts(zipped) == ["one\n\ntwo", "CAFÉ"]
    assert texts(packed, lowercase=True, document="paragraph") == ["one\n\ntwo", "café"]
    assert texts(table) == ["two\nlines", "NA", "007"]
    assert texts(table, column="id") == ["1", "2", "3", "4"]
    assert texts(tabs) == ["null", "1e3"]
    assert not no_network


def test_parquet(tmp_path, no_network, monkeypatch):
    import pyarrow
    import pyarrow.parquet

    path = tmp_path / "a.parquet"
    content = {"body": [f"text {i}" for i in range(2500)], "n": list(range(2500))}
    pyarrow.parquet.write_table(pyarrow.table(content), path)
    monkeypatch.setattr(sources, "BLOCK", 4000)
    batches = list(documents(DataConfig(sources=[str(path)], column="body")))
    assert [text for batch in batches for text in batch.texts] == content["body"]
    numbers = [batch.first + index for batch in batches for index in range(len(batch.texts))]
    assert numbers == list(range(1, 2501))
    assert len(batches) > 5
    assert batches[-1].bytes_read == sum(map(len, content["body"]))
    assert not no_network


@pytest.mark.parametrize(
    ("name", "content", "column", "wrong"),
    [
        ("a.jsonl", '{"body": "x", "id": 1}\n', "text", "has no column 'text'"),
        ("a.csv", "body,id\nx,1\n", "text", "has no column 'text'"),
        ("a.jsonl", '{"body": "x", "id": 1}\n', "id", "column 'id' holds int, not text"),
        ("a.jsonl", '{"body": "x"\n', "body", "line 1: no JSON"),
        ("a.jsonl", b'{"body": "x"}\n{"body": "\xff"}\n', "body", "not UTF-8 at byte 24: 0xFF"),
        ("a.csv", b"body,id\nx,1\n\xffy,2\n", "body", "not UTF-8 at byte 12: 0xFF"),
        ("a.parquet", b"PAR1 it is not", "body", "cannot read"),
    ],
)
def test_a_bad_structured_file_is_one_error(tmp_path, name, content, column, wrong):
    with pytest.raises(SgnsError, match=wrong) as caught:
        texts(write(tmp_path / name, content), column=column)
    if "no column" in wrong:
        assert "body, id" in caught.value.hint


def test_bad_bytes_in_structured_files_can_be_replaced(tmp_path):
    assert texts(write(tmp_path / "a.csv", b"text,id\n\xffy,2\n"), errors="replace") == ["\ufffdy"]


# The hub


def test_a_hub_name_without_a_network_is_one_error(no_network):
    with pytest.raises(SgnsError, match="cannot read hf:some/name:config from the Hugging Face hub") as caught:
        texts("hf:some/name:config")
    assert "give files of the data set as sources" in caught.value.hint
    assert len(no_network) <= 2


@pytest.mark.parametrize("name", ["hf:", "hf:a:b:c:d"])
def test_a_hub_name_has_at_most_three_parts(name):
    with pytest.raises(UsageError, match="names no data set"):
        documents(DataConfig(sources=[name]))


def test_a_hub_data_set_is_streamed(monkeypatch):
    import datasets
    import huggingface_hub

    asked = {}

    def load_dataset(path, name=None, **options):
        asked.update(path=path, name=name, **options)
        return datasets.Dataset.from_dict({"text": ["a", "b"], "n": [1, 2]}).to_iterable_dataset()

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    monkeypatch.setattr(huggingface_hub.HfApi, "dataset_info", lambda self, name, timeout: None)
    assert texts("hf:some/name:config:test") == ["a", "b"]
    assert asked == {"path": "some/name", "name": "config", "split": "test", "streaming": True}
    assert texts("hf:name") == ["a", "b"]
    assert asked == {"path": "name", "name": None, "split": "train", "streaming": True}
    with pytest.raises(SgnsError, match="has no column 'body'"):
        texts("hf:name", column="body")


def test_bytes_are_counted_no_further_than_needed(tmp_path, monkeypatch):
    monkeypatch.setattr(text_documents, "BLOCK", 10)
    path = write(tmp_path / "a.txt", "é\n".encode() * 100)
    config = DataConfig(sources=[str(path)])
    assert count_bytes(config, at_most=1000) == 200
    assert count_bytes(config, at_most=50) == 50
    write(path, b"\n\n")
    assert count_bytes(config, at_most=50) == 0
    for name in ("-", "hf:someone/something"):
        assert count_bytes(DataConfig(sources=[str(path), name]), at_most=50) is None


def test_records_without_text_are_counted(tmp_path):
    path = write(tmp_path / "a.csv", b"n,text\n1,\n2,some\n3,\n")
    findings = Findings("a.csv")
    (source,) = find_sources([str(path)])
    (batch,) = source_documents(source, DataConfig(sources=[str(path)]), findings=findings)
    assert (batch.texts, findings.without_text) == (["some"], 2)
    assert list(findings.notes("text")) == ["a.csv: 2 records without text in 'text', left out"]


@pytest.mark.parametrize("block", [1, 4, 1000])
def test_nul_bytes_and_replaced_ones_are_found(tmp_path, monkeypatch, block):
    monkeypatch.setattr(text_documents, "BLOCK", block)
    path = write(tmp_path / "a.txt", "ab\0c\nd\0 \ufffd\n".encode() + b"x\xffy\xe2\x80z")
    findings = Findings("a.txt")
    data = DataConfig(sources=[str(path)], errors="replace")
    batches = source_documents(*find_sources(data.sources), data, findings=findings)
    assert [text for batch in batches for text in batch.texts] == ["ab\0c", "d\0 \ufffd", "x\ufffdy\ufffdz"]
    assert findings == Findings("a.txt", nul_bytes=2, first_nul=2, replaced=2)
    assert list(findings.notes("text")) == [
        "a.txt: 2 NUL bytes in the text, the first at byte 2",
        "a.txt: 2 places not UTF-8, replaced by U+FFFD",
    ]


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ("some words".encode("utf-16"), "looks like UTF-16"),
        ("some words of text".encode("utf-16-le"), "looks like UTF-16"),
        ("some words of text".encode("utf-16-be"), "looks like UTF-16"),
        (gzip.compress(b"text"), r"looks like a \.gz file"),
        (zstd.compress(b"text"), r"looks like a \.zst file"),
        (b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n", "looks like a PDF file"),
        (b"\x7fELF\x02\x01\x01\0\0\0\xff", "looks like a binary file"),
        (b"text" * 10 + bytes(300), "text: 300 of its first 340 bytes are NUL .it looks like a binary file"),
        (b"caf\xe9", "0xE9$"),
    ],
)
def test_a_file_that_is_no_text_is_named_and_goes_on_if_that_is_wanted(tmp_path, content, what):
    path = write(tmp_path / "a.txt", content)
    with pytest.raises(SgnsError, match=rf"a\.txt is no.*{what}"):
        texts(path)
    assert "".join(texts(path, errors="replace", document="file")) == content.decode(errors="replace")


def test_a_few_nul_bytes_are_text(tmp_path):
    content = "\0".join("0123456789abcdef") + "\0"
    assert texts(write(tmp_path / "a.txt", content)) == [content]


def test_records_are_batched_by_size(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "BLOCK", 10)
    path = write(tmp_path / "a.jsonl", "".join(f'{{"text": "{"x" * n}"}}\n' for n in (4, 6, 30, 1, 2)))
    batches = list(documents(DataConfig(sources=[str(path)])))
    assert [list(map(len, batch.texts)) for batch in batches] == [[4, 6], [30], [1, 2]]
    assert [batch.first for batch in batches] == [1, 3, 4]
    assert batches[-1].bytes_read == path.stat().st_size


@pytest.mark.parametrize(("suffix", "pack"), [(".xz", lzma.compress), (".bz2", bz2.compress)])
def test_all_streams_of_a_packed_file_are_read_or_it_is_damaged(tmp_path, suffix, pack):
    first, second = pack(b"first\n"), pack(b"second\n")
    assert texts(write(tmp_path / f"a{suffix}", first + second)) == ["first", "second"]
    assert texts(write(tmp_path / f"a{suffix}", first + bytes(8) + second + bytes(4))) == ["first", "second"]
    damaged = bytes([second[0], second[1] ^ 1]) + second[2:]
    for rest in (damaged, b"rest", second[:-5], second[:4]):
        with pytest.raises(SgnsError, match="cannot unpack") as caught:
            texts(write(tmp_path / f"a{suffix}", first + rest))
        assert "damaged or cut short" in caught.value.hint


def test_a_damaged_gz_is_no_matter_of_rights(tmp_path):
    for content in (gzip.compress(b"text")[:-6] + b"xxxxxx", b"no gzip", gzip.compress(b"text") + b"rest"):
        with pytest.raises(SgnsError, match="cannot unpack"):
            texts(write(tmp_path / "a.gz", content))


def test_a_glob_goes_into_no_link_and_takes_no_hidden_file(tmp_path, monkeypatch):
    write(tmp_path / "d" / "sub" / "a.txt", "a")
    write(tmp_path / "d" / ".hidden" / "b.txt", "b")
    (tmp_path / "d" / "sub" / "loop").symlink_to(tmp_path / "d")
    (tmp_path / "link").symlink_to(tmp_path / "d" / "sub")
    assert texts(tmp_path / "d" / "**" / "*.txt") == texts(tmp_path / "link" / "*.txt") == ["a"]
    assert texts(tmp_path / "d" / ".hidden" / "*.txt") == ["b"]
    monkeypatch.chdir(tmp_path / "d" / "sub")
    assert texts("../sub/*.txt") == texts("**/*.txt") == ["a"]
