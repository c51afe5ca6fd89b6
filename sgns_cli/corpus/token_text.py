"""Tokens as text: on a screen, to be typed back, and as names in files.

A token is any byte string: half a character, a newline, a bidi mark. `show` makes all of it visible with
printable characters only, `parse` reads that form back. `to_byte_alphabet` writes a character a byte, as
GPT-2's own vocabulary file does, `from_byte_alphabet` reads it. All of them know bytes and nothing of tokenizers.
"""

import re

SIGNS = {" ": "␣", "\n": "⏎", "\t": "⇥"}
MEANINGS = {sign: character for character, sign in SIGNS.items()}
ESCAPE = "<0x([0-9A-Fa-f]{2})>"
SPECIAL = re.compile(f"{ESCAPE}|[␣⏎⇥]")
# Letters, marks and symbols that show nothing: what Unicode calls Default_Ignorable_Code_Point (variation selectors,
# fillers), and the Braille cell without a dot. Python calls those of them that are no format characters printable.
INVISIBLE = "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0000-\U000e0fff"
REWRITTEN = re.compile(f"{ESCAPE}|[ ␣⏎⇥{INVISIBLE}]")  # of what Python calls printable

# GPT-2's: a byte that Latin-1 prints is that character; the other 68, in order, are those from U+0100 on.
PRINTED = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
UNPRINTED = [byte for byte in range(256) if byte not in PRINTED]
BYTE_NAMES = [chr(byte if byte in PRINTED else 0x100 + UNPRINTED.index(byte)) for byte in range(256)]
NAMED_BYTES = {name: byte for byte, name in enumerate(BYTE_NAMES)}


def show(token: bytes) -> str:
    """Show a token with visible characters only, so that `parse` gives the same bytes back.

    >>> show(b" silver"), show(b"dead.\\n"), show(b"\\xe2\\x80"), show("␣<br>".encode())
    ('␣silver', 'dead.⏎', '<0xE2><0x80>', '<0xE2><0x90><0xA3><br>')
    """
    text = token.decode("utf-8", "surrogateescape")  # a byte that is not UTF-8 becomes a lone surrogate
    if text.isprintable() and not REWRITTEN.search(text):
        return text
    return "".join(_show_character(character, text, index) for index, character in enumerate(text))


def _show_character(character: str, text: str, index: int) -> str:
    if character in SIGNS:
        return SIGNS[character]
    if character.isprintable() and not REWRITTEN.match(text, index):
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
        parts.append(to_bytes(text[end : match.start()]))
        hexadecimal = match.group(1)
        parts.append(bytes.fromhex(hexadecimal) if hexadecimal else MEANINGS[match.group()].encode())
        end = match.end()
    parts.append(to_bytes(text[end:]))
    return b"".join(parts)


def to_bytes(text: str) -> bytes:
    """UTF-8; an argument that was no UTF-8 comes from the shell as lone surrogates, and goes back to its
    bytes.
    """
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def to_byte_alphabet(token: bytes) -> str:
    """Write a token with GPT-2's character for each of its bytes; none of them is a space or a control character.

    >>> to_byte_alphabet(b" the"), to_byte_alphabet(b"\\n"), to_byte_alphabet("é".encode())
    ('Ġthe', 'Ċ', 'Ã©')
    """
    return "".join([BYTE_NAMES[byte] for byte in token])


def from_byte_alphabet(name: str) -> bytes:
    """Read what `to_byte_alphabet` wrote. Raises ValueError for a character that is none of the 256.

    >>> from_byte_alphabet("Ġthe")
    b' the'
    """
    try:
        return bytes([NAMED_BYTES[character] for character in name])
    except KeyError as error:
        raise ValueError(f"{error.args[0]!r} stands for no byte in GPT-2's alphabet") from error
