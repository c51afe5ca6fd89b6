"""Small corpora, and tokenizers for them, that several tests share."""

import base64
import json
from itertools import pairwise
from pathlib import Path

from sgns_cli.config import DataConfig, TokenizerConfig, TrainTokenizerConfig

TEXT = "the dog saw the cat\n\nthe cat\n   \nà côté\n"
WHITESPACE = TokenizerConfig(encoding="whitespace")
TRAINED = TokenizerConfig(train=TrainTokenizerConfig(vocab_size=270, pattern="words"))


def write_text(folder):
    path = folder / "text.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


def write_ranks(folder):
    """A rank file of the bytes, `th` and `the`."""
    tokens = [*(bytes([byte]) for byte in range(256)), b"th", b"the"]
    path = folder / "ranks" / "small.tiktoken"
    path.parent.mkdir()
    path.write_bytes(b"".join(base64.b64encode(token) + b" %d\n" % id for id, token in enumerate(tokens)))
    path.with_suffix(".json").write_text(json.dumps({"pattern": "[^ ]+| "}))
    return TokenizerConfig(encoding=str(path))


GIVES_UP = " " * 1_000_000 + "x"  # more than the regular expressions of tiktoken can step back over


def write_hard_pattern(ranks):
    """The same ranks with the pattern for white space that most encodings have."""
    Path(ranks.encoding).with_suffix(".json").write_text(json.dumps({"pattern": r"\s+(?!\S)|\S+|\s+"}))
    return ranks


def data(*sources, **options):
    return DataConfig(sources=[str(source) for source in sources], **options)


def documents(store):
    """The documents as lists of token bytes."""
    tokenizer = store.tokenizer()
    ends = store.documents.tolist()
    return [[tokenizer.token_bytes(id) for id in store.tokens[start:end].tolist()] for start, end in pairwise(ends)]


def change_meta(folder, **changes):
    """Change meta.json of a token folder as somebody does who knows the format: without its checksum."""
    meta = json.loads((folder / "meta.json").read_text())
    del meta["checksum"]
    (folder / "meta.json").write_text(json.dumps({**meta, **changes}))
