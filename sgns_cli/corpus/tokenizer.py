"""Text to ids and back: the one interface for tiktoken's encodings, rank files, trained BPEs and whitespace
words.

Names and files become tokenizers here: bpe.py and whitespace.py have the two kinds. Where rank files come from is
rank_files.py's business; how a BPE is trained, bpe_trainer.py's.
"""

import difflib
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from sgns_cli.corpus import rank_files
from sgns_cli.corpus.bpe import RANKS, BpeTokenizer, check_pattern
from sgns_cli.corpus.whitespace import DESCRIPTION, VOCABULARY, WhitespaceTokenizer, load_whitespace
from sgns_cli.errors import SgnsError, UsageError
from sgns_cli.files import MOST_TOKENIZER, changed_file, own_file, read_json
from sgns_cli.user_folders import expand_home

WHITESPACE = "whitespace"
LONGEST_NAME = 200  # characters: an error may have it
_reading = threading.Lock()  # held while tiktoken reads rank files through us


class Tokenizer(Protocol):
    """What the rest of the package knows of a tokenizer. Ids run from 0 to n_vocab - 1 and may have holes."""

    @property
    def kind(self) -> Literal["bpe", "whitespace"]: ...
    @property
    def name(self) -> str: ...
    @property
    def n_vocab(self) -> int: ...
    @property
    def fingerprint(self) -> str:
        """SHA-256 of all that decides which ids a text gets, and of nothing else."""
        ...

    @property
    def special_ids(self) -> frozenset[int]: ...
    def encode(self, text: str) -> NDArray[np.uint32]:
        """The ids of a text. Raises EncodeError if the encoder gives up on it."""
        ...

    def encode_batch(self, texts: Sequence[str]) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """The ids of several texts one after the other, and how many each has. Raises EncodeError if the encoder
        gives up on one of them.
        """
        ...

    def unknown(self, text: str) -> dict[int, str]:
        """What of a text has no id and is left out by `encode`, by its place among all of the text's tokens."""
        ...

    def token_bytes(self, id: int) -> bytes | None:
        """The bytes of an id, special tokens too; None for a hole."""
        ...

    def id_of(self, token: bytes) -> int | None:
        """The id of exactly these bytes among the ordinary tokens."""
        ...

    def save(self, folder: Path) -> None:
        """Write into `folder` what `load_tokenizer` needs to build the same tokenizer."""
        ...


def load_tokenizer(folder: Path, *, checksums: Mapping[str, object] | None = None) -> Tokenizer:
    """Build the tokenizer that `save` wrote into `folder`, whose files have these SHA-256s by name.

    Raises SgnsError if it is missing or damaged, or links lead out of the folder.
    """
    if changed := changed_file(folder, checksums or {}, at_most=MOST_TOKENIZER):
        raise SgnsError(f"{folder / changed} is damaged: it is not what was written", "make the folder again")
    for name in (RANKS, Path(RANKS).with_suffix(".json").name, VOCABULARY, DESCRIPTION):
        own_file(folder, name)
    if (folder / RANKS).exists():
        return read_rank_file(folder / RANKS)
    if (folder / VOCABULARY).exists() or (folder / DESCRIPTION).exists():
        return load_whitespace(folder)
    raise SgnsError(f"{folder} has no tokenizer in it", f"it should hold {RANKS} or {VOCABULARY}; make it again")


def open_encoding(name_or_file: str) -> Tokenizer:
    """Build one of tiktoken's encodings by name, or a BPE from a rank file with its description beside it.

    Raises UsageError for an unknown name, SgnsError if the ranks are not at hand or the file is not right.
    """
    names = encoding_names()
    if name_or_file in names:
        return _open_named(name_or_file)
    if name_or_file == WHITESPACE:
        raise UsageError("whitespace has no vocabulary of its own", "give it a corpus to take its words from")
    path = expand_home(name_or_file)
    if path.suffix == ".tiktoken" or path.is_file():
        tokenizer = read_rank_file(path)
        check_pattern(tokenizer.name, tokenizer.pattern)
        return tokenizer
    near = difflib.get_close_matches(name_or_file, [*names, WHITESPACE], n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join([*names, WHITESPACE])}."
    raise UsageError(
        f"tokenizer.encoding: unknown encoding {name_or_file!r}", f"{hint} A rank file's name ends in .tiktoken"
    )


