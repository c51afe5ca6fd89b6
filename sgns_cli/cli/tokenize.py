"""Text to token ids: tokenize prints them, or writes a token folder."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from sgns_cli.cli.options import Json, Quiet, Threads
from sgns_cli.console import Console
from sgns_cli.errors import SgnsError, UsageError

if TYPE_CHECKING:
    from sgns_cli.config import DataConfig, TokenizerConfig
    from sgns_cli.corpus.build import TokenizeProgress

Document = Literal["line", "paragraph", "file"]
Errors = Literal["strict", "replace"]


def tokenize(
    sources: Annotated[
        list[str],
        typer.Argument(metavar="SOURCE", help="Files, folders, globs, hf:NAME, a token folder, or `-` for stdin."),
    ],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="DIR", help="Write a token folder instead of printing.")
    ] = None,
    encoding: Annotated[
        str | None, typer.Option("--encoding", metavar="NAME|FILE", help="The tokenizer. [default: cl100k_base]")
    ] = None,
    train_vocab: Annotated[
        int | None,
        typer.Option("--train-vocab", min=256, max=2**24, metavar="N", help="Train a BPE of N tokens on the text."),
    ] = None,
    pattern: Annotated[
        str | None,
        typer.Option("--pattern", metavar="lines|words|REGEX", help="How --train-vocab cuts text. [default: lines]"),
    ] = None,
    document: Annotated[Document, typer.Option("--document", help="What a document is.")] = "line",
    column: Annotated[str, typer.Option("--column", help="The text column of structured files.")] = "text",
    lowercase: Annotated[bool, typer.Option("--lowercase", help="Lower-case the text first.")] = False,
    errors: Annotated[Errors, typer.Option("--errors", help="What invalid UTF-8 does.")] = "strict",
    threads: Threads = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Print the tokens of the sources, or write them as a token folder that can be trained on."""
    from sgns_cli.config import DataConfig, TokenizerConfig, TrainTokenizerConfig

    if encoding is not None and train_vocab is not None:
        raise UsageError("--encoding and --train-vocab exclude each other", "leave out one of them")
    if pattern is not None and train_vocab is None:
        raise UsageError("--pattern needs --train-vocab", "add --train-vocab N")
    _refuse_text(sources)
    console = Console(json=json, quiet=quiet)
    data = DataConfig(sources=sources, document=document, column=column, lowercase=lowercase, errors=errors)
    train = None if train_vocab is None else TrainTokenizerConfig(vocab_size=train_vocab, pattern=pattern or "lines")
    tokenizer = TokenizerConfig(encoding=encoding, train=train)
    if output is None:
        table = ["position", "token", "id", "bytes"]
        console.records(_token_records(data, tokenizer), table=["text", *table] if document != "file" else table)
    else:
        console.records([_write(data, tokenizer, output, threads, console)])


def _refuse_text(sources: list[str]) -> None:
    """Say how to tokenize a text to someone who gave one in place of a path."""
    for source in sources:
        if " " in source and not Path(source).exists() and not set(source) & set("*?[") and source[:3] != "hf:":
            raise SgnsError(
                f"there is no file {source!r}", f"for the tokens of a text: echo '{source}' | sgns tokenize -"
            )


def _write(
    data: "DataConfig", tokenizer: "TokenizerConfig", output: Path, threads: int | None, console: Console
) -> dict[str, object]:
    """Write the token folder and say what is in it."""
    from sgns_cli.corpus.build import build_token_folder
    from sgns_cli.threads import available_threads

    seconds = 0.0
    with console.tokenize_progress() as show:

        def progress(report: "TokenizeProgress") -> None:
            nonlocal seconds
            seconds = report.seconds
            show(report)

        store = build_token_folder(data, tokenizer, output, progress=progress, threads=threads or available_threads())
    for note in store.meta["notes"]:
        console.note(note)
    for skipped in store.meta["skipped"]:
        console.note(f"{skipped['source']}: document {skipped['document']} is left out: {skipped['reason']}")
    return {
        "folder": str(store.folder),
        "tokens": len(store.tokens),
        "documents": store.n_documents,
        "types": store.meta["types"],
        "bytes": store.meta["bytes"],
        "seconds": round(seconds, 3),
    }


def _token_records(data: "DataConfig", tokenizer: "TokenizerConfig") -> Iterator[dict[str, object]]:
    """Every token of every document, as it is read."""
    from sgns_cli.corpus.token_text import show

    for text, (token_bytes, ids) in enumerate(_documents(data, tokenizer)):
        for position, id in enumerate(ids):
            token = token_bytes(id) or b""
            yield {"text": text, "position": position, "token": show(token), "id": id, "bytes": token.hex()}


def _documents(
    data: "DataConfig", tokenizer: "TokenizerConfig"
) -> Iterator[tuple[Callable[[int], bytes | None], list[int]]]:
    """For each document its ids, and what gives the bytes of an id; a token folder is read as it is."""
    from sgns_cli.corpus.build import make_tokenizer, spool
    from sgns_cli.corpus.sources import documents
    from sgns_cli.corpus.token_store import is_token_folder, open_token_store

    if len(data.sources) == 1 and is_token_folder(Path(data.sources[0])):
        store = open_token_store(Path(data.sources[0]))
        token_bytes = store.tokenizer().token_bytes
        for start, end in pairwise(store.documents.tolist()):
            yield token_bytes, store.tokens[start:end].tolist()
        return
    with ExitStack() as stack:
        reads_twice = tokenizer.train is not None or tokenizer.encoding == "whitespace"
        stdin = stack.enter_context(spool(None)) if reads_twice and "-" in data.sources else None
        encoder = make_tokenizer(data, tokenizer, stdin=stdin)
        if stdin is not None:
            stdin.seek(0)
        for batch in documents(data, stdin=stdin):
            for text in batch.texts:
                yield encoder.token_bytes, encoder.encode(text).tolist()
