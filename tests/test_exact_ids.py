"""The ids in a token folder are tiktoken's encode_ordinary of each whole document, and the documents those of the
sources in their order: however the text was batched, with any number of threads.

What is right is never asked of the package itself: tiktoken builds the encodings, and texts are cut here.
"""

import base64
import gzip
import io
import itertools
import json
import random
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import tiktoken
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from sgns_cli.config import PATTERNS, DataConfig, TokenizerConfig, TrainTokenizerConfig
from sgns_cli.corpus import build, text_documents
from sgns_cli.corpus.bpe import SEPARATOR
from sgns_cli.corpus.bpe_trainer import train_bpe
from sgns_cli.corpus.build import build_token_folder
from sgns_cli.corpus.token_store import TokenStore, open_token_store

THREADS = [1, 2, 5]
KJV = (Path(__file__).parents[1] / "data" / "kjv.txt").read_text(encoding="utf-8")
# Strings of characters that no text should have, and that documents could be joined with.
RARE = [
    SEPARATOR,
    "\ufdd0\ufdd1",
    "\ufdd0",
    "\ufdd1",
    "\ufffe",
    "\uffff",
    "\U0010ffff",
    "\x1c\x1d\x1e\x1f",
    "\x1e",
    "\x03",
]
LOOK_ALIKES = [
    *RARE,
    *(rare * 2 for rare in RARE),
    SEPARATOR[::-1],
    *(SEPARATOR[:cut] for cut in range(1, len(SEPARATOR))),
    *(SEPARATOR[cut:] for cut in range(1, len(SEPARATOR))),
    *(SEPARATOR[:cut] + SEPARATOR for cut in range(1, len(SEPARATOR))),
    *(SEPARATOR + SEPARATOR[cut:] for cut in range(1, len(SEPARATOR))),
]
HARD = [
    " ",
    "     ",
    "\t \t",
    "  ends in spaces   ",
    "\u00a0\u2003\u3000",
    "word",
    " word",
    "a" * 300,
    "日本語の文章です。" * 20,
    "it's IT'S we'll 'S x'",
    "3.14 1234567890",
    "0",
    "!?...---",
    "e\u0301\u0301\u0301 \u0301",
    "🙂🙃 👩‍👩‍👧 👍🏽 🏳️‍🌈 ❤\ufe0f",
    "שלום العربية",
    "\ufeff",
    "a\ufeffb",
    "<|endoftext|>",
    "<|fim_prefix|>a<|fim_suffix|><|endofprompt|>",
    "\x00",
    "\x00\x01\x7f\u0085",
    "\u2028\u2029",
    "\r",
    "\r\r",
    "\ue000\U000e0041\u0378",
    "naïve CamelCase HTTPServer",
]


@pytest.fixture(scope="module", autouse=True)
def small_corpora_are_worth_threads():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "BYTES_A_THREAD", 1)
        yield


