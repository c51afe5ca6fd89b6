"""Text to token ids: tokenize prints them, or writes a token folder."""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from sgns_cli.cli.options import Json, Quiet, Threads, writes
from sgns_cli.console import Console
from sgns_cli.errors import SgnsError, UsageError

if TYPE_CHECKING:
    from sgns_cli.config import DataConfig, TokenizerConfig
    from sgns_cli.corpus.token_stream import TokenStream

Document = Literal["line", "paragraph", "file"]
Errors = Literal["strict", "replace"]

OPTIONS = {  # what the corpus calls by the config's key, as this command takes it
    "data.sources": "SOURCE",
    "data.document": "--document",
    "data.column": "--column",
    "data.lowercase": "--lowercase",
    "data.errors": "--errors",
    "tokenizer.encoding": "--encoding",
    "tokenizer.train.vocab_size": "--train-vocab",
    "tokenizer.train.pattern": "--pattern",
}
MOST_NAMED = 10  # skipped documents
KEY = re.compile(r"(?:--set )?\b((?:data|tokenizer)\.[a-z_.]*[a-z_])\b(=?)")


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
    errors: Annotated[
        Errors, typer.Option("--errors", help="What is not UTF-8 stops it, or becomes U+FFFD.")
    ] = "strict",
    threads: Threads = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Print the tokens of the sources, or write them as a token folder that can be trained on."""
    from sgns_cli.config import DataConfig, TokenizerConfig, TrainTokenizerConfig
    from sgns_cli.machine import available_threads

    if encoding is not None and train_vocab is not None:
        raise UsageError("--encoding and --train-vocab exclude each other", "leave out one of them")
    if pattern is not None and train_vocab is None:
        raise UsageError("--pattern needs --train-vocab", "add --train-vocab N")
    _refuse_text(sources)
    console = Console(json=json, quiet=quiet)
    data = DataConfig(sources=sources, document=document, column=column, lowercase=lowercase, errors=errors)
    train = None
    if train_vocab is not None:
        train = TrainTokenizerConfig(vocab_size=train_vocab, pattern="lines" if pattern is None else pattern)
    tokenizer = TokenizerConfig(encoding=encoding, train=train)
    with _options_for_keys():
        if output is None:
            _show(data, tokenizer, threads or available_threads(), console)
        else:
            _write(data, tokenizer, output, threads or available_threads(), console)


@contextmanager
def _options_for_keys() -> Iterator[None]:
    """Let what goes wrong name this command's options in place of the config's keys."""

    def option(match: re.Match[str]) -> str:
        name = OPTIONS.get(match[1])
        return match[0] if name is None else name + (" " if match[2] else "")

    try:
        yield
    except SgnsError as error:
        error.message, error.hint = KEY.sub(option, error.message), KEY.sub(option, error.hint)
        raise


def _refuse_text(sources: list[str]) -> None:
    """Say how to tokenize a text to someone who gave one in place of a path."""
    for source in sources:
        if " " in source and not Path(source).exists() and not set(source) & set("*?[") and source[:3] != "hf:":
            raise SgnsError(
                f"there is no file {source!r}", f"for the tokens of a text: echo '{source}' | sgns tokenize -"
            )


def _show(data: "DataConfig", tokenizer: "TokenizerConfig", threads: int, console: Console) -> None:
    """Print every token of every document, as it is read."""
    from sgns_cli.corpus.token_stream import TokenStream

    stream = TokenStream(data, tokenizer, threads)
    table = ["position", "token", "id", "bytes"]
    table = table if data.document == "file" else ["text", *table]
    console.records(_token_records(stream), table=table, spare=["bytes"])
    for note in stream.notes:
        console.note(note)
    _complain_of(stream.skipped, console, "take them out, or cut them up")


def _token_records(stream: "TokenStream") -> Iterator[dict[str, object]]:
    from sgns_cli.corpus.token_text import show

    for text, tokens in enumerate(stream):
        for position, id in enumerate(tokens.ids):
            token = tokens.token_bytes(id) or b""
            yield {"text": text, "position": position, "token": show(token), "id": id, "bytes": token.hex()}


def _write(data: "DataConfig", tokenizer: "TokenizerConfig", output: Path, threads: int, console: Console) -> None:
    """Write the token folder and say what is in it."""
    from sgns_cli.corpus.build import build_token_folder
    from sgns_cli.locks import locked
    from sgns_cli.token_folder import META

    began = time.perf_counter()
    with writes(output), locked(output), console.tokenize_progress() as progress:
        store = build_token_folder(data, tokenizer, output, progress=progress, threads=threads)
    for note in store.meta["notes"]:
        console.note(note)
    written = {
        "folder": str(store.folder),
        "tokens": len(store.tokens),
        "documents": store.n_documents,
        "types": store.meta["types"],
        "bytes": store.meta["bytes"],
        "seconds": round(time.perf_counter() - began, 3),
    }
    console.records([written])
    _complain_of(store.meta["skipped"], console, f"{output / META} lists them; take them out, or cut them up")


def _complain_of(skipped: list[dict[str, Any]], console: Console, hint: str) -> None:
    """Name the documents that were left out, and fail."""
    from sgns_cli.corpus.build import skipped_error

    if not skipped:
        return
    for document in skipped[:MOST_NAMED]:
        console.note(f"{document['source']}: document {document['document']} is left out: {document['reason']}")
    raise skipped_error(skipped, hint)
