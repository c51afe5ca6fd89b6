"""Tokens as text that a terminal can show and a person can type back.

A token is any byte string: half a character, a newline, a bidi mark. `show` turns it into printable
characters only, `parse` reads that form back. Both know bytes and nothing of tokenizers.
"""

import re

SIGNS = {" ": "␣", "\n": "⏎", "\t": "⇥"}
MEANINGS = {sign: character for character, sign in SIGNS.items()}
ESCAPE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
SPECIAL = re.compile(r"<0x([0-9A-Fa-f]{2})>|[␣⏎⇥]")


def show(token: bytes) -> str:
    """Show a token with printable characters only, so that `parse` gives the same bytes back.

    >>> show(b" silver"), show(b"dead.\\n"), show(b"\\xe2\\x80"), show("␣<br>".encode())
    ('␣silver', 'dead.⏎', '<0xE2><0x80>', '<0xE2><0x90><0xA3><br>')
    """
    text = token.decode("utf-8", "surrogateescape")  # a byte that is not UTF-8 becomes a lone surrogate
    if text.isprintable() and not (" " in text or SPECIAL.search(text)):
        return text
    return "".join(_show_character(character, text, index) for index, character in enumerate(text))


def _show_character(character: str, text: str, index: int) -> str:
    if character in SIGNS:
        return SIGNS[character]
    misread = character in MEANINGS or (character == "<" and ESCAPE.match(text, index))
    if character.isprintable() and not misread:
        return character
    return "".join(f"<0x{byte:02X}>" for byte in character.encode("utf-8", "surrogateescape"))


def parse(text: str) -> bytes:
    """Read the form that `show` writes; what is no sign and no escape stands for itself.

    >>> parse("␣silver"), parse("<0xE2><0x80>"), parse("<br>"), parse(" a<0x4")
    (b' silver', b'\\xe2\\x80', b'<br>', b' a<0x4')
    """
    parts = []
    end = 0
    for match in SPECIAL.finditer(text):
        parts.append(_encode(text[end : match.start()]))
        hexadecimal = match.group(1)
        parts.append(bytes.fromhex(hexadecimal) if hexadecimal else MEANINGS[match.group()].encode())
        end = match.end()
    parts.append(_encode(text[end:]))
    return b"".join(parts)


def _encode(text: str) -> bytes:
    """UTF-8; an argument that was no UTF-8 comes from the shell as lone surrogates, and goes back to its
    bytes.
    """
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
