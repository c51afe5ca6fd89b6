"""The layout of a token folder: what lies where, which format it is. The one place that knows its names.

    tokens.bin      ids, little-endian uint16, or uint32 where there are more than 65,536
    documents.npy   int64, where each document starts, and at the end the number of tokens
    counts.npy      int64 by id
    tokenizer/      builds the tokenizer without the corpus
    meta.json       numbers, origin, checksums of all the others

corpus/token_store.py writes and maps it, `sgns info` describes it. Standard library only.
"""

from contextlib import suppress
from pathlib import Path
from typing import Any

from sgns_cli.errors import SgnsError
from sgns_cli.files import own_file, read_json, unsealed

FORMAT_VERSION = 1
META = "meta.json"
TOKENS = "tokens.bin"
DOCUMENTS = "documents.npy"
COUNTS = "counts.npy"
TOKENIZER = "tokenizer"
CACHE = ".tokens"  # beside run folders: where token folders made for them are kept


def is_token_folder(path: Path) -> bool:
    """Whether `path` is meant as a token folder, by the names in it."""
    with suppress(OSError, ValueError):  # a name that no file can have
        return (path / META).is_file() and (path / TOKENS).is_file()
    return False


def read_meta(folder: Path) -> dict[str, Any]:
    """meta.json of a token folder. Raises SgnsError if it is damaged or of another format."""
    if not is_token_folder(folder):
        raise SgnsError(
            f"{folder} is no token folder", f"it should hold {META} and {TOKENS}; sgns tokenize -o makes one"
        )
    meta = read_json(own_file(folder, META))
    if meta.get("format_version") != FORMAT_VERSION:
        found = str(meta.get("format_version"))[:20]
        raise SgnsError(f"{folder} has format {found}, and this version reads {FORMAT_VERSION}", "make it again")
    return unsealed(folder / META, meta)


def damaged(folder: Path, why: str) -> SgnsError:
    """What to say of a token folder that is not as it was written."""
    return SgnsError(f"{folder} is damaged: {why}", "remove it and make it again")
