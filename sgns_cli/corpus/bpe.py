"""Byte-pair encoding, by tiktoken.

Special tokens have rows and bytes, but in a text their names are ordinary text. tiktoken is imported only once text has
to be encoded.
"""

import hashlib
import json
import re
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from sgns_cli.corpus import rank_files
from sgns_cli.errors import SgnsError
from sgns_cli.files import write_json

if TYPE_CHECKING:
    import tiktoken

RANKS = "ranks.tiktoken"
SEPARATOR = "\x1c\x1d\x1e\x1f"  # between texts that are encoded together: ASCII's own four separators
PROBES = ("", "the cat's 12 dogs,\n\n  a b\tc: x_1!\r\n é", "".join(map(chr, range(128))))  # to try a pattern on
SECONDS_TO_TRY = 1.0
QUOTED = 200  # characters of what the engine says
LONGEST_PATTERN = 100_000  # characters; GPT-4's has 110
MOST_UNROLLED = 10**6  # parts with its repeats written out, for each of which the engine takes some hundred bytes
PART = re.compile(r"\\.|\[(?:\\.|[^\]])*\]|\{(?P<least>\d+)(?:,(?P<most>\d*))?\}|.", re.DOTALL)


class EncodeError(SgnsError):
    """The encoder gave up on a text."""


def make_encoding(name: str, pattern: str, ranks: dict[bytes, int], separator_id: int) -> "tiktoken.Encoding":
    """tiktoken's encoder, whose only special token is SEPARATOR: the names of others are ordinary text.

    Raises SgnsError if the pattern is no regular expression, or becomes too large.
    """
    import tiktoken

    try:
        if len(pattern) > LONGEST_PATTERN or _unrolled(pattern) > MOST_UNROLLED:
            raise ValueError("it is too long, or repeats things too many times")
        return tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=ranks, special_tokens={SEPARATOR: separator_id})
    except ValueError as error:
        why = str(error)[:QUOTED]
        raise SgnsError(f"the pattern of {name} is no regular expression: {why}", "correct the pattern") from error


def check_pattern(name: str, pattern: str) -> None:
    """Raise SgnsError if the pattern is no regular expression, or cuts pieces of nothing, as far as a few texts show:
    it is otherwise not looked at before encoding.
    """
    import regex  # type: ignore[import-untyped]  # comes with tiktoken

    make_encoding(name, pattern, {bytes([byte]): byte for byte in range(256)}, 256)
    with suppress(regex.error, RecursionError, TimeoutError):  # its syntax is not quite that of the engine above
        if any(not match.group() for text in PROBES for match in regex.finditer(pattern, text, timeout=SECONDS_TO_TRY)):
            raise SgnsError(f"the pattern of {name} matches between characters, where there is no piece", "correct it")


def _unrolled(pattern: str) -> int:
    """How many parts a pattern has when its counted repeats are written out, as the engine does."""
    groups = [0]  # the parts of those that are open, the outermost first
    last = 0  # the parts of what a repeat would repeat
    for part in PART.finditer(pattern):
        if part[0] == "(":
            groups.append(0)
        elif part[0] == ")" and len(groups) > 1:
            last = groups.pop()
            groups[-1] += last
        elif part["least"]:
            times = int(part["most"] or part["least"])
            groups[-1] += last * (times - 1)
            last *= times
        else:
            last = 1
            groups[-1] += 1
    return sum(groups)


class BpeTokenizer:
    """Byte-pair encoding: a regex cuts the text, and in each piece the lowest rank merges first."""

    kind: Literal["bpe", "whitespace"] = "bpe"

    def __init__(self, name: str, pattern: str, ranks: dict[bytes, int], special_tokens: Mapping[str, int]) -> None:
        self.name = name
        self.pattern = pattern
        self.special_tokens = dict(special_tokens)
        self.special_ids = frozenset(special_tokens.values())
        self.n_vocab = max(max(ranks.values()), *self.special_ids, 0) + 1
        self._ranks = ranks
        self._of_thread = threading.local()

    @cached_property
    def fingerprint(self) -> str:
        rules = json.dumps([self.kind, self.pattern, sorted(self.special_tokens.items())])
        return hashlib.sha256(rules.encode() + b"\n" + self._rank_lines).hexdigest()

    @cached_property
    def _rank_lines(self) -> bytes:
        return rank_files.format_ranks(self._ranks)

    @property
    def _encoding(self) -> "tiktoken.Encoding":
        """tiktoken's encoder for this thread: a regular expression is slow in every thread but its first."""
        if not hasattr(self._of_thread, "encoding"):
            self._of_thread.encoding = make_encoding(self.name, self.pattern, self._ranks, self.n_vocab)
        encoding: tiktoken.Encoding = self._of_thread.encoding
        return encoding

    def encode(self, text: str) -> NDArray[np.uint32]:
        return self._encode(text, allowed_special=set())

    def encode_batch(self, texts: Sequence[str]) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """In one call, which lets other threads run: tiktoken encodes what is between special tokens by itself."""
        ids = self._encode(SEPARATOR.join(texts), allowed_special={SEPARATOR})
        ends = np.flatnonzero(ids == self.n_vocab)
        if len(ends) == len(texts) - 1:
            return np.delete(ids, ends), np.diff(ends, prepend=-1, append=len(ids)) - 1
        pieces = [self.encode(text) for text in texts]  # one of them has the separator in it
        lengths = np.array([len(piece) for piece in pieces], dtype=np.int64)
        return np.concatenate([*pieces, np.zeros(0, np.uint32)]), lengths

    def _encode(self, text: str, *, allowed_special: set[str]) -> NDArray[np.uint32]:
        """As tiktoken's encode_ordinary, without a Python object for each id."""
        try:
            return self._encoding.encode_to_numpy(text, allowed_special=allowed_special, disallowed_special=())
        except UnicodeEncodeError:  # lone surrogates: as encode_ordinary does
            text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
            return self._encode(text, allowed_special=allowed_special)
        except BaseException as error:
            # A panic of the Rust side is no Exception, and its class cannot be imported.
            if type(error).__name__ == "PanicException" or isinstance(error, ValueError):
                why = str(error)[:QUOTED]
                raise EncodeError(f"the tokenizer gave up on a text: {why}", "cut the text into lines") from error
            raise

    def unknown(self, text: str) -> dict[int, str]:
        return {}

    @cached_property
    def _tokens(self) -> list[bytes | None]:
        tokens: list[bytes | None] = [None] * self.n_vocab
        for token, id in self._ranks.items():
            tokens[id] = token
        for text, id in self.special_tokens.items():
            tokens[id] = text.encode()
        return tokens

    def token_bytes(self, id: int) -> bytes | None:
        return self._tokens[id] if 0 <= id < self.n_vocab else None

    def id_of(self, token: bytes) -> int | None:
        return self._ranks.get(token)

    def save(self, folder: Path) -> None:
        path = folder / RANKS
        path.write_bytes(self._rank_lines)
        description = {
            "format_version": 1,
            "kind": self.kind,
            "name": self.name,
            "pattern": self.pattern,
            "special_tokens": self.special_tokens,
        }
        write_json(path.with_suffix(".json"), description)
