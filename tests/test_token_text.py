"""Tokens are shown so that nothing reaches the terminal raw, and every one of them reads back."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sgns_cli.corpus.token_text import parse, show
from sgns_cli.corpus.tokenizer import open_encoding, ranks_at_hand

SHOWN = [
    (b" silver", "␣silver"),
    (b"a\tb\n", "a⇥b⏎"),
    (b"\r\n", "<0x0D>⏎"),
    (b"\x1b[31m", "<0x1B>[31m"),
    (b"\x00\x7f", "<0x00><0x7F>"),
    (b"\xff\xe2\x80", "<0xFF><0xE2><0x80>"),
    ("é日本🙂".encode(), "é日本🙂"),
    ("e\u0301".encode(), "e\u0301"),  # a combining mark is printable
    ("\u202e\u200f".encode(), "<0xE2><0x80><0xAE><0xE2><0x80><0x8F>"),  # bidi
    ("\u00a0\u3000".encode(), "<0xC2><0xA0><0xE3><0x80><0x80>"),  # other spaces
    ("\u2028\u2029".encode(), "<0xE2><0x80><0xA8><0xE2><0x80><0xA9>"),  # other ends of lines
    ("\u200d\ufeff".encode(), "<0xE2><0x80><0x8D><0xEF><0xBB><0xBF>"),  # format
    ("\ue000".encode(), "<0xEE><0x80><0x80>"),  # private
    ("\u0378".encode(), "<0xCD><0xB8>"),  # unassigned
    (b"\xed\xa0\x80", "<0xED><0xA0><0x80>"),  # a surrogate
    ("␣⏎⇥".encode(), "<0xE2><0x90><0xA3><0xE2><0x8F><0x8E><0xE2><0x87><0xA5>"),
    (b"<br>", "<br>"),
    (b"a<b", "a<b"),
    (b"<0x4", "<0x4"),
    (b"<0x41>", "<0x3C>0x41>"),
    (b"<0x0a>", "<0x3C>0x0a>"),
    (b"<<0x41>>", "<<0x3C>0x41>>"),
    (b"[/b]", "[/b]"),
    (b"", ""),
]


@pytest.mark.parametrize(("token", "shown"), SHOWN)
def test_shown_and_read_back(token, shown):
    assert show(token) == shown
    assert parse(shown) == token


@given(st.binary() | st.text().map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_any_bytes_come_back(token):
    shown = show(token)
    assert parse(shown) == token
    assert all(unicodedata.category(character)[0] not in "CZ" for character in shown)


@given(st.text(alphabet="<>0xX4aAfFgG␣⏎⇥ \n"))
def test_near_escapes_come_back(text):
    assert parse(show(text.encode())) == text.encode()


@given(st.text())
def test_parse_takes_any_text(text):
    assert isinstance(parse(text), bytes)


@pytest.mark.parametrize(
    ("text", "token"),
    [
        (" silver", b" silver"),
        ("<0x4>", b"<0x4>"),
        ("<0xGG>", b"<0xGG>"),
        ("<0xe2><0x80>", b"\xe2\x80"),
        ("caf\udce9", b"caf\xe9"),  # an argument that was Latin-1
        ("\ud800", b"\xed\xa0\x80"),
    ],
)
def test_parse_takes_the_rest_as_it_stands(text, token):
    assert parse(text) == token


@pytest.mark.skipif(not ranks_at_hand("cl100k_base"), reason="the ranks of cl100k_base are not on this computer")
def test_all_tokens_of_cl100k_base_come_back_and_differ():
    encoding = open_encoding("cl100k_base")
    tokens = [encoding.token_bytes(id) for id in range(encoding.n_vocab)]
    shown = [show(token) for token in tokens if token is not None]
    assert [parse(text) for text in shown] == [token for token in tokens if token is not None]
    assert len(set(shown)) == len(shown) == 100256 + 5
