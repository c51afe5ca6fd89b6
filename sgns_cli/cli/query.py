"""Questions to a model: neighbors, analogy, similarity. Where the questions come from is questions.py's business."""

import sys
from collections.abc import Iterator
from typing import Annotated

import typer

from sgns_cli.cli.options import Centre, Encoding, Json, ModelPath, Quiet, Tensor, Vectors, open_named
from sgns_cli.cli.prompt import prompt
from sgns_cli.cli.questions import Question, Questions
from sgns_cli.console import Console
from sgns_cli.errors import SgnsError, UsageError
from sgns_cli.streams import is_terminal

ANSWERS = ["query", "rank", "token", "id", "count", "score"]
K = Annotated[int, typer.Option("-k", min=1, metavar="K", help="How many answers.")]


def neighbors(
    queries: Annotated[
        list[str] | None, typer.Argument(metavar="QUERY", help="A text; `-` reads one a line from stdin.")
    ] = None,
    id: Annotated[list[int] | None, typer.Option("--id", min=0, metavar="N", help="A token by its id.")] = None,
    k: K = 10,
    model: ModelPath = None,
    tensor: Tensor = None,
    encoding: Encoding = None,
    vectors: Vectors = "input",
    centre: Centre = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Show the trained tokens nearest to each QUERY by cosine. Without one, ask for them on a terminal."""
    from sgns_cli.vectors.neighbors import make_space, nearest
    from sgns_cli.vectors.query import query_vectors
    from sgns_cli.vectors.records import neighbor_records

    asked: list[str | int] = [*(queries or []), *(id or [])]
    interactive = not asked and is_terminal(sys.stdin) and is_terminal(sys.stdout)
    if not asked and not interactive:
        raise UsageError("no query", "give a text, for example `sgns neighbors silver`, or --id N, or `-` for stdin")
    console = Console(json=json, quiet=quiet)
    opened = open_named(console, model, tensor, encoding)
    space = make_space(opened, vectors, centre=centre)

    def answer(batch: list[Question]) -> Iterator[dict[str, object]]:
        each = [query for (query,) in batch]
        found = nearest(space, query_vectors(opened, each, vectors), [query.ids for query in each], k=k)
        for query, answers in zip(each, found, strict=True):
            yield from neighbor_records(opened, query, answers)

    if not interactive:
        Questions(opened, asked, console, words=1).show(answer, columns=ANSWERS)
        return
    for line in prompt():
        try:
            Questions(opened, [[line]], console, words=1).show(answer, columns=ANSWERS)
        except SgnsError as error:
            console.error(error)


def analogy(
    words: Annotated[
        list[str], typer.Argument(metavar="A B C", help="Three texts; `-` reads three a line from stdin.")
    ],
    k: K = 10,
    model: ModelPath = None,
    tensor: Tensor = None,
    encoding: Encoding = None,
    vectors: Vectors = "input",
    centre: Centre = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Show what is to C as B is to A: the tokens nearest to B - A + C.

    On stdin there are three a line, separated by tabs or by white space.
    """
    from sgns_cli.vectors.analogy import analogies
    from sgns_cli.vectors.neighbors import make_space
    from sgns_cli.vectors.records import analogy_records

    console = Console(json=json, quiet=quiet)
    asked = _as_one(words, 3, "sgns analogy king queen man")
    opened = open_named(console, model, tensor, encoding)
    space = make_space(opened, vectors, centre=centre)

    def answer(batch: list[Question]) -> Iterator[dict[str, object]]:
        for question, answers in zip(batch, analogies(opened, space, batch, vectors, k=k), strict=True):
            yield from analogy_records(opened, question, answers)

    Questions(opened, asked, console, words=3).show(answer, columns=ANSWERS)


def similarity(
    words: Annotated[list[str], typer.Argument(metavar="A B", help="Two texts; `-` reads them from stdin.")],
    model: ModelPath = None,
    tensor: Tensor = None,
    encoding: Encoding = None,
    vectors: Vectors = "input",
    centre: Centre = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Show how alike A and B are: the cosine of their vectors, 1 for the same direction.

    On stdin there are two a line, separated by a tab or by white space.
    """
    from sgns_cli.vectors.analogy import similarities
    from sgns_cli.vectors.neighbors import mean_row
    from sgns_cli.vectors.records import similarity_record

    console = Console(json=json, quiet=quiet)
    asked = _as_one(words, 2, "sgns similarity silver gold")
    opened = open_named(console, model, tensor, encoding)
    mean = mean_row(opened, vectors, centre=centre)

    def answer(batch: list[Question]) -> Iterator[dict[str, object]]:
        scores = similarities(opened, batch, vectors, mean)
        return map(similarity_record, batch, scores.tolist())

    Questions(opened, asked, console, words=2).show(answer, columns=["a", "b", "score"])


def _as_one(words: list[str], number: int, example: str) -> list[str | list[str]]:
    """The arguments as one question, or `-`."""
    if words == ["-"]:
        return ["-"]
    if len(words) != number:
        texts = "1 text" if len(words) == 1 else f"{len(words)} texts"
        raise UsageError(f"{texts}, and {number} are needed", f"for example `{example}`, or `-` for stdin")
    return [words]
