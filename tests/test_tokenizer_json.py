"""tokenizer.json: Hugging Face's library gives every text the ids that tiktoken gives it here."""

import json
import random
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest
import tiktoken
import tokenizers
from hypothesis import example, given
from hypothesis import strategies as st

from sgns_cli.config import PATTERNS
from sgns_cli.corpus.bpe import BpeTokenizer
from sgns_cli.corpus.bpe_trainer import train_bpe
from sgns_cli.corpus.tokenizer import Tokenizer, list_tokens, open_encoding
from sgns_cli.corpus.tokenizer_json import find_merges, tokenizer_json
from sgns_cli.corpus.whitespace import WhitespaceTokenizer

VERSES = (Path(__file__).parent.parent / "data" / "kjv.txt").read_text(encoding="utf-8").split("\n")[:2000]
BYTES = {bytes([byte]): byte for byte in range(256)}
CHARACTERS = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
# Most scripts, all white space and signs, compatibility forms, emoji; of ideographs and of what is unassigned a part.
RANGES = [(0, 0x3100), (0xA640, 0xAC00), (0xF900, 0x10000), (0x1F000, 0x1FB00)]
SAMPLE = [one for one in CHARACTERS if ord(one) % 97 == 0 or any(low <= ord(one) < high for low, high in RANGES)]
HARD = [
    *["a", "the", " the", "Dog", "DOG", "x1y2", "é", "É", "ß", "ſ", "ǅ", "漢字", "あ", "ﬆ", "ŉ", "ﷺ"],
    *[" ", "  ", "\n", "\r", "\r\n", "\t", "\v", "\f", "\x1c", "\x85", "\xa0", "\u2028", "\u3000", "\u200b", "\ufeff"],
    *["'s", "'S", "'ſ", "'ll", "'LL", "'Re", "'vE", "'T", "'M", "'D", "dogs'", "'"],
    *["1", "12", "123", "1234", "12345678", "٣", "²", "Ⅷ", "👍🏽", "👨‍👩‍👧", "\u0301", "\u200d", "\0", "\x7f"],
    *["/", "//\n", "!?", "...\n\n", "_", "-", "<|endoftext|>", "199999 <|endoftext|>"],
]


def hugging_face(tokenizer: Tokenizer, **options: object) -> tokenizers.Tokenizer:
    return tokenizers.Tokenizer.from_str(json.dumps(tokenizer_json(tokenizer, **options)))


def hard_strings(*, seed: int, mixed: int) -> list[str]:
    """`mixed` strings of hard pieces put together, and every character of a sample of Unicode between others."""
    chosen = random.Random(seed)
    texts = ["".join(chosen.choices(HARD, k=chosen.randint(1, 12))) for _ in range(mixed)]
    parts = [SAMPLE[start : start + 50] for start in range(0, len(SAMPLE), 50)]
    return texts + ["".join(f"{one} {one}a{one}1 '{one}\n{one}" for one in part) for part in parts]


def differing(theirs: tokenizers.Tokenizer, encode: Callable[[str], list[int]], texts: list[str]) -> list[str]:
    return [
        text for text, found in zip(texts, theirs.encode_batch_fast(texts), strict=True) if found.ids != encode(text)
    ]


def test_openais_encodings(published: tiktoken.Encoding) -> None:
    theirs = hugging_face(open_encoding(published.name))
    texts = [*hard_strings(seed=1, mixed=4000), "\n".join(VERSES)]
    assert differing(theirs, published.encode_ordinary, texts) == []
    assert theirs.get_vocab_size() == published.n_vocab
    assert theirs.decode(theirs.encode(texts[0]).ids) == texts[0]


@pytest.fixture(scope="module", params=list(PATTERNS))
def trained(request: pytest.FixtureRequest) -> tuple[BpeTokenizer, tokenizers.Tokenizer]:
    bpe = train_bpe(VERSES, vocab_size=1500, pattern=PATTERNS[request.param])
    return bpe, hugging_face(bpe)


def test_trained_patterns(trained: tuple[BpeTokenizer, tokenizers.Tokenizer]) -> None:
    bpe, theirs = trained
    texts = [*hard_strings(seed=2, mixed=2000), *VERSES, "\n".join(VERSES)]
    assert differing(theirs, lambda text: bpe.encode(text).tolist(), texts) == []


@given(st.text(st.characters(exclude_categories=["Cs"])))
@example("")
def test_any_text(trained: tuple[BpeTokenizer, tokenizers.Tokenizer], text: str) -> None:
    bpe, theirs = trained
    assert theirs.encode(text).ids == bpe.encode(text).tolist()


