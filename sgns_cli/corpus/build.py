"""A corpus becomes a token folder: sources, tokenizer and store put together.

Each document is encoded as a whole, so its ids are what the tokenizer says of it, whatever the batches and
threads. Which cached folder may stand for a corpus is decided in token_cache.py.
"""

import shutil
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Literal, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from sgns_cli.config import DEFAULT_ENCODING, PATTERNS, DataConfig, TokenizerConfig, TrainTokenizerConfig
from sgns_cli.corpus.source_paths import Source, find_sources
from sgns_cli.corpus.sources import source_documents
from sgns_cli.corpus.text_documents import DocumentBatch
from sgns_cli.corpus.token_store import (
    TokenStore,
    dtype_for,
    is_token_folder,
    open_token_store,
    write_token_store,
)
from sgns_cli.corpus.tokenizer import WHITESPACE, EncodeError, Tokenizer, open_encoding
from sgns_cli.corpus.whitespace import GrowingVocabulary
from sgns_cli.errors import SgnsError

SECONDS_BETWEEN_REPORTS = 0.1


@dataclass(frozen=True)
class TokenizeProgress:
    """How far a token folder has come; while `stage` is `tokenizer` a BPE is being trained and there are no
    tokens.
    """

    stage: Literal["tokenizer", "tokens"]
    documents: int
    tokens: int
    bytes: int  # of the sources, as they lie on disk
    bytes_total: int | None  # None where the sources do not tell
    seconds: float


Report = Callable[[TokenizeProgress], None]


def build_token_folder(
    data: DataConfig,
    tokenizer: TokenizerConfig,
    folder: Path,
    *,
    overwrite: bool = False,
    progress: Report | None = None,
    threads: int = 1,
    stdin: BinaryIO | None = None,
) -> TokenStore:
    """Read all sources, encode every document, and write the token folder; nothing is left behind if that
    fails.

    Raises SgnsError for sources that cannot be read, an encoding that is not at hand, a corpus without a
    token, or a folder that exists.
    """
    if folder.exists() and not overwrite:
        raise SgnsError(f"{folder} exists already", "choose another folder, or remove it first")
    reader = _Reader(data, find_text_sources(data), progress)
    with ExitStack() as stack:
        reader.stdin = stdin
        if tokenizer.train and reader.has_stdin:
            reader.stdin = stack.enter_context(spool(stdin))
        if tokenizer.encoding == WHITESPACE:
            return _write(reader, GrowingVocabulary(), tokenizer, folder, overwrite=overwrite, threads=1)
        encoder = _bpe(reader, tokenizer)
        return _write(reader, encoder, tokenizer, folder, overwrite=overwrite, threads=threads)


def make_tokenizer(data: DataConfig, tokenizer: TokenizerConfig, *, stdin: BinaryIO | None = None) -> Tokenizer:
    """The tokenizer that a token folder of these sources would have. `stdin`, if it is to be read again, must
    seek.
    """
    if not tokenizer.train and tokenizer.encoding != WHITESPACE:
        return open_encoding(tokenizer.encoding or DEFAULT_ENCODING)
    reader = _Reader(data, find_text_sources(data), None, stdin)
    if tokenizer.train:
        return _bpe(reader, tokenizer)
    vocabulary = GrowingVocabulary()
    counts = np.zeros(0, dtype=np.int64)
    for batch in reader.batches("tokenizer"):
        more = np.bincount(vocabulary.encode_batch(batch.texts)[0], minlength=len(counts))
        more[: len(counts)] += counts
        counts = more
    return vocabulary.by_falling_count(counts)[0]


def spool(stdin: BinaryIO | None) -> BinaryIO:
    """Copy standard input to an unnamed file, to read it more than once."""
    file = cast(BinaryIO, tempfile.TemporaryFile())  # noqa: SIM115 - the caller closes it
    shutil.copyfileobj(stdin or sys.stdin.buffer, file, 2**20)
    file.seek(0)
    return file


def find_text_sources(data: DataConfig) -> list[Source]:
    """`find_sources`, and no token folder among them."""
    for name in data.sources:
        if is_token_folder(Path(name).expanduser()):
            raise SgnsError(f"{name} is a token folder already", "a token folder can only be trained on, and alone")
    return find_sources(data.sources)


@dataclass
class _Reader:
    """Reads the corpus, as often as asked, and reports how far it is."""

    data: DataConfig
    sources: list[Source]
    progress: Report | None
    stdin: BinaryIO | None = None
    started: float = field(default_factory=time.monotonic)
    reported: float = 0.0
    documents: int = 0
    bytes: int = 0
    bytes_total: int | None = field(init=False)

    def __post_init__(self) -> None:
        sizes = [source.size for source in self.sources]
        self.bytes_total = None if None in sizes else sum(size for size in sizes if size is not None)

    @property
    def has_stdin(self) -> bool:
        return any(source.kind == "stdin" for source in self.sources)

    def batches(self, stage: Literal["tokenizer", "tokens"]) -> Iterator[DocumentBatch]:
        before = self.documents = self.bytes = 0
        for source in self.sources:
            if source.kind == "stdin" and self.stdin is not None and self.stdin.seekable():
                self.stdin.seek(0)
            for batch in source_documents(source, self.data, stdin=self.stdin):
                self.bytes = before + batch.bytes_read
                self.documents += len(batch.texts)
                yield batch
                if stage == "tokenizer":
                    self.report(stage, 0)
            before = self.bytes

    def report(self, stage: Literal["tokenizer", "tokens"], tokens: int, *, last: bool = False) -> None:
        now = time.monotonic()
        if self.progress is None or (now - self.reported < SECONDS_BETWEEN_REPORTS and not last):
            return
        self.reported = now
        seconds = now - self.started
        self.progress(TokenizeProgress(stage, self.documents, tokens, self.bytes, self.bytes_total, seconds))


