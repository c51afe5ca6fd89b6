"""From sources to a token folder."""

import io
import os

import numpy as np
import pytest
from corpora import GIVES_UP, TEXT, TRAINED, WHITESPACE, data, documents, write_hard_pattern

from sgns_cli.config import TokenizerConfig, TrainTokenizerConfig
from sgns_cli.corpus import build, reader, text_documents
from sgns_cli.corpus.build import build_token_folder, make_tokenizer
from sgns_cli.corpus.reader import CorpusReader, find_text_sources
from sgns_cli.corpus.token_cache import cached_token_folder
from sgns_cli.corpus.token_store import open_token_store
from sgns_cli.corpus.tokenizer import ranks_at_hand
from sgns_cli.errors import SgnsError


@pytest.fixture(autouse=True)
def small_corpora_are_worth_threads(monkeypatch):
    monkeypatch.setattr(build, "BYTES_A_THREAD", 1)


# Building


def test_whitespace_words(text, tmp_path):
    store = build_token_folder(data(text), WHITESPACE, tmp_path / "out")
    assert documents(store) == [
        [b"the", b"dog", b"saw", b"the", b"cat"],
        [b"the", b"cat"],
        ["à".encode(), "côté".encode()],
    ]
    assert [store.tokenizer().token_bytes(id) for id in range(6)] == [
        b"the",
        b"cat",
        b"dog",
        b"saw",
        "à".encode(),
        "côté".encode(),
    ]
    assert store.counts.tolist() == [3, 2, 1, 1, 1, 1]
    assert store.tokens.dtype == np.uint16
    meta = store.meta
    assert (meta["tokens"], meta["documents"], meta["types"]) == (9, 3, 6)
    assert meta["bytes"] == len("the dog saw the cat" + "the cat" + "   " + "à côté".encode().decode("latin-1"))
    assert meta["sources"] == [str(text)]
    assert meta["options"]["document"] == "line"
    assert meta["options"]["tokenizer"] == {"encoding": "whitespace", "train": None}
    assert (meta["skipped"], meta["notes"]) == ([], [])


def test_a_rank_file(text, ranks, tmp_path):
    store = build_token_folder(data(text), ranks, tmp_path / "out")
    assert b"".join(documents(store)[0]) == b"the dog saw the cat"
    assert store.tokens[:5].tolist() == [257, 32, ord("d"), ord("o"), ord("g")]
    assert [b"".join(document) for document in documents(store)][1:] == [b"the cat", b"   ", "à côté".encode()]
    assert store.meta["tokenizer"]["name"] == "small"


