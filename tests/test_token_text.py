"""Tokens are shown so that nothing reaches the terminal raw, and every one of them reads back."""

import json
import unicodedata

import pytest
import regex
from conftest import rank_files
from hypothesis import given
from hypothesis import strategies as st

from sgns_cli.corpus.token_text import from_byte_alphabet, parse, show, to_byte_alphabet

SHOWN = [
    (b" silver", "␣silver"),
    (b"a\tb\n", "a⇥b⏎"),
    (b"\r\n", "<0x0D>⏎"),
    (b"\x1b[31m", "<0x1B>[31m"),
    (b"\x00\x7f", "<0x00><0x7F>"),
    ("\u0085\u009b".encode(), "<0xC2><0x85><0xC2><0x9B>"),  # controls too: next line, and what starts a sequence
    (b"\xff\xe2\x80", "<0xFF><0xE2><0x80>"),
    (b"\xc0\xaf\xf4\x90\x80\x80", "<0xC0><0xAF><0xF4><0x90><0x80><0x80>"),  # too long, too high
    ("é日本🙂".encode(), "é日本🙂"),
    ("שלום ا".encode(), "שלום␣ا"),  # letters that run from right to left
    ("e\u0301".encode(), "e\u0301"),
    ("\u0301\u093e\u20e3".encode(), "\u0301\u093e\u20e3"),  # a mark is visible, also where a token starts with it
    ("\ufffd".encode(), "\ufffd"),  # the replacement character itself, which is not a byte that was replaced
    ("\u202e\u200f\u061c".encode(), "<0xE2><0x80><0xAE><0xE2><0x80><0x8F><0xD8><0x9C>"),  # bidi
    ("\u00a0\u3000".encode(), "<0xC2><0xA0><0xE3><0x80><0x80>"),  # other spaces
    ("\u2028\u2029".encode(), "<0xE2><0x80><0xA8><0xE2><0x80><0xA9>"),  # other ends of lines
    ("\u00ad\u200d\ufeff".encode(), "<0xC2><0xAD><0xE2><0x80><0x8D><0xEF><0xBB><0xBF>"),  # format
    ("\U000e0041\U000e0100".encode(), "<0xF3><0xA0><0x81><0x81><0xF3><0xA0><0x84><0x80>"),  # tags, selectors
    ("❤\ufe0f".encode(), "❤<0xEF><0xB8><0x8F>"),  # or it would look like ❤
    ("\u3164\u2800".encode(), "<0xE3><0x85><0xA4><0xE2><0xA0><0x80>"),  # a letter and a sign that are blank
    ("\ue000\U000f0000".encode(), "<0xEE><0x80><0x80><0xF3><0xB0><0x80><0x80>"),  # private
    ("\u0378".encode(), "<0xCD><0xB8>"),  # unassigned
    ("\ufdd0\U0010ffff".encode(), "<0xEF><0xB7><0x90><0xF4><0x8F><0xBF><0xBF>"),  # never to be assigned
    (b"\xed\xa0\x80", "<0xED><0xA0><0x80>"),  # a surrogate
    ("␣⏎⇥".encode(), "<0xE2><0x90><0xA3><0xE2><0x8F><0x8E><0xE2><0x87><0xA5>"),
    (b"<br>", "<br>"),
    (b"a<b", "a<b"),
    (b"<0x4", "<0x4"),
    (b"<0x41>", "<0x3C>0x41>"),
    (b"<0x0a>", "<0x3C>0x0a>"),
    (b"<<0x41>>", "<<0x3C>0x41>>"),
    (b"<0x4\n1>", "<0x4⏎1>"),
    (b"[/b]", "[/b]"),
    (b"", ""),
]
IGNORABLE = regex.compile(r"\p{Default_Ignorable_Code_Point}")


def is_visible(text):
    """Nothing but characters that a terminal draws, and none of them a space of any kind."""
    return text.isprintable() and not any(map(str.isspace, set(text))) and not IGNORABLE.search(text)


# The form for people


@pytest.mark.parametrize(("token", "shown"), SHOWN)
def test_shown_and_read_back(token, shown):
    assert show(token) == shown
    assert parse(shown) == token