def list_tokens(tokens: Sequence[bytes]) -> Tokenizer:
    """A tokenizer whose token i is the i-th of a list, as other programs have them; of repeated ones the first counts.

    A text is cut at white space, and each word that is in the list has an id.
    """
    return WhitespaceTokenizer([token.decode("utf-8", "surrogateescape") for token in tokens])


def read_rank_file(path: Path) -> BpeTokenizer:
    """Build a BPE from FILE.tiktoken and FILE.json, which has its `pattern` and may have `special_tokens`,
    `name`.
    """
    ranks = rank_files.read_ranks(path)
    beside = path.with_suffix(".json")
    if not beside.exists():
        raise SgnsError(
            f"{path} says nothing of how text is split",
            f'write {{"pattern": "<regular expression>"}} into {beside}',
        )
    description = read_json(beside)
    pattern = description.get("pattern")
    special_tokens = description.get("special_tokens", {})
    name = description.get("name", path.stem)
    wrong = _fault(pattern, special_tokens, name, set(ranks.values()))
    if wrong:
        raise SgnsError(f"{beside}: {wrong}", 'it should hold {"pattern": ..., "special_tokens": {"<name>": id}}')
    return BpeTokenizer(str(name), str(pattern), ranks, special_tokens)


def _fault(pattern: object, special_tokens: object, name: object, ids: set[int]) -> str:
    """What is wrong with a description, in a few words, or nothing."""
    if not isinstance(pattern, str) or not pattern:
        return "`pattern` is missing or no text"
    if not isinstance(name, str) or len(name) > LONGEST_NAME:
        return "`name` is no text, or too long"
    if not isinstance(special_tokens, dict):
        return "`special_tokens` is not a list of names with ids"
    for token, id in special_tokens.items():
        if type(id) is not int or not 0 <= id < rank_files.MAX_ID:
            return f"special token {token[:LONGEST_NAME]!r} has no proper id"
        if id in ids:
            return f"special token {token[:LONGEST_NAME]!r} has an id that another token has"
        if any("\ud800" <= character <= "\udfff" for character in token):
            return f"special token {token[:LONGEST_NAME]!r} is no text"
        ids.add(id)
    return ""


def encoding_names() -> list[str]:
    """The names of tiktoken's own encodings."""
    return list(_constructors())


def ranks_at_hand(name: str) -> bool:
    """Whether a named encoding can be built without a network."""
    return all(rank_files.find_rank_file(address, sha256) is not None for address, sha256 in _files_of(name))


def _open_named(name: str) -> BpeTokenizer:
    files = rank_files.fetch_rank_files(name, _files_of(name))
    specification = _construct(name, lambda address, _=None: files[address])
    return BpeTokenizer(
        name, specification["pat_str"], specification["mergeable_ranks"], specification["special_tokens"]
    )


def _files_of(name: str) -> list[tuple[str, str]]:
    """Address and SHA-256 of each file that an encoding is made from: tiktoken is asked, with empty files."""
    files: list[tuple[str, str]] = []

    def note(address: str, sha256: str | None) -> bytes:
        files.append((address, sha256 or ""))
        return b"{}" if address.endswith(".json") else b""

    with suppress(AssertionError):  # gpt2 compares its two files
        _construct(name, note)
    return files


def _constructors() -> dict[str, Callable[[], dict[str, Any]]]:
    # Not tiktoken's registry: a plug-in that takes an official name makes every name there fail.
    from tiktoken_ext import openai_public  # type: ignore[import-untyped]

    return dict(openai_public.ENCODING_CONSTRUCTORS)


def _construct(name: str, read: Callable[..., bytes]) -> dict[str, Any]:
    """Let tiktoken put an encoding's parts together from files that `read` gives it.

    tiktoken's own reader downloads without a limit on time and knows of no other place to look, so for this
    moment `read(address, sha256)` stands in its place.
    """
    import tiktoken.load

    with _reading:
        original = tiktoken.load.read_file_cached
        tiktoken.load.read_file_cached = read
        try:
            return _constructors()[name]()
        finally:
            tiktoken.load.read_file_cached = original
