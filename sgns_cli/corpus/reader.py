"""Reads the documents of a corpus, as often as asked, and reports how far it is.

Where documents come from is sources.py's business, what becomes of them build.py's and token_stream.py's.
"""

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import BinaryIO, Literal, cast

from sgns_cli.config import DataConfig
from sgns_cli.corpus.findings import Findings
from sgns_cli.corpus.source_paths import Source, find_sources
from sgns_cli.corpus.sources import source_documents
from sgns_cli.corpus.text_documents import DocumentBatch
from sgns_cli.errors import SgnsError
from sgns_cli.token_folder import is_token_folder
from sgns_cli.user_folders import expand_home

SECONDS_BETWEEN_REPORTS = 0.1
# waiting for another process, reading and merging to train a tokenizer, then the tokens
StageName = Literal["waiting", "reading", "merging", "tokens"]


@dataclass(frozen=True)
class TokenizeProgress:
    """How far a stage of making a token folder has come; there are tokens only in the last."""

    stage: StageName
    documents: int
    tokens: int
    bytes: int  # of the sources, as they lie on disk; of records, characters of text
    bytes_total: int | None  # None where the sources do not tell
    seconds: float


Report = Callable[[TokenizeProgress], None]


def spool(stdin: BinaryIO | None) -> BinaryIO:
    """Copy standard input to an unnamed file, to read it more than once. Raises SgnsError if that cannot be."""
    source = stdin or sys.stdin.buffer
    place = "a temporary file"
    try:
        place = tempfile.gettempdir()
        with ExitStack() as stack:
            file = stack.enter_context(cast(BinaryIO, tempfile.TemporaryFile()))  # noqa: SIM115 - the stack closes it
            while block := _read(source):
                file.write(block)
            file.seek(0)
            stack.pop_all()  # the caller closes it
            return file
    except OSError as error:
        what = f"cannot keep standard input in {place}: {error.strerror}"
        raise SgnsError(what, "set TMPDIR to a folder with room, or give a file as source") from error


def _read(stdin: BinaryIO) -> bytes:
    try:
        return stdin.read(2**20)
    except OSError as error:
        raise SgnsError(f"cannot read standard input: {error.strerror}", "send text to it") from error


def find_text_sources(data: DataConfig) -> list[Source]:
    """`find_sources`, and no token folder among them."""
    for name in data.sources:
        if is_token_folder(expand_home(name)):
            raise SgnsError(f"{name} is a token folder already", "a token folder is a source by itself")
    return find_sources(data.sources)


@dataclass
class CorpusReader:
    """The documents of a corpus in batches. Standard input, if it is to be read again, must seek: see `spool`."""

    data: DataConfig
    sources: list[Source]
    progress: Report | None = None
    stdin: BinaryIO | None = None
    started: float = field(default_factory=time.monotonic)
    documents: int = 0
    bytes: int = 0
    findings: list[Findings] = field(default_factory=list)  # of the last pass
    notes: list[str] = field(default_factory=list)  # for people
    _reported: TokenizeProgress | None = None

    @property
    def has_stdin(self) -> bool:
        return any(source.kind == "stdin" for source in self.sources)

    @cached_property
    def bytes_total(self) -> int | None:
        """Bytes on disk of all sources, or None where one does not tell."""
        sizes = [source.size for source in self.sources]
        return None if None in sizes else sum(size for size in sizes if size is not None)

    def batches(self, stage: StageName) -> Iterator[DocumentBatch]:
        """All documents, from the start; each batch has at least one."""
        before = self.documents = self.bytes = 0
        self.started = time.monotonic()
        self.findings = [Findings(source.origin) for source in self.sources]
        for source, findings in zip(self.sources, self.findings, strict=True):
            if source.kind == "stdin" and self.stdin is not None and self.stdin.seekable():
                self.stdin.seek(0)
            for batch in source_documents(source, self.data, stdin=self.stdin, findings=findings):
                self.bytes = before + batch.bytes_read
                self.documents += len(batch.texts)
                yield batch
                if stage == "reading":
                    self.report(stage, 0)
            before = self.bytes

    def report(self, stage: StageName, tokens: int, *, last: bool = False) -> None:
        """Tell `progress` how far it is, unless that was just done; the first report of a stage and the last one are
        left out only where they would say the same again.
        """
        if self.progress is None:
            return
        seconds = time.monotonic() - self.started
        report = TokenizeProgress(stage, self.documents, tokens, self.bytes, self.bytes_total, seconds)
        before = self._reported
        if before and replace(report, seconds=before.seconds) == before:
            return
        new = last or not before or before.stage != stage
        if before and not new and seconds - before.seconds < SECONDS_BETWEEN_REPORTS:
            return
        self._reported = report
        self.progress(report)