@pytest.mark.parametrize(
    "pattern",
    [
        r"\w+",  # leaves out what it does not match
        r"\w\W|\W+",
        r"(?s:.){3}+|\d{2}?",
        r"\p{N}{1,3}+|[^\p{N}]+",
        r"\s++$|\S+|\s",
        r"^\S+|\s+$|.|\n",
        r"(?m)^.+$|\n+",
        r"(?i)'(?:s|ll)|[[a-z]&&[^k]]+|[^'a-z]",
    ],
)
def test_other_patterns(pattern: str) -> None:
    bpe = BpeTokenizer("small", pattern, {**BYTES, b"th": 256, b"the": 257}, {})
    assert differing(hugging_face(bpe), lambda text: bpe.encode(text).tolist(), hard_strings(seed=3, mixed=500)) == []


TOKENS = st.lists(st.text("ab", min_size=2, max_size=6), unique=True, max_size=20)


@given(TOKENS, st.lists(st.text("ab", max_size=40), min_size=1, max_size=8))
def test_any_vocabulary(tokens: list[str], texts: list[str]) -> None:
    """Whether or not merges lead to its tokens, and in whichever order."""
    ranks = BYTES | {token.encode(): 1000 + 3 * index for index, token in enumerate(tokens)}
    bpe = BpeTokenizer("any", "(?s:.)+", ranks, {"ab": 5000})
    assert differing(hugging_face(bpe), lambda text: bpe.encode(text).tolist(), texts) == []


def test_merges() -> None:
    ranks = {b"a": 0, b"b": 1, b"c": 2, b"abc": 3, b"ab": 4, b"cab": 5, b"xyz": 6}
    assert find_merges(ranks) == [(b"ab", b"c"), (b"a", b"b"), (b"c", b"ab")]


def test_no_text_becomes_a_special_token_or_a_hole() -> None:
    bpe = BpeTokenizer("holes", r".+|\n", {**BYTES, b"ab": 258}, {"<|end|>": 260, "259 <hole>": 262})
    theirs = hugging_face(bpe, n_ids=265)
    names = {id: name for name, id in theirs.get_vocab().items()}
    assert sorted(names) == list(range(265))
    unreachable = [256, 257, 259, 260, 261, 262, 263, 264]
    assert names[260] == "260 <|end|>"
    for text in [names[id] for id in unreachable] + ["<|end|>", "259 <hole>"]:
        ids = theirs.encode(text).ids
        assert ids == bpe.encode(text).tolist()
        assert not set(ids) & set(unreachable)


WORDS = ["the", "dog", "σας", "i̇", "a b", "", "the", "�", "\udcff", "7", "5 ", "ab\u3000c"]


def test_words_are_cut_as_split_cuts_them() -> None:
    words = WhitespaceTokenizer(WORDS)
    theirs = hugging_face(words)
    unknown = theirs.token_to_id(theirs.model.unk_token)
    assert unknown == len(WORDS)
    assert sorted(theirs.get_vocab().values()) == list(range(len(WORDS) + 1))

    def encode(text: str) -> list[int]:
        return [found if (found := words.id_of(word.encode())) is not None else unknown for word in text.split()]

    texts = [f"the{one}dog{one} {one}dog" for one in SAMPLE]
    assert (
        differing(theirs, encode, [*texts, "the cat \xff � 7 5 5  a b <unknown> 12 <unknown>", *theirs.get_vocab()])
        == []
    )


def test_words_of_a_list_with_spaces() -> None:
    theirs = hugging_face(list_tokens([b" the", b"dog", b"dog"]))
    assert theirs.encode(" the dog").ids == [3, 1]


def test_lower_case_is_pythons() -> None:
    words = WhitespaceTokenizer(["σας"])
    normalizer = hugging_face(words, lowercase=True).normalizer
    # Characters newer than this Python's Unicode have a lower case there and none here.
    assigned = [one for one in CHARACTERS[:0x20000] if unicodedata.category(one) != "Cn"]
    texts = [f"x{one}ΣΑΣ" for one in assigned if one != "\U0001171e"]  # in Unicode 14 a mark, a letter later
    assert [text for text in texts if normalizer.normalize_str(text) != text.lower()] == []
    chosen = random.Random(4)
    sigmas = ["Σ", "σ", "ς", "Α", "α", "'", ".", " ", "1", "\u00ad", "\u0345", "ʰ", "İ", "ß", "ǅ", "\u0301", "Ⓐ", "㎏"]
    texts = ["".join(chosen.choices(sigmas, k=chosen.randint(1, 9))) for _ in range(20_000)]
    assert [text for text in texts if normalizer.normalize_str(text) != text.lower()] == []
