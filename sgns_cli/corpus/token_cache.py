"""Token folders kept beside the runs: the same corpus is tokenized once.

A folder's name is a key over all that decides its content: the sources as they lie on disk, the options and
the tokenizer. What is found under a key is checked whole before it is used.
"""

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from sgns_cli.config import DataConfig, TokenizerConfig
from sgns_cli.corpus.build import build_token_folder, resolve_pattern, skipped_error
from sgns_cli.corpus.reader import Report, TokenizeProgress, find_text_sources, spool
from sgns_cli.corpus.source_paths import Source, check_regular
from sgns_cli.corpus.token_store import TokenStore, open_token_store
from sgns_cli.corpus.tokenizer import WHITESPACE, encoding_names, open_encoding
from sgns_cli.errors import SgnsError, UsageError
from sgns_cli.folders import discard, unfinished
from sgns_cli.locks import Held, locked, remove_stale_locks
from sgns_cli.token_folder import FORMAT_VERSION, is_token_folder
from sgns_cli.user_folders import expand_home

WHOLE = 2**26  # a file of up to so many bytes is known by all of them, a larger one by PARTS of SAMPLE bytes each
PARTS, SAMPLE = 1024, 2**16


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

    A cached folder that is damaged is built again; one that another process is building is waited for. A data set of
    the hub counts as unchanged as long as its name is the same. Raises SgnsError for a corpus of which documents had
    to be skipped, unless `data.errors` is `replace`.
    """
    if len(data.sources) == 1 and is_token_folder(source := expand_home(data.sources[0])):
        store = open_source_folder(source, data, tokenizer)
    else:
        store = _cached(data, tokenizer, cache, progress, threads, stdin)
    if store.meta.get("skipped") and data.errors == "strict":
        raise skipped_error(
            store.meta["skipped"],
            "take them out, cut them up, or train without them: --set data.errors=replace",
        )
    return store


def _cached(
    data: DataConfig,
    tokenizer: TokenizerConfig,
    cache: Path,
    progress: Report | None,
    threads: int,
    stdin: BinaryIO | None,
) -> TokenStore:
    sources = find_text_sources(data)
    with ExitStack() as stack:
        if any(source.kind == "stdin" for source in sources):
            stdin = stack.enter_context(spool(stdin))
        folder = cache / _key(sources, data, tokenizer, stdin)
        stack.enter_context(_held(folder, progress))
        _remove_debris(cache)
        if is_token_folder(folder):
            try:
                return open_token_store(folder, verify=True)
            except SgnsError:
                pass  # damaged, or of an older version: built again below
        return build_token_folder(
            data, tokenizer, folder, overwrite=True, progress=progress, threads=threads, stdin=stdin
        )


@contextmanager
def _held(folder: Path, progress: Report | None) -> Iterator[None]:
    """Hold a folder of the cache, after a wait if need be, for another run may want the same corpus."""
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(folder))
        except Held:
            if progress:
                progress(TokenizeProgress("waiting", 0, 0, 0, None, 0.0))
            stack.enter_context(locked(folder, wait=True))
        yield


def _remove_debris(cache: Path) -> None:
    """Remove what processes left that were killed while they built a folder here, and what they held."""
    for hidden, folder in unfinished(cache):
        with suppress(Held), locked(folder) as held:
            if held:
                discard(hidden)
    remove_stale_locks(cache)


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
    for key, value in data.model_dump(exclude={"sources", "errors"}, exclude_defaults=True).items():
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
    check_regular([source])
    try:
        status = path.stat()
        return [str(path.resolve()), status.st_size, status.st_mtime_ns, _sampled_hash(path, status.st_size)]
    except OSError as error:
        raise SgnsError(f"cannot read {path}: {error.strerror}", "check the file and its rights") from error


def _sampled_hash(path: Path, size: int) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        if size <= WHOLE:
            return hashlib.file_digest(file, "sha256").hexdigest()
        for part in range(PARTS):
            file.seek((size - SAMPLE) * part // (PARTS - 1), os.SEEK_SET)
            digest.update(file.read(SAMPLE))
    return digest.hexdigest()


def _tokenizer_key(tokenizer: TokenizerConfig) -> list[Any]:
    """What decides the ids; a named encoding is always the same, a rank file is what is in it."""
    if tokenizer.train:
        return ["train", tokenizer.train.vocab_size, resolve_pattern(tokenizer.train)]
    encoding = tokenizer.encoding_name
    if encoding == WHITESPACE or encoding in encoding_names():
        return ["encoding", encoding]
    return ["ranks", open_encoding(encoding).fingerprint]
