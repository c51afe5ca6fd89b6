"""A trained BPE: tiktoken cuts text exactly as the trainer does."""

import base64
import json
from pathlib import Path

import pytest
import rustbpe
import tiktoken
from hypothesis import given, settings
from hypothesis import strategies as st

from sgns_cli.config import PATTERNS
from sgns_cli.corpus.bpe_trainer import _ranks, train_bpe
from sgns_cli.corpus.tokenizer import load_tokenizer, open_encoding
from sgns_cli.errors import SgnsError, UsageError

VERSES = (Path(__file__).parent.parent / "data" / "kjv.txt").read_text(encoding="utf-8").split("\n")[:4000]


@pytest.mark.parametrize("pattern", ["lines", "words"])
def test_tiktoken_repeats_the_trainers_segmentation(pattern):
    text = "\n".join(VERSES)
    trainer = rustbpe.Tokenizer()
    trainer.train_from_iterator(iter([text]), 1000, pattern=PATTERNS[pattern])
    merges = trainer.get_mergeable_ranks()
    assert len({bytes(token) for token, _ in merges}) == len(merges) == 1000
    bpe = train_bpe([text], vocab_size=1000, pattern=PATTERNS[pattern])
    assert bpe.n_vocab == 1000
    assert bpe.encode(text).tolist() == trainer.encode(text)
    other = "Unseen text, with ünïcode and\n\nnewlines  and 12345 numbers."
    assert bpe.encode(other).tolist() == trainer.encode(other)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(alphabet="ab", min_size=1, max_size=60), min_size=1, max_size=12), st.integers(256, 300))
def test_no_text_of_two_letters_is_cut_otherwise(texts, vocab_size):
    """Runs of one letter are where merges overlap."""
    trainer = rustbpe.Tokenizer()
    trainer.train_from_iterator(iter(texts), vocab_size, pattern=".+")
    bpe = train_bpe(texts, vocab_size=vocab_size, pattern=".+")
    for text in [*texts, "".join(texts)]:
        assert bpe.encode(text).tolist() == trainer.encode(text)


def test_lines_cross_spaces_and_words_do_not():
    text = "from the dead\n" * 50
    lines = train_bpe([text], vocab_size=300, pattern=PATTERNS["lines"])
    words = train_bpe([text], vocab_size=300, pattern=PATTERNS["words"])
    assert lines.id_of(b"from the dead\n") is not None
    assert words.id_of(b" dead") is not None
    assert words.id_of(b"from the") is None


def test_a_small_corpus_gives_fewer_tokens():
    bpe = train_bpe(["abcabc"], vocab_size=300, pattern=".+")
    assert bpe.n_vocab == 259
    assert [bpe.token_bytes(id) for id in range(256, 259)] == [b"ab", b"abc", b"abcabc"]
    assert train_bpe([], vocab_size=300, pattern=".+").n_vocab == 256


def test_the_same_texts_give_the_same_tokenizer():
    fingerprints = {train_bpe(VERSES[:500], vocab_size=500, pattern=PATTERNS["words"]).fingerprint for _ in range(3)}
    assert len(fingerprints) == 1


def test_a_trained_bpe_is_a_rank_file_that_plain_tiktoken_loads(tmp_path):
    bpe = train_bpe(VERSES[:500], vocab_size=500, pattern=PATTERNS["lines"])
    bpe.save(tmp_path)
    from tiktoken.load import load_tiktoken_bpe

    plain = tiktoken.Encoding(
        "plain",
        pat_str=PATTERNS["lines"],
        mergeable_ranks=load_tiktoken_bpe(str(tmp_path / "ranks.tiktoken")),
        special_tokens={},
    )
    assert plain.encode_ordinary(VERSES[0]) == bpe.encode(VERSES[0]).tolist()
    assert load_tokenizer(tmp_path).fingerprint == bpe.fingerprint


def test_bytes_made_by_two_merges_count_once():
    merges = [(b"a", 0), (b"b", 1), (b"ab", 2), (b"ab", 3), (b"abb", 4)]
    assert _ranks(merges) == {b"a": 0, b"b": 1, b"ab": 2, b"abb": 3}


@pytest.mark.parametrize("pattern", ["(", "", "x*", "[z-a]"])
def test_a_bad_pattern_is_a_usage_error_that_names_the_key(pattern):
    with pytest.raises(UsageError, match=r"tokenizer\.train\.pattern"):
        train_bpe(["abc"], vocab_size=300, pattern=pattern)


def test_an_error_in_the_texts_comes_through():
    def texts():
        yield "abc"
        raise SgnsError("bad byte", "mend it")

    with pytest.raises(SgnsError, match="bad byte"):
        train_bpe(texts(), vocab_size=300, pattern=".+")


def test_text_that_is_no_unicode_is_an_error():
    with pytest.raises(SgnsError, match="UTF-8"):
        train_bpe(["a\ud800"], vocab_size=300, pattern=".+")


@pytest.mark.parametrize("pattern", ["(?=a)", r"\b", "(?<=b)|c", "x*"])
def test_a_pattern_that_cuts_pieces_of_nothing_is_refused(pattern, tmp_path):
    with pytest.raises(UsageError, match="matches nothing at all"):
        train_bpe(["abc"], vocab_size=300, pattern=pattern)
    path = tmp_path / "bytes.tiktoken"
    path.write_bytes(b"".join(base64.b64encode(bytes([byte])) + b" %d\n" % byte for byte in range(256)))
    path.with_suffix(".json").write_text(json.dumps({"pattern": pattern}))
    with pytest.raises(SgnsError, match="matches between characters"):
        open_encoding(str(path))
