"""Pictures: a map of tokens, and the losses of a run."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sgns_cli.cli.options import (
    Centre,
    Encoding,
    Json,
    ModelPath,
    Quiet,
    Tensor,
    Vectors,
    check_output,
    open_named,
    writes,
)
from sgns_cli.cli.questions import Questions
from sgns_cli.console import Console
from sgns_cli.errors import UsageError
from sgns_cli.vectors.choices import Method

if TYPE_CHECKING:
    from sgns_cli.vectors.plot.losses import Losses
    from sgns_cli.vectors.plot.token_map import TokenMap

PICTURE, PAGE = ".png", ".html"
TOP = 300  # tokens, where none is named
OF_MAPS = {  # what --loss has no use for, by the names of parameters
    "tokens": "TOKEN",
    "top": "--top",
    "k": "-k",
    "method": "--method",
    "tensor": "--tensor",
    "encoding": "--encoding",
    "vectors": "--vectors",
    "centre": "--centre",
}


def plot(
    context: typer.Context,
    tokens: Annotated[
        list[str] | None,
        typer.Argument(metavar="TOKEN", help="A text to show with its neighbours; `-` reads one a line from stdin."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="The picture FILE.png, or the page FILE.html.")
    ] = None,
    top: Annotated[
        int | None,
        typer.Option("--top", min=1, metavar="N", help=f"The N most frequent tokens. [{TOP} where no TOKEN is named]"),
    ] = None,
    k: Annotated[int, typer.Option("-k", min=0, metavar="K", help="How many neighbours of each TOKEN.")] = 8,
    method: Annotated[Method, typer.Option("--method", help="How vectors become places.")] = "pca",
    loss: Annotated[bool, typer.Option("--loss", help="The losses of the run instead of a map.")] = False,
    model: ModelPath = None,
    tensor: Tensor = None,
    encoding: Encoding = None,
    vectors: Vectors = "input",
    centre: Centre = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Draw a map of tokens: each TOKEN with its neighbours by cosine, or the most frequent ones.

    FILE.html is a page by itself, with zoom and search; FILE.png and t-SNE need the extra `plot`.
    """
    _check_output(output, json=json, loss=loss)
    console = Console(json=json, quiet=quiet)
    if loss:
        _refuse_of_maps(context)
        _plot_losses(console, model, output)
        return
    from sgns_cli.vectors.plot.layout import SLOW_FOR_TSNE, require_sklearn
    from sgns_cli.vectors.plot.token_map import make_map, map_records

    if method == "tsne":
        require_sklearn()
    opened = open_named(console, model, tensor, encoding)
    asked = Questions(opened, tokens or [], console, words=1)
    queries = [query for (query,) in asked]
    top = top if top is not None else 0 if tokens else TOP
    if method == "tsne" and len(queries) * k + min(top, len(opened.by_frequency)) > SLOW_FOR_TSNE:
        console.note(f"t-SNE of more than {SLOW_FOR_TSNE:,} points takes a while; --method pca is done at once")
    if queries or not tokens:
        shown = make_map(opened, queries, k=k, top=top, method=method, kind=vectors, centre=centre)
        if output is not None:
            with writes(output):
                _draw_map(shown, output)
        _report(console, map_records(opened, shown), output, shown.summary)
    if tokens:
        asked.finish()


def _refuse_of_maps(context: typer.Context) -> None:
    """Raises UsageError for what was given and is of maps alone."""
    sources = {shown: context.get_parameter_source(name) for name, shown in OF_MAPS.items()}
    given = [shown for shown, source in sources.items() if source is not None and source.name == "COMMANDLINE"]
    if given:
        raise UsageError(f"--loss takes no {' and no '.join(given)}", "leave them out, or --loss to draw a map")


def _check_output(output: Path | None, *, json: bool, loss: bool) -> None:
    """Refuse what the file's name already rules out, before anything is computed."""
    if output is None:
        if not json:
            name = "loss" if loss else "map"
            wanted = f"-o {name}{PICTURE} or -o {name}{PAGE}"
            raise UsageError("no file to draw into", f"add {wanted}, or --json for the numbers")
        return
    check_output(output)
    if output.suffix not in (PICTURE, PAGE):
        raise UsageError(f"{output} is no {PICTURE} and no {PAGE}", "choose one of these endings for -o")
    if output.suffix == PICTURE:
        from sgns_cli.vectors.plot.fonts import require_matplotlib

        require_matplotlib()


def _plot_losses(console: Console, model: Path | None, output: Path | None) -> None:
    from sgns_cli.run_folder import METRICS
    from sgns_cli.vectors.opening import resolve_model
    from sgns_cli.vectors.plot.losses import loss_records, read_losses

    if model is not None and (model / METRICS).is_file():
        path, note = model, ""  # a run that has no step yet has losses already
    else:
        path, note = resolve_model(model)
    if note:
        console.note(note)
    losses = read_losses(path)
    if output is not None:
        with writes(output):
            _draw_losses(losses, output)
    _report(console, loss_records(losses), output, losses.summary)


def _draw_losses(losses: "Losses", output: Path) -> None:
    if output.suffix == PICTURE:
        from sgns_cli.vectors.plot.loss_picture import draw_loss_picture

        draw_loss_picture(losses, output)
    else:
        from sgns_cli.vectors.plot.loss_page import draw_loss_page

        draw_loss_page(losses, output)


def _draw_map(shown: "TokenMap", output: Path) -> None:
    if output.suffix == PICTURE:
        from sgns_cli.vectors.plot.map_picture import draw_map_picture

        draw_map_picture(shown, output)
    else:
        from sgns_cli.vectors.plot.map_page import draw_map_page

        draw_map_page(shown, output)


def _report(console: Console, records: Iterable[dict[str, object]], output: Path | None, summary: str) -> None:
    """With --json the numbers, and a note of what was written."""
    if console.json:
        console.records(records)
    if output is not None:
        console.note(f"wrote {output}: {summary}")
