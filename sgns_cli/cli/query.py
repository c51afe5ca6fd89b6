"""Questions to a model: neighbors."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from sgns_cli.cli.options import Centre, Encoding, Json, ModelPath, Quiet, Tensor, Vectors, open_named, texts
from sgns_cli.console import Console
from sgns_cli.errors import SgnsError, UsageError

if TYPE_CHECKING:
    from sgns_cli.vectors.model import Model
    from sgns_cli.vectors.query import Query

QUERIES_AT_ONCE = 256


def neighbors(
    queries: Annotated[
        list[str] | None, typer.Argument(metavar="QUERY", help="A text; `-` reads one a line from stdin.")
    ] = None,
    id: Annotated[list[int] | None, typer.Option("--id", min=0, metavar="N", help="A token by its id.")] = None,
    k: Annotated[int, typer.Option("-k", min=1, metavar="K", help="How many neighbours.")] = 10,
    model: ModelPath = None,
    tensor: Tensor = None,
    encoding: Encoding = None,
    vectors: Vectors = "input",
    centre: Centre = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Show the trained tokens nearest to each QUERY by cosine."""
    from sgns_cli.vectors.neighbors import make_space, nearest
    from sgns_cli.vectors.query import query_vectors
    from sgns_cli.vectors.records import neighbor_records

    asked: list[str | int] = [*(queries or []), *(id or [])]
    if not asked:
        raise UsageError("no query", "give a text, for example `sgns neighbors silver`, or --id N, or `-` for stdin")
    console = Console(json=json, quiet=quiet)
    opened = open_named(console, model, tensor, encoding)
    space = make_space(opened, vectors, centre=centre)
    resolved = _Resolved(opened, asked, console)

    def records() -> Iterator[dict[str, object]]:
        unasked = iter(resolved)
        while batch := list(islice(unasked, QUERIES_AT_ONCE)):
            found = nearest(space, query_vectors(opened, batch, vectors), [query.ids for query in batch], k=k)
            for query, answers in zip(batch, found, strict=True):
                yield from neighbor_records(opened, query, answers)

    table = ["rank", "token", "id", "count", "score"]
    console.records(records(), table=table if resolved.alone else ["query", *table], spare=["count", "id", "rank"])
    if not resolved.number:
        raise SgnsError("no query came on standard input", "give one a line")
    if resolved.failed:
        raise typer.Exit(SgnsError.exit_code)


class _Resolved:
    """The queries one after another; one that fails among several is reported and skipped."""

    def __init__(self, model: "Model", asked: list[str | int], console: Console) -> None:
        self.model = model
        self.asked = asked
        self.console = console
        self.alone = len(asked) == 1 and asked != ["-"]
        self.failed = False
        self.number = 0  # of queries so far

    def __iter__(self) -> Iterator["Query"]:
        from sgns_cli.vectors.query import resolve_id, resolve_query

        for one in self._each():
            self.number += 1
            try:
                if one == "" and not self.alone:
                    raise SgnsError(f"query {self.number} is empty", "give a word or another piece of text")
                if isinstance(one, int):
                    query = resolve_id(self.model, one)
                else:
                    query = resolve_query(self.model, one, suggest=self.asked != ["-"])
            except SgnsError as error:
                if self.alone:
                    raise
                self.console.error(error)
                self.failed = True
                continue
            for note in query.notes:
                self.console.note(note)
            yield query

    def _each(self) -> Iterable[str | int]:
        for one in self.asked:
            if isinstance(one, str):
                yield from texts([one])
            else:
                yield one
