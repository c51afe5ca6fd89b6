"""The tokens of each document as they are read, for those who want to see them and write no folder."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from sgns_cli.config import DataConfig, TokenizerConfig
from sgns_cli.corpus.bpe import EncodeError
from sgns_cli.corpus.build import corpus_notes, make_tokenizer, no_tokens, skipped_document
from sgns_cli.corpus.reader import CorpusReader, find_text_sources, spool
from sgns_cli.corpus.sample import utf8_length
from sgns_cli.corpus.token_cache import open_source_folder
from sgns_cli.corpus.tokenizer import WHITESPACE
from sgns_cli.token_folder import is_token_folder
from sgns_cli.user_folders import expand_home


@dataclass(frozen=True)
class Tokens:
    """A document: its ids, and what gives the bytes of an id."""

    ids: list[int]
    token_bytes: Callable[[int], bytes | None]


@dataclass
class TokenStream:
    """Iterate over it once; `notes` are complete when all documents have come."""

    data: DataConfig
    tokenizer: TokenizerConfig
    threads: int = 1  # for the training of a tokenizer
    notes: list[str] = field(default_factory=list)
    skipped: list[dict[str, Any]] = field(default_factory=list)  # documents that the tokenizer gave up on

    def __iter__(self) -> Iterator[Tokens]:
        """Every document, in order. Raises SgnsError if there is none, as a token folder's writer does."""
        folder = expand_home(self.data.sources[0])
        if len(self.data.sources) == 1 and is_token_folder(folder):
            return self._of_folder(folder)
        return self._of_texts()

    def _of_folder(self, folder: Path) -> Iterator[Tokens]:
        store = open_source_folder(folder, self.data, self.tokenizer)
        token_bytes = store.tokenizer().token_bytes
        for start, end in pairwise(store.documents.tolist()):
            yield Tokens(store.tokens[start:end].tolist(), token_bytes)

    def _of_texts(self) -> Iterator[Tokens]:
        reader = CorpusReader(self.data, find_text_sources(self.data))
        text_bytes = token_bytes = 0
        with ExitStack() as stack:
            if reader.has_stdin and (self.tokenizer.train or self.tokenizer.encoding == WHITESPACE):
                reader.stdin = stack.enter_context(spool(None))
            encoder = make_tokenizer(reader, self.tokenizer, threads=self.threads)
            for batch in reader.batches("tokens"):
                for number, text in enumerate(batch.texts, start=batch.first):
                    try:
                        tokens = Tokens(encoder.encode(text).tolist(), encoder.token_bytes)
                    except EncodeError as error:
                        self.skipped.append(skipped_document(batch.origin, number, error))
                        continue
                    yield tokens
                    text_bytes += utf8_length(text)
                    token_bytes += sum(len(encoder.token_bytes(id) or b"") for id in tokens.ids)
        if token_bytes == 0:
            raise no_tokens(reader, self.skipped)
        covered = None if encoder.kind == WHITESPACE else token_bytes
        self.notes += corpus_notes(reader, self.tokenizer, encoder, text_bytes, covered)