@pytest.mark.skipif(not ranks_at_hand("cl100k_base"), reason="the ranks of cl100k_base are not on this computer")
def test_the_default_is_cl100k_base(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("The dog fetched the ball\n<|endoftext|>\n")
    store = build_token_folder(data(path), TokenizerConfig(), tmp_path / "out")
    assert store.tokens[:5].tolist() == [791, 5679, 42542, 279, 5041]
    assert store.tokens.dtype == np.uint32
    assert len(store.counts) == 100277
    assert store.counts[100257] == 0
    assert b"".join(documents(store)[1]) == b"<|endoftext|>"


def test_a_trained_bpe_and_a_corpus_with_too_few_merges(text, tmp_path):
    store = build_token_folder(data(text), TRAINED, tmp_path / "out")
    assert b"".join(documents(store)[0]) == b"the dog saw the cat"
    assert len(store.counts) == store.meta["tokenizer"]["n_vocab"] == 270
    more = TokenizerConfig(train=TrainTokenizerConfig(vocab_size=5000, pattern="lines"))
    store = build_token_folder(data(text), more, tmp_path / "more")
    n_vocab = store.meta["tokenizer"]["n_vocab"]
    assert 256 < n_vocab < 5000
    assert store.meta["notes"] == [f"5000 tokens were asked for, the corpus has merges for {n_vocab}"]


def test_text_that_no_token_has_is_noted(text, ranks, tmp_path):
    words = TokenizerConfig(train=TrainTokenizerConfig(vocab_size=256, pattern="[a-z]+"))
    store = build_token_folder(data(text), words, tmp_path / "out")
    kept = len(b"".join(b"".join(document) for document in documents(store)))
    assert kept == sum(TEXT.count(letter) for letter in "abcdefghijklmnopqrstuvwxyz")
    assert store.meta["notes"] == [
        f"{store.meta['bytes'] - kept} of {store.meta['bytes']} bytes of text are in no token: "
        "the pattern does not match them"
    ]
    for whole in (WHITESPACE, ranks, TRAINED):
        assert build_token_folder(data(text), whole, tmp_path / "whole", overwrite=True).meta["notes"] == []


def test_records_without_text_are_counted(tmp_path):
    path = tmp_path / "records.jsonl"
    path.write_text('{"text": "a b"}\n{"text": null}\n{"other": 1}\n{"text": ""}\n{"text": "c"}\n')
    store = build_token_folder(data(path), WHITESPACE, tmp_path / "out")
    assert store.n_documents == 2
    assert store.meta["notes"] == [f"{path}: 3 records without text in 'text', left out"]


def test_the_default_tokenizer_is_named(text, tmp_path):
    if not ranks_at_hand("cl100k_base"):
        pytest.skip("the ranks of cl100k_base are not at hand")
    store = build_token_folder(data(text), TokenizerConfig(), tmp_path / "out")
    assert store.meta["options"]["tokenizer"] == {"encoding": "cl100k_base", "train": None}


def test_an_empty_folder_is_taken_and_no_other(text, tmp_path):
    (tmp_path / "out").mkdir()
    build_token_folder(data(text), WHITESPACE, tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "text.txt"]
    with pytest.raises(SgnsError, match="exists already"):
        build_token_folder(data(text), WHITESPACE, tmp_path / "out")
    with pytest.raises(SgnsError, match="exists already"):
        build_token_folder(data(text), WHITESPACE, text)


def test_lowercase_and_documents(text, ranks, tmp_path):
    text.write_text("THE\nDog\n\nTHE\n")
    store = build_token_folder(data(text, lowercase=True, document="paragraph"), ranks, tmp_path / "out")
    assert [b"".join(document) for document in documents(store)] == [b"the\ndog", b"the"]


def test_several_sources_in_their_order(tmp_path):
    for name in "ba":
        (tmp_path / f"{name}.txt").write_text(f"{name}1\n{name}2\n")
    sources = data(tmp_path / "b.txt", "-", tmp_path / "a.txt")
    store = build_token_folder(sources, WHITESPACE, tmp_path / "out", stdin=io.BytesIO(b"in"))
    assert documents(store) == [[b"b1"], [b"b2"], [b"in"], [b"a1"], [b"a2"]]


def test_standard_input_serves_for_training_and_for_tokens(tmp_path):
    class Pipe(io.BytesIO):
        def seekable(self):
            return False

    store = build_token_folder(data("-"), TRAINED, tmp_path / "out", stdin=Pipe(b"aa aa aa"))
    assert b"".join(documents(store)[0]) == b"aa aa aa"
    assert store.tokenizer().id_of(b"aa") == 256


@pytest.mark.parametrize("threads", [2, 5])
def test_threads_change_nothing(tmp_path, ranks, monkeypatch, threads):
    monkeypatch.setattr(text_documents, "BLOCK", 64)
    path = tmp_path / "a.txt"
    path.write_text("".join(f"line {i} of the file\n" * (i % 3) for i in range(300)))
    one = build_token_folder(data(path), ranks, tmp_path / "one")
    many = build_token_folder(data(path), ranks, tmp_path / "many", threads=threads)
    assert many.fingerprint == one.fingerprint
    assert (tmp_path / "many" / "meta.json").read_bytes() == (tmp_path / "one" / "meta.json").read_bytes()


def test_few_batches_are_in_memory_at_a_time():
    begun = []

    def batches():
        for number in range(50):
            begun.append(number)
            yield text_documents.DocumentBatch("x", number, [], 0)

    taken = 0
    for _ in build._in_order(lambda batch: batch, batches(), 3):
        taken += 1
        assert len(begun) - taken <= 3
    assert taken == 50


def test_a_small_file_has_one_thread_and_a_stream_as_many_as_reading_can_feed(text, monkeypatch):
    monkeypatch.setattr(build, "BYTES_A_THREAD", text.stat().st_size)
    for sources, threads in (([text], 2), ([text] * 3, 4), (["-"], 8)):
        corpus = CorpusReader(data(*sources), find_text_sources(data(*sources)))
        assert build._useful_threads(corpus, 20) == threads
    assert build._useful_threads(corpus, 3) == 3


def test_progress(text, tmp_path, monkeypatch):
    monkeypatch.setattr(reader, "SECONDS_BETWEEN_REPORTS", 0)
    reports = []
    build_token_folder(data(text), TRAINED, tmp_path / "out", progress=reports.append)
    assert [report.stage for report in reports] == ["reading", "merging", "tokens"]  # nothing is said twice
    size = text.stat().st_size
    assert all(report.bytes_total == size for report in reports)
    assert [report.bytes for report in reports] == [size, 38, size]  # merging has the text of its sample alone
    assert reports[-1].documents == 4
    assert reports[-1].tokens == open_token_store(tmp_path / "out").meta["tokens"]
    reports.clear()
    build_token_folder(data("-"), WHITESPACE, tmp_path / "in", progress=reports.append, stdin=io.BytesIO(b"a b"))
    assert (reports[-1].bytes, reports[-1].bytes_total) == (3, None)
    monkeypatch.setattr(reader, "SECONDS_BETWEEN_REPORTS", 1000)
    reports.clear()
    (tmp_path / "more.txt").write_text("a b")
    (tmp_path / "most.txt").write_text("c")
    three = data(text, tmp_path / "more.txt", tmp_path / "most.txt")
    build_token_folder(three, WHITESPACE, tmp_path / "rare", progress=reports.append)
    assert [report.documents for report in reports] == [4, 6]  # the first and the last


def test_a_document_that_the_encoder_gives_up_on_is_skipped_and_noted(tmp_path, ranks):
    give_up = write_hard_pattern(ranks)
    (tmp_path / "a.txt").write_text(f"one two\n{GIVES_UP}\nthree\n{GIVES_UP}\n")
    (tmp_path / "b.txt").write_text(GIVES_UP)
    sources = data(tmp_path / "a.txt", tmp_path / "b.txt")
    for threads in (1, 3):
        store = build_token_folder(sources, give_up, tmp_path / f"out{threads}", threads=threads)
        assert [b"".join(document) for document in documents(store)] == [b"one two", b"three"]
        skipped = [(entry["source"], entry["document"]) for entry in store.meta["skipped"]]
        assert skipped == [(str(tmp_path / "a.txt"), 2), (str(tmp_path / "a.txt"), 4), (str(tmp_path / "b.txt"), 1)]
        assert all("gave up" in entry["reason"] for entry in store.meta["skipped"])
        assert store.meta["bytes"] == len("one twothree")


@pytest.mark.parametrize("content", ["\n\n", "   \n\t\n"])
def test_a_corpus_without_a_token_is_refused(text, tmp_path, content):
    text.write_text(content)
    with pytest.raises(SgnsError, match="there is no token in"):
        build_token_folder(data(text), WHITESPACE, tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["text.txt"]


def test_a_bad_byte_leaves_nothing_behind(text, ranks, tmp_path):
    text.write_bytes(b"good\n" * 10 + b"\xff\n")
    for threads in (1, 3):
        with pytest.raises(SgnsError, match="not UTF-8 at byte 50"):
            build_token_folder(data(text), ranks, tmp_path / "out", threads=threads)
    with pytest.raises(SgnsError, match="not UTF-8 at byte 50"):
        build_token_folder(data(text), TRAINED, tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ranks", "text.txt"]
    store = build_token_folder(data(text, errors="replace"), ranks, tmp_path / "out")
    assert b"".join(documents(store)[-1]) == "\ufffd".encode()


def test_a_folder_that_exists_is_kept_unless_asked(text, tmp_path):
    build_token_folder(data(text), WHITESPACE, tmp_path / "out")
    text.write_text("other\n")
    with pytest.raises(SgnsError, match="exists already"):
        build_token_folder(data(text), WHITESPACE, tmp_path / "out")
    assert open_token_store(tmp_path / "out").meta["tokens"] == 9
    assert build_token_folder(data(text), WHITESPACE, tmp_path / "out", overwrite=True).meta["tokens"] == 1


def test_a_token_folder_is_no_text(text, tmp_path):
    build_token_folder(data(text), WHITESPACE, tmp_path / "tokens")
    with pytest.raises(SgnsError, match="is a token folder already"):
        build_token_folder(data(tmp_path / "tokens"), WHITESPACE, tmp_path / "out")
    with pytest.raises(SgnsError, match="is a token folder already"):
        cached_token_folder(data(text, tmp_path / "tokens"), WHITESPACE, tmp_path / "cache")


@pytest.mark.parametrize("config", [WHITESPACE, TRAINED])
def test_the_tokenizer_alone_is_that_of_the_folder(text, tmp_path, config):
    store = build_token_folder(data(text), config, tmp_path / "out")
    corpus = CorpusReader(data(text), find_text_sources(data(text)))
    assert make_tokenizer(corpus, config).fingerprint == store.tokenizer().fingerprint


def test_a_named_tokenizer_needs_no_source(ranks):
    assert make_tokenizer(CorpusReader(data("not there"), []), ranks).name == "small"


@pytest.mark.parametrize("config", [WHITESPACE, TRAINED])
def test_a_pipe_is_not_read_twice(tmp_path, config):
    os.mkfifo(tmp_path / "pipe.txt")
    reader = CorpusReader(data(tmp_path / "pipe.txt"), find_text_sources(data(tmp_path / "pipe.txt")))
    with pytest.raises(SgnsError, match="is a pipe") as caught:
        make_tokenizer(reader, config)
    assert "standard input" in caught.value.hint
    with pytest.raises(SgnsError, match="is a pipe"):
        cached_token_folder(data(tmp_path / "pipe.txt"), config, tmp_path / "cache")


def test_a_file_name_that_is_no_text(tmp_path):
    path = tmp_path / os.fsdecode(b"\xff.txt")
    try:
        path.write_text("a b")
    except OSError:
        pytest.skip("this system has no such file names")
    store = build_token_folder(data(path), WHITESPACE, tmp_path / "out")
    assert open_token_store(store.folder, verify=True).meta["sources"] == [str(path)]
