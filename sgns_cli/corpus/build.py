"""A corpus becomes a token folder: reader, tokenizer and store put together.

Each document is encoded as a whole, so its ids are what the tokenizer says of it, whatever the batches and
threads. Which cached folder may stand for a corpus is decided in token_cache.py; what only prints tokens is
token_stream.py.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np
from numpy.typing import NDArray

from sgns_cli.config import PATTERNS, DataConfig, TokenizerConfig, TrainTokenizerConfig
from sgns_cli.corpus.bpe import EncodeError
from sgns_cli.corpus.reader import CorpusReader, Report, find_text_sources, spool
from sgns_cli.corpus.sample import sample_texts, utf8_length
from sgns_cli.corpus.source_paths import check_regular
from sgns_cli.corpus.text_documents import DocumentBatch
from sgns_cli.corpus.token_store import TokenStore, add_counts, dtype_for, open_token_store, write_token_store
from sgns_cli.corpus.tokenizer import WHITESPACE, Tokenizer, open_encoding
from sgns_cli.corpus.whitespace import GrowingVocabulary
from sgns_cli.errors import SgnsError
from sgns_cli.folders import exists_already

MOST_THREADS = 8  # that reading can feed
BYTES_A_THREAD = 2**22  # what is encoded in the time that making an encoder takes, a few times over
SAMPLE_BYTES = 2**27  # of text to train a tokenizer on: rustbpe takes up to 25 bytes of memory for each


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
    token, or a folder that holds something.
    """
    overwrite = overwrite or _is_empty(folder)
    if folder.exists() and not overwrite:
        raise exists_already(folder)
    reader = CorpusReader(data, find_text_sources(data), progress, stdin)
    with ExitStack() as stack:
        if tokenizer.train and reader.has_stdin and not (stdin and stdin.seekable()):
            reader.stdin = stack.enter_context(spool(stdin))
        if tokenizer.encoding == WHITESPACE:
            return _write(reader, GrowingVocabulary(), tokenizer, folder, overwrite=overwrite, threads=1)
        encoder = make_tokenizer(reader, tokenizer, threads=threads)
        return _write(reader, encoder, tokenizer, folder, overwrite=overwrite, threads=threads)


def _is_empty(folder: Path) -> bool:
    """Whether there is a folder with nothing in it, whose place another may take; the present one may not move."""
    return folder.is_dir() and folder.resolve() != Path.cwd() and not any(folder.iterdir())


def make_tokenizer(reader: CorpusReader, tokenizer: TokenizerConfig, *, threads: int = 1) -> Tokenizer:
    """The tokenizer that a token folder of this corpus would have, for which the corpus is read where need be."""
    if tokenizer.train:
        return _train_tokenizer(reader, tokenizer.train, threads)
    if tokenizer.encoding != WHITESPACE:
        return open_encoding(tokenizer.encoding_name)
    check_regular(reader.sources)
    vocabulary = GrowingVocabulary()
    counts = np.zeros(0, dtype=np.int64)
    for batch in reader.batches("reading"):
        counts = add_counts(counts, vocabulary.encode_batch(batch.texts)[0])
    return vocabulary.by_falling_count(counts)[0]


def _train_tokenizer(reader: CorpusReader, train: TrainTokenizerConfig, threads: int) -> Tokenizer:
    from sgns_cli.corpus.bpe_trainer import train_bpe

    check_regular(reader.sources)
    texts = (text for batch in reader.batches("reading") for text in batch.texts)
    sample = sample_texts(texts, at_most=SAMPLE_BYTES)
    if sample.taken_bytes < sample.bytes:
        reader.notes.append(
            f"the tokenizer was trained on a sample: {sample.taken_bytes:,} of {sample.bytes:,} bytes, in pieces from "
            "all over the corpus"
        )
    reader.bytes = sample.taken_bytes
    reader.report("merging", 0)
    pattern = resolve_pattern(train)
    return train_bpe(sample.texts, vocab_size=train.vocab_size, pattern=pattern, threads=threads)


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
    reader: CorpusReader,
    encoder: Tokenizer | GrowingVocabulary,
    config: TokenizerConfig,
    folder: Path,
    *,
    overwrite: bool,
    threads: int,
) -> TokenStore:
    """Encode all batches in order, and write them with the facts for meta.json."""
    dtype = np.dtype("<u4") if isinstance(encoder, GrowingVocabulary) else dtype_for(encoder.n_vocab)
    text_bytes = 0
    skipped: list[dict[str, Any]] = []
    with write_token_store(folder, dtype, overwrite=overwrite) as writer:
        batches = reader.batches("tokens")
        for encoded in _in_order(lambda batch: _encode(encoder, batch), batches, _useful_threads(reader, threads)):
            writer.add(encoded.ids, encoded.lengths)
            text_bytes += encoded.text_bytes
            skipped.extend(encoded.skipped)
            reader.report("tokens", writer.n_tokens)
        if writer.n_tokens == 0:
            raise no_tokens(reader, skipped)
        tokenizer: Tokenizer
        new_ids: NDArray[np.uint32] | None
        if isinstance(encoder, GrowingVocabulary):
            tokenizer, new_ids = encoder.by_falling_count(writer.counts)
        else:
            tokenizer, new_ids = encoder, None
        covered = _token_bytes(tokenizer, writer.counts)
        facts = {
            "bytes": text_bytes,
            "sources": reader.data.sources,
            "options": {**reader.data.model_dump(exclude={"sources"}), "tokenizer": _named(config).model_dump()},
            "skipped": skipped,
            "notes": corpus_notes(reader, config, tokenizer, text_bytes, covered),
        }
        writer.finish(tokenizer, facts, new_ids=new_ids)
        reader.report("tokens", writer.n_tokens, last=True)
    return open_token_store(folder)


