"""Token folders kept beside the runs: the same corpus is tokenized once.

A folder's name is a key over all that decides its content: the sources as they lie on disk, the options and
the tokenizer. What is found under a key is checked whole before it is used.
"""

import hashlib
import json
import os
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

from sgns_cli.config import DEFAULT_ENCODING, DataConfig, TokenizerConfig
from sgns_cli.corpus.build import build_token_folder, resolve_pattern
from sgns_cli.corpus.reader import Report, find_text_sources, spool
from sgns_cli.corpus.source_paths import Source
from sgns_cli.corpus.token_store import TokenStore, open_token_store
from sgns_cli.corpus.tokenizer import WHITESPACE, encoding_names, open_encoding
from sgns_cli.errors import SgnsError, UsageError
from sgns_cli.token_folder import FORMAT_VERSION, is_token_folder

SAMPLE = 2**16  # bytes read at the start, the middle and the end of each file


def cached_token_folder(
    data: DataConfig,
    tokenizer: TokenizerConfig,
    cache: Path,
    *,
    progress: Report | None = None,
    threads: int = 1,
    stdin: BinaryIO | None = None,
) -> TokenStore:
    """The token folder of these sources: the source itself if it is one, else <cache>/<key>, built if need
    be.

    A cached folder that is damaged is built again. A data set of the hub counts as unchanged as long as its
    name is the same.
    """
    if len(data.sources) == 1 and is_token_folder(Path(data.sources[0]).expanduser()):
        return open_source_folder(Path(data.sources[0]).expanduser(), data, tokenizer)
    sources = find_text_sources(data)
    with ExitStack() as stack:
        if any(source.kind == "stdin" for source in sources):
            stdin = stack.enter_context(spool(stdin))
        folder = cache / _key(sources, data, tokenizer, stdin)
        if is_token_folder(folder):
            try:
                return open_token_store(folder, verify=True)
            except SgnsError:
                pass  # damaged, or of an older version: built again below
        return build_token_folder(
            data, tokenizer, folder, overwrite=True, progress=progress, threads=threads, stdin=stdin
        )


def open_source_folder(folder: Path, data: DataConfig, tokenizer: TokenizerConfig) -> TokenStore:
    """Open and check a token folder that is the only source. It brings what it was made with: raises UsageError
    if the config asks for another tokenizer, or sets a key of `data` to anything but its default or that.
    """
    store = open_token_store(folder, verify=True)
    has = store.meta["tokenizer"]
    if tokenizer.train:
        options = store.meta.get("options", {}).get("tokenizer", {})
        differs = options.get("train") != tokenizer.train.model_dump()
    elif tokenizer.encoding == WHITESPACE:
        differs = has["kind"] != WHITESPACE
    else:
        differs = tokenizer.encoding is not None and open_encoding(tokenizer.encoding).fingerprint != has["fingerprint"]
    if differs:
        raise UsageError(
            f"{folder} was made with another tokenizer ({has['name']}) than the one that is asked for",
            "name no tokenizer: a token folder brings its own",
        )
    made_with = store.meta.get("options", {})
    for key, value in data.model_dump(exclude={"sources"}, exclude_defaults=True).items():
        if made_with.get(key) != value:
            raise UsageError(
                f"data.{key} is {json.dumps(value)}, and {folder} was made with {json.dumps(made_with.get(key))}",
                "leave it out, or make the token folder again",
            )
    return store


def _key(sources: list[Source], data: DataConfig, tokenizer: TokenizerConfig, stdin: BinaryIO | None) -> str:
    content = {
        "format_version": FORMAT_VERSION,
        "sources": [_source_key(source, stdin) for source in sources],
        "options": data.model_dump(exclude={"sources"}),
        "tokenizer": _tokenizer_key(tokenizer),
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def _source_key(source: Source, stdin: BinaryIO | None) -> list[Any]:
    if source.kind == "hub":
        return [source.name]
    if source.kind == "stdin":
        assert stdin is not None  # spooled by the caller
        digest = hashlib.file_digest(stdin, "sha256").hexdigest()  # type: ignore[arg-type]
        stdin.seek(0)
        return [source.name, digest]
    path = Path(source.name)
    try:
        status = path.stat()
        return [str(path.resolve()), status.st_size, status.st_mtime_ns, _sampled_hash(path, status.st_size)]
    except OSError as error:
        raise SgnsError(f"cannot read {path}: {error.strerror}", "check the file and its rights") from error


def _sampled_hash(path: Path, size: int) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for start in sorted({0, max(0, size // 2 - SAMPLE // 2), max(0, size - SAMPLE)}):
            file.seek(start, os.SEEK_SET)
            digest.update(file.read(SAMPLE))
    return digest.hexdigest()


def _tokenizer_key(tokenizer: TokenizerConfig) -> list[Any]:
    """What decides the ids; a named encoding is always the same, a rank file is what is in it."""
    if tokenizer.train:
        return ["train", tokenizer.train.vocab_size, resolve_pattern(tokenizer.train)]
    encoding = tokenizer.encoding or DEFAULT_ENCODING
    if encoding == WHITESPACE or encoding in encoding_names():
        return ["encoding", encoding]
    return ["ranks", open_encoding(encoding).fingerprint]