@given(st.binary() | st.text().map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_any_bytes_come_back(token):
    shown = show(token)
    assert parse(shown) == token
    assert is_visible(shown)
    assert all(unicodedata.category(character)[0] not in "CZ" for character in shown)


def test_all_of_unicode_comes_back_and_is_visible():
    codes = [*range(0x34000), *range(0xDFFFE, 0xE1000), *range(0x10FFF0, 0x110000)]  # the rest: unassigned, private
    text = "".join(map(chr, codes)).encode("utf-8", "surrogatepass")
    shown = show(text)
    assert parse(shown) == text
    assert is_visible(shown)


def test_any_two_bytes_come_back_and_differ():
    pairs = [bytes([first, second]) for first in range(256) for second in range(256)]
    shown = [show(pair) for pair in pairs]
    assert [parse(text) for text in shown] == pairs
    assert len(set(shown)) == len(pairs)


@given(st.text(alphabet="<>0xX4aAfFgG␣⏎⇥ \n\ufe0f"))
def test_near_escapes_come_back(text):
    assert parse(show(text.encode())) == text.encode()


@given(st.binary(), st.binary())
def test_what_is_shown_can_be_shown_again(token, other):
    shown = show(token).encode()
    assert parse(show(shown)) == shown
    assert parse(show(token) + "␣" + show(other)) == token + b" " + other  # no sign or escape grows into its neighbour


@given(st.text(alphabet=st.characters(codec=None)))
def test_parse_takes_any_text(text):
    assert parse(show(parse(text))) == parse(text)


@pytest.mark.parametrize(
    ("text", "token"),
    [
        (" silver", b" silver"),
        ("<0x4>", b"<0x4>"),
        ("<0xGG>", b"<0xGG>"),
        ("<0x٤١>", "<0x٤١>".encode()),  # digits, but not those of an escape
        ("<0xe2><0x80>", b"\xe2\x80"),
        ("❤\ufe0f", "❤\ufe0f".encode()),  # typed as it is
        ("caf\udce9", b"caf\xe9"),  # an argument that was Latin-1
        ("\ud800", b"\xed\xa0\x80"),
    ],
)
def test_parse_takes_the_rest_as_it_stands(text, token):
    assert parse(text) == token


# The form for files


@pytest.mark.parametrize(
    ("token", "name"),
    [
        (b" the", "Ġthe"),
        (b"\n", "Ċ"),
        (b"\t\r", "ĉč"),
        ("é".encode(), "Ã©"),
        (b"\x00\x7f\xa0\xad", "ĀġłŃ"),
        (b"!~\xa1\xac\xae\xff", "!~¡¬®ÿ"),
        (b"", ""),
    ],
)
def test_the_byte_alphabet_is_gpt2s(token, name):
    assert to_byte_alphabet(token) == name
    assert from_byte_alphabet(name) == token


def test_the_byte_alphabet_has_a_visible_character_for_each_byte():
    names = [to_byte_alphabet(bytes([byte])) for byte in range(256)]
    assert len(set(names)) == 256
    assert all(len(name) == 1 for name in names)
    assert is_visible("".join(names))


@given(st.binary(), st.binary())
def test_any_bytes_come_back_from_the_byte_alphabet(token, other):
    assert from_byte_alphabet(to_byte_alphabet(token)) == token
    assert to_byte_alphabet(token + other) == to_byte_alphabet(token) + to_byte_alphabet(other)


@pytest.mark.parametrize("character", [" ", "\n", "\x00", "\x7f", "\u00a0", "\u00ad", "ń", "␣", "日", "\ud800"])
def test_a_character_beyond_the_byte_alphabet_is_refused(character):
    with pytest.raises(ValueError, match="stands for no byte") as caught:
        from_byte_alphabet(f"a{character}b")
    assert repr(character) in str(caught.value)


# Real vocabularies


@pytest.fixture
def tokens(published):
    """The bytes of every id of an encoding, special ones too."""
    special = [name.encode() for name in published.special_tokens_set]
    return [*published.token_byte_values(), *special]


def test_all_tokens_come_back_and_differ(tokens, published):
    assert len(tokens) == {"gpt2": 50257, "cl100k_base": 100256 + 5, "o200k_base": 199998 + 2}[published.name]
    shown = [show(token) for token in tokens]
    assert [parse(text) for text in shown] == tokens
    assert len(set(shown)) == len(tokens)
    assert all(shown)
    assert is_visible("".join(shown))


def test_all_tokens_come_back_from_the_byte_alphabet(tokens):
    names = [to_byte_alphabet(token) for token in tokens]
    assert [from_byte_alphabet(name) for name in names] == tokens
    assert len(set(names)) == len(tokens)
    assert is_visible("".join(names))


def test_tokens_in_a_row_come_back(tokens):
    @given(st.lists(st.sampled_from(tokens), max_size=8))
    def come_back(row):
        assert parse(show(b"".join(row))) == b"".join(row)
        assert parse("".join(map(show, row))) == b"".join(row)
        assert from_byte_alphabet("".join(map(to_byte_alphabet, row))) == b"".join(row)

    come_back()


@pytest.mark.parametrize("published", ["gpt2"], indirect=True)  # the others have no file of names
def test_the_byte_alphabet_writes_gpt2s_own_vocabulary(published):
    (vocabulary,) = [data for data in rank_files("gpt2").values() if data.startswith(b"{")]
    names = {to_byte_alphabet(published.decode_single_token_bytes(id)): id for id in range(published.n_vocab)}
    assert names == json.loads(vocabulary)