def _named(config: TokenizerConfig) -> TokenizerConfig:
    """The config with its encoding named, where it left the choice to the default."""
    return config if config.train else TokenizerConfig(encoding=config.encoding_name)


def _token_bytes(tokenizer: Tokenizer, counts: NDArray[np.int64]) -> int | None:
    """How many bytes all the tokens of a corpus have; None where tokens leave out white space on purpose."""
    if tokenizer.kind == WHITESPACE:
        return None
    return sum(len(tokenizer.token_bytes(id) or b"") * int(counts[id]) for id in np.flatnonzero(counts).tolist())


def _encode(encoder: _Encoder, batch: DocumentBatch) -> _Encoded:
    """Encode a batch; a document that the encoder gives up on is left out and noted, the rest goes on."""
    text_bytes = utf8_length("".join(batch.texts))
    try:
        return _Encoded(*encoder.encode_batch(batch.texts), text_bytes, [])
    except EncodeError as error:
        if len(batch.texts) == 1:
            note = skipped_document(batch.origin, batch.first, error)
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


def _useful_threads(reader: CorpusReader, threads: int) -> int:
    """How many of `threads` there is work for: each makes an encoder for itself first, and one thread reads."""
    size = reader.bytes_total
    return min(threads, MOST_THREADS, MOST_THREADS if size is None else 1 + size // BYTES_A_THREAD)


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


def skipped_document(origin: str, number: int, error: EncodeError) -> dict[str, Any]:
    """How meta.json lists a document that the tokenizer gave up on."""
    return {"source": origin, "document": number, "reason": error.message}


def skipped_error(skipped: list[dict[str, Any]], hint: str) -> SgnsError:
    """What to say of documents that the tokenizer gave up on, as meta.json lists them."""
    first = skipped[0]
    which = f"document {first['document']:,} of {first['source']}"
    if len(skipped) == 1:
        return SgnsError(f"1 document was skipped, {which}: {first['reason']}", hint)
    return SgnsError(f"{len(skipped):,} documents were skipped, the first is {which}: {first['reason']}", hint)


def no_tokens(reader: CorpusReader, skipped: list[dict[str, Any]]) -> SgnsError:
    """What to say of a corpus without a token."""
    names = " ".join(reader.data.sources)
    if skipped:
        return SgnsError(f"every document of {names} was skipped: {skipped[0]['reason']}", "cut the text into lines")
    return SgnsError(f"there is no token in {names}", "give sources with text in them")


def corpus_notes(
    reader: CorpusReader, config: TokenizerConfig, tokenizer: Tokenizer, text_bytes: int, token_bytes: int | None
) -> list[str]:
    """What people should know of a corpus that was read to its end. `token_bytes` are those of all its tokens."""
    notes = list(reader.notes)
    for findings in reader.findings:
        notes.extend(findings.notes(reader.data.column))
    if config.train and tokenizer.n_vocab < config.train.vocab_size:
        asked = config.train.vocab_size
        notes.append(f"{asked} tokens were asked for, the corpus has merges for {tokenizer.n_vocab}")
    if token_bytes is not None and token_bytes < text_bytes:
        lost = text_bytes - token_bytes
        notes.append(f"{lost:,} of {text_bytes:,} bytes of text are in no token: the pattern does not match them")
    return notes
