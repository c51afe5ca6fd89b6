"""What is where: info on a run, a step, a token folder, everything here, or the encodings."""

from pathlib import Path
from typing import Annotated

import typer

from sgns_cli.cli.options import Json, Quiet
from sgns_cli.console import Console
from sgns_cli.errors import SgnsError, UsageError

RUNS = Path("runs")
TABLE = ["path", "step", "tokens", "held_out_loss", "n_vocab", "dim"]
SPARE = ["other_bytes", "bytes", "usual_norm", "other_id", "tokens", "share_of_ids"]  # of the tables of a run


def info(
    path: Annotated[
        Path | None,
        typer.Argument(metavar="PATH", help="A run, a step or a token folder. [default: list those here]"),
    ] = None,
    encodings: Annotated[
        bool, typer.Option("--encodings", help="List the encodings, and whether their ranks are at hand.")
    ] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Show what a run, a step or a token folder holds, or list the ones here.

    Of a run: which tokens it has trained well, little or not at all.
    """
    from sgns_cli.inventory import list_here
    from sgns_cli.token_folder import is_token_folder

    console = Console(json=json, quiet=quiet)
    if encodings:
        if path is not None:
            raise UsageError("--encodings takes no path", "leave out one of them")
        console.records(_encodings())
    elif path is not None and is_token_folder(path):
        from sgns_cli.corpus.report import describe_corpus

        corpus = describe_corpus(path)
        console.report(corpus.facts, corpus.tables, spare=["bytes", "start"])
    elif path is not None:
        from sgns_cli.vectors.report import describe_model

        model = describe_model(path)
        console.report(model.facts, model.tables, spare=SPARE)
    else:
        listed, failed = list_here(RUNS)
        console.records(listed, table=TABLE, spare=TABLE[:0:-1])
        for failure in failed:
            console.error(failure)
        if failed:
            raise typer.Exit(SgnsError.exit_code)
        if not listed:
            console.note(f"there are no runs and no cached token folders under {RUNS}; `sgns train CONFIG` makes them")


def _encodings() -> list[dict[str, object]]:
    from sgns_cli.corpus.tokenizer import WHITESPACE, encoding_names, ranks_at_hand

    named: list[dict[str, object]] = [
        {"encoding": name, "ranks": "at hand" if ranks_at_hand(name) else "to download"} for name in encoding_names()
    ]
    return [*named, {"encoding": WHITESPACE, "ranks": "needs none"}]
