"""Names of rows in other programs' files, as tokens.

A name is the token itself, or, in files made for a BPE, the token in GPT-2's byte alphabet: `Ġsilver` for " silver".
"""

from collections.abc import Sequence

from sgns_cli.corpus.token_text import BYTE_NAMES, NAMED_BYTES, UNPRINTED, from_byte_alphabet
from sgns_cli.corpus.tokenizer import Tokenizer, list_tokens

UNUSUAL = frozenset(BYTE_NAMES[byte] for byte in UNPRINTED)


def tokens_of(names: Sequence[bytes]) -> tuple[Tokenizer, tuple[str, ...]]:
    """The tokenizer of a list of names, id i for the i-th, and notes on how they were read.

    Of names that stand there more than once the first is meant.
    """
    tokens = list(names)
    notes = []
    texts = [name.decode("utf-8", "surrogateescape") for name in names]
    if in_byte_alphabet(texts):
        notes.append("the names are in GPT-2's byte alphabet (Ġ is a space), and are read so")
        tokens = [from_byte_alphabet(text) for text in texts]
    if repeated := len(tokens) - len(set(tokens)):
        rows = "1 row has the name of a row" if repeated == 1 else f"{repeated} rows have the names of rows"
        notes.append(f"{rows} before and can be no answer")
    return list_tokens(tokens), tuple(notes)


def in_byte_alphabet(names: Sequence[str]) -> bool:
    """Whether a list of names is in GPT-2's byte alphabet, as far as that can be told.

    All are, by their letters; some have a letter that stands for a byte which does not print; and most of those make
    sense when read so, which Esperanto or Polish in Latin letters does not.
    """
    if not NAMED_BYTES.keys() >= set("".join(names)):
        return False
    unusual = [name for name in names if not UNUSUAL.isdisjoint(name)]
    readable = sum(_is_readable(from_byte_alphabet(name)) for name in unusual)
    return readable > len(unusual) / 2


def _is_readable(token: bytes) -> bool:
    try:
        text = token.decode()
    except UnicodeDecodeError:
        return False
    return all(character.isprintable() or character in "\n\r\t" for character in text)