@dataclass(frozen=True)
class Corpus:
    """Bytes by the name of their file; `-` is standard input."""

    files: dict[str, bytes]

    def build(self, tokenizer: TokenizerConfig, folder: Path, *, threads: int = 1, **options: object) -> TokenStore:
        folder.mkdir(exist_ok=True)
        for name, data in self.files.items():
            if name != "-":
                (folder / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        sources = [name if name == "-" else str(folder / name) for name in self.files]
        stdin = io.BytesIO(self.files.get("-", b""))
        out = folder / f"{len(list(folder.iterdir()))}.tokens"
        build_token_folder(DataConfig(sources=sources, **options), tokenizer, out, threads=threads, stdin=stdin)
        return open_token_store(out, verify=True)

    def documents(self, document: str = "line", errors: str = "strict") -> list[str]:
        texts = [data.decode("utf-8", errors) for data in self.files.values()]
        return [part for text in texts for part in cut(text.removeprefix("\ufeff"), document) if part]


def cut(text: str, document: str) -> list[str]:
    lines = re.split(r"\r?\n", text)
    if document == "paragraph":
        return ["\n".join(run) for blank, run in itertools.groupby(lines, lambda line: not line.strip()) if not blank]
    return lines if document == "line" else [text]


def assert_exact(store: TokenStore, texts: list[str], encoding: tiktoken.Encoding) -> None:
    documents = np.split(store.tokens, store.documents[1:-1])
    for number, (text, ids) in enumerate(zip(texts, documents, strict=False)):
        expected = encoding.encode_ordinary(text)
        if not np.array_equal(ids, expected):
            pytest.fail(f"document {number}, {text[:200]!r}: {ids[:50].tolist()} is not {expected[:50]}")
    assert len(documents) == len(texts)
    assert np.array_equal(store.counts, np.bincount(store.tokens, minlength=encoding.n_vocab))
    assert store.meta["bytes"] == sum(len(text.encode()) for text in texts)
    assert store.meta["skipped"] == []


def write_rank_file(path: Path, encoding: tiktoken.Encoding, ranks: dict[bytes, int]) -> TokenizerConfig:
    path.write_bytes(b"".join(b"%b %d\n" % (base64.b64encode(token), id) for token, id in ranks.items()))
    special = {name: encoding.encode_single_token(name) for name in encoding.special_tokens_set}
    path.with_suffix(".json").write_text(json.dumps({"pattern": encoding._pat_str, "special_tokens": special}))
    return TokenizerConfig(encoding=str(path))


@pytest.fixture
def rank_file(published, tmp_path_factory) -> tuple[TokenizerConfig, tiktoken.Encoding]:
    """The pattern of one of OpenAI's encodings with its first 3,000 tokens, as a rank file and as tiktoken has it."""
    ranks = {published.decode_single_token_bytes(id): id for id in range(3000)}
    encoding = tiktoken.Encoding(
        f"small {published.name}",
        pat_str=published._pat_str,
        mergeable_ranks=ranks,
        special_tokens={"<|endoftext|>": 3000, "<|fim_prefix|>": 3007},
    )
    return write_rank_file(tmp_path_factory.mktemp("small") / "small.tiktoken", encoding, ranks), encoding


@pytest.fixture(scope="session")
def hard() -> Corpus:
    """Every hard line at the start, at the end and between others; blank lines; CRLF; sources without a document."""
    random_ = random.Random(1)
    lines = [*HARD, *LOOK_ALIKES, *(f"{rare}word {rare}" for rare in LOOK_ALIKES), "", "", "   ", *KJV.split("\n")[:50]]
    shuffled = [*lines * 2]
    random_.shuffle(shuffled)
    return Corpus(
        {
            "mark.txt": ("\ufeff\ufeff" + "\n".join(lines) + "\n").encode(),
            "crlf.txt.gz": "\r\n".join(shuffled).encode(),
            "only a mark.txt": "\ufeff".encode(),
            "-": ("\n\n" + "\n".join(reversed(shuffled)) + "\n\n\n").encode(),
            "blank.txt": b"\n\r\n\n",
            "no end.txt": ("one paragraph\r\n" + " \n".join(HARD) + "\n\ntwo   ").encode(),
        }
    )


# Hard text


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("document", ["line", "paragraph", "file"])
def test_a_rank_file(rank_file, hard, tmp_path, document, threads):
    config, encoding = rank_file
    store = hard.build(config, tmp_path, document=document, threads=threads)
    assert_exact(store, hard.documents(document), encoding)


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("pattern", ["lines", "words"])
def test_a_trained_bpe(hard, tmp_path, pattern, threads):
    config = TokenizerConfig(train=TrainTokenizerConfig(vocab_size=1000, pattern=pattern))
    store = hard.build(config, tmp_path, threads=threads, document="paragraph")
    texts = hard.documents("paragraph")
    trained = train_bpe(texts, vocab_size=1000, pattern=PATTERNS[pattern])
    ranks = {trained.token_bytes(id): id for id in range(trained.n_vocab)}
    encoding = tiktoken.Encoding(pattern, pat_str=PATTERNS[pattern], mergeable_ranks=ranks, special_tokens={})
    assert len(ranks) == 1000
    assert_exact(store, texts, encoding)


@pytest.mark.parametrize(
    ("document", "threads", "block"), [("line", 1, 2**20), ("paragraph", 2, 1000), ("file", 5, 50)]
)
def test_a_named_encoding(published, hard, tmp_path, monkeypatch, document, threads, block):
    monkeypatch.setattr(text_documents, "BLOCK", block)
    store = hard.build(TokenizerConfig(encoding=published.name), tmp_path, document=document, threads=threads)
    assert_exact(store, hard.documents(document), published)


PARTS = (
    st.sampled_from(["\n", "\r\n", "\n\n", " ", "  "])
    | st.sampled_from([*HARD, *LOOK_ALIKES])
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
)
TEXTS = st.lists(PARTS, max_size=25).map("".join)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    texts=st.lists(TEXTS, min_size=1, max_size=4),
    document=st.sampled_from(["line", "paragraph", "file"]),
    threads=st.sampled_from(THREADS),
    block=st.sampled_from([1, 3, 16, 100, 2**20]),
)
def test_any_sources_in_any_batches(rank_file, texts, document, threads, block):
    assume(all(text.count("\x00") < 10 for text in texts))  # or the file is refused as no text
    config, encoding = rank_file
    names = ["a.txt", "-", "b.txt.gz", "c.txt"]
    files = {name: text.encode() for name, text in zip(names, texts, strict=False) if text or name == "-"}
    corpus = Corpus({**files, "z.txt": b"the end"})
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setattr(text_documents, "BLOCK", block)
        store = corpus.build(config, Path(folder), document=document, threads=threads)
        assert_exact(store, corpus.documents(document), encoding)


