"""Vectors for other programs: export."""

from pathlib import Path
from typing import Annotated

import typer

from sgns_cli.cli.options import Encoding, ModelPath, Quiet, Tensor, Vectors, check_output, open_named, writes
from sgns_cli.console import Console
from sgns_cli.vectors.choices import Dtype, FormatName, Rows


def export(
    output: Annotated[Path, typer.Option("-o", "--output", metavar="PATH", help="The file or folder to write.")],
    format: Annotated[FormatName, typer.Option("--format", help="model2vec and projector are folders.")],
    rows: Annotated[
        Rows | None,
        typer.Option("--rows", help="Which tokens; others have zero vectors. [default: trained; model2vec: all]"),
    ] = None,
    dtype: Annotated[Dtype, typer.Option("--dtype", help="Smaller numbers, where the format has them.")] = "float32",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the folder of an earlier export.")] = False,
    model: ModelPath = None,
    tensor: Tensor = None,
    encoding: Encoding = None,
    vectors: Vectors = "input",
    quiet: Quiet = False,
) -> None:
    """Write vectors in the format of another program: gensim, model2vec, sentence-transformers, TensorBoard.

    Positions are not among them. A file that is there is replaced.
    """
    from sgns_cli.vectors.export import formats

    check_output(output)
    formats.check_options(format, rows, dtype)
    console = Console(quiet=quiet)
    opened = open_named(console, model, tensor, encoding)
    with writes(output):
        exported = formats.export(opened, output, format, kind=vectors, rows=rows, dtype=dtype, overwrite=overwrite)
    for note in exported.notes:
        console.note(note)
    if opened.positions != "none":
        console.note(f"the vectors are those of the tokens alone: {opened.path} has positions, which are not written")
    console.note(f"wrote {output}: {exported.shape[0]} x {exported.shape[1]} {dtype}, {format}")
    console.note(f"read it: {exported.read}")
