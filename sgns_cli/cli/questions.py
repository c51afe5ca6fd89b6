"""Questions from arguments and from standard input, one after another. Each is made of one text or several.

One that cannot be answered ends the command if it is alone; among several it is reported and skipped, and the command
ends with exit code 1.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

import typer

from sgns_cli.cli.options import stdin_lines
from sgns_cli.console import Console
from sgns_cli.errors import SgnsError
from sgns_cli.streams import flush

if TYPE_CHECKING:
    from sgns_cli.vectors.model import Model
    from sgns_cli.vectors.query import Query

QUESTIONS_AT_ONCE = 256

Asked = str | int | Sequence[str]  # a text or `-`, an id, or the texts of one question
Question = tuple["Query", ...]
Answer = Callable[[list[Question]], Iterable[dict[str, object]]]


class Questions:
    """Questions of `words` texts each, one after another, as queries of `model`."""

    def __init__(self, model: "Model", asked: Sequence[Asked], console: Console, *, words: int) -> None:
        self.model = model
        self.asked = asked
        self.console = console
        self.words = words
        self.alone = len(asked) == 1 and asked[0] != "-"
        self.failed = False
        self.number = 0  # of questions so far

    def show(self, answer: Answer, *, columns: Sequence[str]) -> None:
        """Print the records that `answer` gives for each batch; on a terminal their `columns`.

        Raises SgnsError if there is no question; exits with 1 if one of several failed.
        """

        def records() -> Iterator[dict[str, object]]:
            for batch in self._batches():
                yield from answer(batch)
                flush()  # whoever asks line by line reads the answers so

        table = [name for name in columns if not (self.alone and name == "query")]
        self.console.records(records(), table=table, spare=["count", "id", "rank"])
        self.finish()

    def finish(self) -> None:
        """Raises SgnsError if there was no question; exits with 1 if one of several failed."""
        if not self.number:
            raise SgnsError("no query came on standard input", "give one a line")
        if self.failed:
            raise typer.Exit(SgnsError.exit_code)

    def __iter__(self) -> Iterator[Question]:
        return (question for question in self._questions() if question is not None)

    def _batches(self) -> Iterator[list[Question]]:
        """Questions to answer together: those that have come, and not too many."""
        batch: list[Question] = []
        for question in chain(self._questions(), [None]):
            if question is not None:
                batch.append(question)
            if batch and (question is None or len(batch) == QUESTIONS_AT_ONCE):
                yield batch
                batch = []

    def _questions(self) -> Iterator[Question | None]:
        """The questions; None where no more have come yet."""
        for one in self._each():
            if one is None:
                yield None
                continue
            self.number += 1
            try:
                question = self._resolve(one)
            except SgnsError as error:
                if self.alone:
                    raise
                self.console.error(error)
                self.failed = True
                continue
            for note in dict.fromkeys(note for query in question for note in query.notes):
                self.console.note(note)
            yield question

    def _each(self) -> Iterator[Asked | SgnsError | None]:
        for one in self.asked:
            if one == "-":
                yield from stdin_lines()
            else:
                yield one

    def _resolve(self, one: Asked | SgnsError) -> Question:
        from sgns_cli.vectors.query import resolve_id, resolve_query

        if isinstance(one, SgnsError):
            raise one
        if isinstance(one, int):
            return (resolve_id(self.model, one),)
        if isinstance(one, str):
            one = [one] if self.words == 1 else _split(one)
        if not self.alone and not any(one):
            raise SgnsError(f"query {self.number} is empty", "give a word or another piece of text")
        if len(one) != self.words:
            raise SgnsError(
                f"query {self.number} has {len(one)} word{'s' * (len(one) != 1)}, and {self.words} are needed",
                "separate them with tabs if there are spaces in them",
            )
        return tuple(resolve_query(self.model, part, suggest=list(self.asked) != ["-"]) for part in one)


def _split(line: str) -> list[str]:
    """The texts of a line: between tabs, or where there is none between white space."""
    return line.split("\t") if "\t" in line else line.split()
