"""How good a model is: evaluate."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sgns_cli.cli.options import Centre, Encoding, Json, ModelPath, Quiet, Tensor, Vectors, open_named
from sgns_cli.console import Console
from sgns_cli.errors import SgnsError, UsageError

if TYPE_CHECKING:
    from sgns_cli.vectors.lookup import Candidates, Words

COLUMNS = ["set", "section", "kind", "score", "questions", "skipped", "candidates"]


def evaluate(
    analogies: Annotated[
        list[Path] | None,
        typer.Option("--analogies", metavar="FILE", help="Analogies in Google's format, like data/analogies.txt."),
    ] = None,
    similarity: Annotated[
        list[Path] | None,
        typer.Option("--similarity", metavar="FILE", help="Word pairs with scores: WordSim-353, SimLex-999, MEN, RW."),
    ] = None,
    restrict: Annotated[
        int, typer.Option("--restrict", min=1, metavar="N", help="Look among the N most frequent tokens.")
    ] = 30_000,
    model: ModelPath = None,
    tensor: Tensor = None,
    encoding: Encoding = None,
    vectors: Vectors = "input",
    centre: Centre = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Score a model on analogies (part answered right) and on word pairs (Spearman's rank correlation).

    Words are compared without regard to case. With BPE, a word that is no token is the mean of its tokens. Questions
    with a word that is not found are skipped, and counted.
    """
    from sgns_cli.vectors.evaluate import score_records
    from sgns_cli.vectors.lookup import find_words, make_candidates
    from sgns_cli.vectors.question_files import AnalogyFile, PairFile, read_analogies, read_similarities

    files: list[AnalogyFile | PairFile] = [
        *map(read_analogies, analogies or []),
        *map(read_similarities, similarity or []),
    ]
    if not files:
        raise UsageError(
            "nothing to evaluate on",
            "give --analogies FILE, such as the repository's data/analogies.txt, or --similarity FILE",
        )
    console = Console(json=json, quiet=quiet)
    opened = open_named(console, model, tensor, encoding)
    candidates = make_candidates(opened, vectors, restrict=restrict, centre=centre)
    console.note(_candidates_note(candidates))
    asked = False

    def records() -> Iterator[dict[str, object]]:
        nonlocal asked
        for file in files:
            words = find_words(candidates, file.words)
            console.note(f"{file.name}: {_words_note(words, opened.tokenizer.kind)}")
            for record in score_records(words, file):
                asked = asked or record["questions"] != 0
                yield record

    console.records(records(), table=COLUMNS, spare=["kind", "set"] if len(files) == 1 else ["kind"])
    if not asked:
        raise SgnsError(
            "no question could be asked: each has a word that was not found",
            "name a model that was trained on such words, or a larger --restrict",
        )


def _candidates_note(candidates: "Candidates") -> str:
    number, trained = len(candidates.space.ids), int(candidates.model.trained.sum())
    which = f"all {number:,}" if number == trained else f"the {number:,} most frequent of {trained:,}"
    return f"candidates are {which} trained tokens; words are compared without regard to case"


def _words_note(words: "Words", kind: str) -> str:
    found = f"{words.single:,} found"
    if kind == "bpe":
        found = f"{words.single:,} are one token, {words.means:,} the mean of several"
    return f"{words.single + words.means + words.missing:,} words: {found}, {words.missing:,} not found"