def _bpe(reader: _Reader, tokenizer: TokenizerConfig) -> Tokenizer:
    if tokenizer.train is None:
        return open_encoding(tokenizer.encoding or DEFAULT_ENCODING)
    from sgns_cli.corpus.bpe_trainer import train_bpe

    texts = (text for batch in reader.batches("tokenizer") for text in batch.texts)
    pattern = resolve_pattern(tokenizer.train)
    return train_bpe(texts, vocab_size=tokenizer.train.vocab_size, pattern=pattern)


def resolve_pattern(train: TrainTokenizerConfig) -> str:
    """The regular expression that a name such as `lines` stands for, or that was given itself."""
    return PATTERNS.get(train.pattern, train.pattern)


class _Encoder(Protocol):
    def encode_batch(self, texts: list[str]) -> tuple[NDArray[np.uint32], NDArray[np.int64]]: ...


@dataclass(frozen=True)
class _Encoded:
    ids: NDArray[np.uint32]
    lengths: NDArray[np.int64]
    text_bytes: int
    skipped: list[dict[str, Any]]


def _write(
    reader: _Reader,
    encoder: Tokenizer | GrowingVocabulary,
    config: TokenizerConfig,
    folder: Path,
    *,
    overwrite: bool,
    threads: int,
) -> TokenStore:
    """Encode all batches in order, and write them with the facts for meta.json."""
    growing = encoder if isinstance(encoder, GrowingVocabulary) else None
    dtype = np.dtype("<u4") if isinstance(encoder, GrowingVocabulary) else dtype_for(encoder.n_vocab)
    text_bytes = 0
    skipped: list[dict[str, Any]] = []
    with write_token_store(folder, dtype, overwrite=overwrite) as writer:
        batches = reader.batches("tokens")
        for encoded in _in_order(lambda batch: _encode(encoder, batch), batches, threads):
            writer.add(encoded.ids, encoded.lengths)
            text_bytes += encoded.text_bytes
            skipped.extend(encoded.skipped)
            reader.report("tokens", writer.n_tokens)
        if writer.n_tokens == 0:
            raise _no_tokens(reader, skipped)
        tokenizer, new_ids = growing.by_falling_count(writer.counts) if growing else (cast(Tokenizer, encoder), None)
        facts = {
            "bytes": text_bytes,
            "sources": reader.data.sources,
            "options": {**reader.data.model_dump(exclude={"sources"}), "tokenizer": config.model_dump()},
            "skipped": skipped,
            "notes": _notes(config, tokenizer),
        }
        writer.finish(tokenizer, facts, new_ids=new_ids)
        reader.report("tokens", writer.n_tokens, last=True)
    return open_token_store(folder)


def _encode(encoder: _Encoder, batch: DocumentBatch) -> _Encoded:
    """Encode a batch; a document that the encoder gives up on is left out and noted, the rest goes on."""
    text_bytes = sum(len(text) if text.isascii() else len(text.encode(errors="replace")) for text in batch.texts)
    try:
        return _Encoded(*encoder.encode_batch(batch.texts), text_bytes, [])
    except EncodeError as error:
        if len(batch.texts) == 1:
            note = {"source": batch.origin, "document": batch.first, "reason": error.message}
            return _Encoded(np.zeros(0, np.uint32), np.zeros(0, np.int64), 0, [note])
    singles = [
        _encode(encoder, DocumentBatch(batch.origin, batch.first + index, [text], batch.bytes_read))
        for index, text in enumerate(batch.texts)
    ]
    return _Encoded(
        np.concatenate([single.ids for single in singles]),
        np.concatenate([single.lengths for single in singles]),
        sum(single.text_bytes for single in singles),
        [note for single in singles for note in single.skipped],
    )


def _in_order(
    encode: Callable[[DocumentBatch], _Encoded], batches: Iterable[DocumentBatch], threads: int
) -> Iterator[_Encoded]:
    """Map over batches with several threads, in order, with few batches in memory at a time."""
    if threads <= 1:
        yield from map(encode, batches)
        return
    pool = ThreadPoolExecutor(threads)
    waiting: deque[Future[_Encoded]] = deque()
    try:
        for batch in batches:
            waiting.append(pool.submit(encode, batch))
            if len(waiting) > threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


def _no_tokens(reader: _Reader, skipped: list[dict[str, Any]]) -> SgnsError:
    names = " ".join(reader.data.sources)
    if skipped:
        return SgnsError(f"every document of {names} was skipped: {skipped[0]['reason']}", "cut the text into lines")
    return SgnsError(f"there is no token in {names}", "give sources with text in them")


def _notes(config: TokenizerConfig, tokenizer: Tokenizer) -> list[str]:
    if config.train and tokenizer.n_vocab < config.train.vocab_size:
        return [f"{config.train.vocab_size} tokens were asked for, the corpus has merges for {tokenizer.n_vocab}"]
    return []