@pytest.mark.parametrize("published", ["o200k_base"], indirect=True)
def test_bytes_that_are_no_utf8(rank_file, tmp_path, monkeypatch):
    config, encoding = rank_file
    broken = [b"caf\xe9", b"\xff\xfe", b"\xf0\x9f\x99", b"\xed\xa0\xbd\xed\xb9\x82", b"\xc0\xaf", b"\xe2\x80\n\x94"]
    corpus = Corpus({"a.txt": b"\n".join(broken), "b.txt": b"\r\n".join(reversed(broken)) + b"\xf0"})
    for block in (1, 2, 3, 5, 2**20):
        monkeypatch.setattr(text_documents, "BLOCK", block)
        store = corpus.build(config, tmp_path, errors="replace", document="line", threads=2)
        assert_exact(store, corpus.documents("line", "replace"), encoding)


@pytest.mark.parametrize("published", ["gpt2"], indirect=True)
def test_records_that_end_in_line_ends_and_spaces(rank_file, tmp_path):
    config, encoding = rank_file
    around = [("", " "), (" ", ""), ("\n", "\n\n "), ("", "\r\n")]
    texts = [f"{before}{text}{after}" for text in [*HARD, *LOOK_ALIKES] for before, after in around]
    records = "".join(json.dumps({"text": text}) + "\n" for text in texts)
    store = Corpus({"records.jsonl": records.encode()}).build(config, tmp_path, threads=2)
    assert_exact(store, texts, encoding)


def test_a_document_that_tiktoken_gives_up_on_leaves_the_others_exact(tmp_path):
    ranks = {bytes([byte]): byte for byte in range(256)}
    encoding = tiktoken.Encoding("bytes", pat_str=PATTERNS["words"], mergeable_ranks=ranks, special_tokens={})
    corpus = Corpus({"a.txt": "\n".join(["one", " " * 1_100_000, " two ", " " * 100_000, "three"]).encode()})
    config = write_rank_file(tmp_path / "bytes.tiktoken", encoding, ranks)
    store = corpus.build(config, tmp_path, threads=2)
    ids = []
    given_up = []
    for number, text in enumerate(corpus.documents(), start=1):
        try:
            ids.append(encoding.encode(text, disallowed_special=()))  # encode_ordinary panics on the same
        except ValueError:
            given_up.append(number)
    assert store.documents.tolist() == [0, *itertools.accumulate(map(len, ids))]
    assert store.tokens.tolist() == list(itertools.chain.from_iterable(ids))
    assert [note["document"] for note in store.meta["skipped"]] == given_up


# Order


@pytest.mark.parametrize("published", ["cl100k_base"], indirect=True)
@pytest.mark.parametrize("threads", THREADS)
def test_many_documents_of_very_different_lengths_in_order(rank_file, tmp_path, monkeypatch, threads):
    config, encoding = rank_file
    monkeypatch.setattr(text_documents, "BLOCK", 4096)
    random_ = random.Random(2)
    words = KJV[:50_000].replace("\n", " ")

    def document(number: int) -> str:
        length = random_.choice([0, 1, 5, 50, 50, 50, 500, 40_000 if number % 50 == 0 else 5])
        return f"{number} {words[:length]}" if random_.random() < 0.9 else ""

    files = {name: "\n".join(map(document, range(1000))).encode() for name in ("b.txt", "-", "a.txt.gz", "c.txt")}
    corpus = Corpus(files)
    assert_exact(corpus.build(config, tmp_path, threads=threads), corpus.documents(), encoding)


# Long lines


@pytest.fixture(scope="session")
def long_lines() -> Corpus:
    """A line of 5 MB of words, and one of 1 MB without a space, between short ones."""
    words = (KJV.replace("\n", " ") * 2)[:5_000_000]
    letters = "".join(random.Random(3).choices("abcdefghijklmnopqrstuvwxyzé日🙂", k=1_000_000))
    return Corpus({"long.txt": "\n".join(["short", words, "", "short", letters, "short"]).encode()})


def test_lines_of_megabytes(published, long_lines, tmp_path):
    store = long_lines.build(TokenizerConfig(encoding=published.name), tmp_path, threads=2)
    assert_exact(store, long_lines.documents(), published)
