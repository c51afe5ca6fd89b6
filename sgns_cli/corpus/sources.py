"""From the config's `data.sources` to a stream of documents, in the order of the sources.

Sources are text files, folders, globs, standard input, structured files (a record is a document) and data sets of the
Hugging Face hub. Plain text is read by text_documents.py, .jsonl, .csv and .tsv by record_files.py; `datasets`, which
only this module imports and only when it is needed, reads .parquet and the hub. Nothing is ever whole in memory, and a
local source never touches the network.
"""

import logging
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from sgns_cli.config import DataConfig
from sgns_cli.corpus.findings import Findings
from sgns_cli.corpus.record_files import Records, json_records, missing_column, table_records, wrong_type
from sgns_cli.corpus.sample import utf8_length
from sgns_cli.corpus.source_paths import Source, find_sources, inner_suffix, split_hub_name
from sgns_cli.corpus.text_documents import BLOCK, DocumentBatch, file_documents, read_blocks, stream_documents
from sgns_cli.errors import SgnsError

RECORDS_AT_ONCE = 100  # that `datasets` holds in memory
HUB_SECONDS = 5.0


def documents(data: DataConfig, *, stdin: BinaryIO | None = None) -> Iterator[DocumentBatch]:
    """All documents of all sources, in batches; what is wrong with a path is raised here, before anything is
    read.
    """
    sources = find_sources(data.sources)
    return (batch for source in sources for batch in source_documents(source, data, stdin=stdin))


def count_bytes(data: DataConfig, *, at_most: int) -> int | None:
    """Bytes of text in all documents, reading no more than it takes to see that there are `at_most`.

    None where looking would take away what is there (stdin) or needs a network (the hub).
    """
    if any(source.kind in ("stdin", "hub") for source in find_sources(data.sources)):
        return None
    size = 0
    for batch in documents(data):
        size += sum(map(utf8_length, batch.texts))
        if size >= at_most:
            return at_most
    return size


def source_documents(
    source: Source, data: DataConfig, *, stdin: BinaryIO | None = None, findings: Findings | None = None
) -> Iterator[DocumentBatch]:
    """The documents of one source; `findings` is told what is odd in it."""
    findings = findings or Findings(source.origin)
    if source.kind == "text":
        return file_documents(
            Path(source.name), document=data.document, lowercase=data.lowercase, errors=data.errors, findings=findings
        )
    if source.kind == "stdin":
        blocks = read_blocks(stdin or sys.stdin.buffer, source.origin, errors=data.errors, findings=findings)
        return stream_documents(blocks, source.origin, document=data.document, lowercase=data.lowercase)
    return _record_documents(_records(source, data, findings), source.origin, data, findings)


def _records(source: Source, data: DataConfig, findings: Findings) -> Records:
    if source.kind == "hub":
        return _column(_hub_records(source.name), source.origin, data)
    path = Path(source.name)
    inner = inner_suffix(path)
    if inner == ".parquet":
        return _column(_parquet_records(path), source.origin, data)
    if inner == ".jsonl":
        return json_records(path, data, findings)
    return table_records(path, data, findings, delimiter="\t" if inner == ".tsv" else ",")


def _record_documents(records: Records, origin: str, data: DataConfig, findings: Findings) -> Iterator[DocumentBatch]:
    """Texts in batches of about BLOCK; a record whose text is missing, null or empty is no document, and is counted."""
    number = 1
    batch: list[str] = []
    size = bytes_read = 0
    for text, bytes_read in records:
        if text in (None, ""):
            findings.without_text += 1
            continue
        if not isinstance(text, str):
            raise wrong_type(origin, data.column, text)
        batch.append(text.lower() if data.lowercase else text)
        size += len(text)
        if size >= BLOCK:
            yield DocumentBatch(origin, number, batch, bytes_read)
            number += len(batch)
            batch, size = [], 0
    if batch:
        yield DocumentBatch(origin, number, batch, bytes_read)


def _column(records: Iterable[dict[str, list[Any]]], origin: str, data: DataConfig) -> Records:
    """The values of the column; how many bytes they have on disk nobody knows, so their characters are counted."""
    characters = 0
    for columns in records:
        if data.column not in columns:
            raise missing_column(origin, data.column, list(columns))
        for value in columns[data.column]:
            characters += len(value) if isinstance(value, str) else 0
            yield value, characters


def _parquet_records(path: Path) -> Iterator[dict[str, list[Any]]]:
    """A dict of columns for each hundred records."""
    try:
        with _offline():
            records = _load_dataset("parquet", data_files=str(path.resolve()), split="train", streaming=True)
        yield from records.iter(batch_size=RECORDS_AT_ONCE)
    except Exception as error:  # any of pyarrow's and datasets' own
        reason = str(error.__cause__ or error).strip().split("\n")[0]
        raise SgnsError(f"cannot read {path}: {reason}", "is it a whole .parquet file?") from error


def _load_dataset(*arguments: Any, **options: Any) -> Any:  # noqa: ANN401 - datasets has no types
    from datasets import load_dataset  # type: ignore[import-untyped]

    logging.getLogger("datasets").setLevel(logging.CRITICAL)  # what goes wrong is raised as well
    return load_dataset(*arguments, **options)


@contextmanager
def _offline() -> Iterator[None]:
    """Load a local data set without the question that `datasets` asks the network each time."""
    import datasets.config  # type: ignore[import-untyped]
    import huggingface_hub.constants

    holders: list[Any] = [datasets.config, huggingface_hub.constants]
    before = [holder.HF_HUB_OFFLINE for holder in holders]
    for holder in holders:
        holder.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        for holder, value in zip(holders, before, strict=True):
            holder.HF_HUB_OFFLINE = value


def _hub_records(name: str) -> Iterator[dict[str, list[Any]]]:
    """Records of a data set of the hub, streamed."""
    repository, config, split = split_hub_name(name)
    try:
        _ask_hub(repository)
        records = _load_dataset(repository, config, split=split, streaming=True)
        yield from records.iter(batch_size=RECORDS_AT_ONCE)
    except Exception as error:  # any of huggingface_hub's, pyarrow's and datasets' own
        reason = str(error).strip().split("\n")[0] or type(error).__name__
        raise SgnsError(
            f"cannot read {name} from the Hugging Face hub: {reason}",
            "check the name, the split and the network; or give files of the data set as sources",
        ) from error


def _ask_hub(repository: str) -> None:
    """One question with a limit on time: without a network `datasets` would try again for half a minute."""
    import huggingface_hub
    import huggingface_hub.constants

    if not huggingface_hub.constants.HF_HUB_OFFLINE:
        huggingface_hub.HfApi().dataset_info(repository, timeout=HUB_SECONDS)
