"""Texts as vectors: embed."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from sgns_cli.cli.options import (
    Encoding,
    Json,
    ModelPath,
    Quiet,
    Tensor,
    Vectors,
    check_output,
    open_named,
    texts,
    writes,
)
from sgns_cli.console import Console
from sgns_cli.errors import SgnsError, UsageError
from sgns_cli.streams import flush

if TYPE_CHECKING:
    from sgns_cli.vectors.embed import Embedder, Tally, Tokens

TEXT_AT_ONCE = 2**20  # characters that are tokenized together,
LENGTH_AT_LEAST = 2**10  # where a text counts as no fewer than these: a thousand texts, or one MB

Pool = Literal["none", "mean"]
LONGEST = 2**24  # tokens of a sequence


def embed(
    text: Annotated[
        list[str] | None, typer.Argument(metavar="TEXT", help="A text; `-` reads one a line from stdin.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Write arrays to FILE.npy or FILE.safetensors."),
    ] = None,
    pool: Annotated[Pool, typer.Option("--pool", help="One vector for each token, or the mean of each text.")] = "none",
    positions: Annotated[
        bool | None,
        typer.Option("--positions/--no-positions", help="Add position vectors. [default: to input vectors]"),
    ] = None,
    context_length: Annotated[
        int | None,
        typer.Option("--context-length", min=1, max=LONGEST, metavar="N", help="Cut texts into sequences of N tokens."),
    ] = None,
    stride: Annotated[
        int | None,
        typer.Option(
            "--stride", min=1, max=LONGEST, metavar="N", help="Tokens from one sequence to the next. [--context-length]"
        ),
    ] = None,
    model: ModelPath = None,
    tensor: Tensor = None,
    encoding: Encoding = None,
    vectors: Vectors = "input",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Turn texts into input embeddings: for each token its vector, plus the vector of its position.

    A text without tokens counts as one of length 0; one given alone is an error.
    """
    from sgns_cli.vectors.arrays import check_suffix
    from sgns_cli.vectors.embed import Embedder, Tally

    _check(text, pool, context_length, stride)
    if output is not None:
        check_output(output)
        check_suffix(output)
    console = Console(json=json, quiet=quiet)
    opened = open_named(console, model, tensor, encoding)
    if positions and opened.positions == "none":
        console.note(f"{opened.path} has no positions: the vectors are those of the tokens alone")
    embedder = Embedder(opened, vectors, positions)
    tally = Tally(embedder)
    cut = None if context_length is None else (context_length, stride or context_length)
    if output is None:
        _show(console, embedder, tally, text or [], pool, cut)
    else:
        with writes(output):
            shape = _write(output, embedder, tally, text or [], pool, cut)
        console.note(f"wrote {output}: {list(shape)} float32")
    for note in tally.notes():
        console.note(note)


def _check(text: list[str] | None, pool: Pool, context_length: int | None, stride: int | None) -> None:
    if not text:
        raise UsageError("no text", 'give one, for example `sgns embed "The dog fetched the ball"`, or `-` for stdin')
    if text == [""]:
        raise UsageError("the text is empty", "give a word or another piece of text")
    if stride is not None and context_length is None:
        raise UsageError("--stride needs --context-length", "add --context-length N")
    if pool == "mean" and context_length is not None:
        raise UsageError("--pool mean takes whole texts, --context-length cuts them", "leave out one of them")


def _tokenized(
    embedder: "Embedder", tally: "Tally", text: list[str], cut: tuple[int, int] | None, *, at_once: int
) -> Iterator["Tokens"]:
    """Every text as tokens; so many characters are tokenized together, and 0 takes text by text as they come.

    Raises SgnsError at the end if not one of them has a token: at once for a lone text.
    """
    from sgns_cli.vectors.embed import in_groups

    for group in in_groups(_read(text), size=lambda one: max(len(one), LENGTH_AT_LEAST), most=at_once):
        tokens = embedder.tokenize_batch(group)
        if len(text) == 1 and text != ["-"] and len(tokens[0].ids) == 0:
            raise SgnsError(f"nothing of {text[0]!r} is in the vocabulary of {embedder.model.path}", "try another text")
        tally.add(tokens, sequence=None if cut is None else cut[0])
        yield from tokens
    if tally.tokens == 0:
        what = f"none of {tally.texts} texts has a token" if tally.texts else "no text came on standard input"
        raise SgnsError(what, "give texts with words of the model in them")


def _read(text: list[str]) -> Iterator[str]:
    """The texts. Raises SgnsError if stdin cannot be read: an OSError would be taken for one of the output file."""
    try:
        for number, one in enumerate(texts(text)):
            if not one.isascii() and not one.encode("utf-8", "replace").decode() == one:
                raise SgnsError(f"text {number} is not valid UTF-8", "convert it to UTF-8")
            yield one
    except OSError as error:
        raise SgnsError(f"cannot read standard input: {error.strerror}", "give texts, one a line") from error


def _show(
    console: Console, embedder: "Embedder", tally: "Tally", text: list[str], pool: Pool, cut: tuple[int, int] | None
) -> None:
    from sgns_cli.vectors.embed import cut_sequences
    from sgns_cli.vectors.records import embed_records, pooled_record

    def records() -> Iterator[dict[str, object]]:
        sequence = 0
        for number, tokens in enumerate(_tokenized(embedder, tally, text, cut, at_once=0)):
            if pool == "mean":
                yield pooled_record(number, tokens, embedder.pool(tokens))
            else:
                for one in [tokens] if cut is None else cut_sequences(tokens, length=cut[0], stride=cut[1]):
                    named = None if cut is None else sequence
                    for part in one.parts(embedder.tokens_at_once):
                        yield from embed_records(embedder.model, number, part, embedder.embed(part), sequence=named)
                    sequence += 1
            flush()  # whoever writes line by line reads the answers so

    console.records(records(), spare=["id", "text"])


def _write(
    path: Path, embedder: "Embedder", tally: "Tally", text: list[str], pool: Pool, cut: tuple[int, int] | None
) -> tuple[int, ...]:
    from sgns_cli.vectors.arrays import write_pooled, write_sequences, write_texts
    from sgns_cli.vectors.embed import cut_sequences

    each = _tokenized(embedder, tally, text, cut, at_once=TEXT_AT_ONCE)
    if cut is not None:
        sequences = (part for tokens in each for part in cut_sequences(tokens, length=cut[0], stride=cut[1]))
        return write_sequences(path, embedder, sequences, length=cut[0])
    return write_pooled(path, embedder, each) if pool == "mean" else write_texts(path, embedder, each)
