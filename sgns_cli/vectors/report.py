"""What a model is worth, token by token: which rows a run has trained much, little or not at all. For `sgns info`.

Judges rows by their counts, their lengths and each other; what they mean is for `neighbors` and `evaluate`. What is
known without opening the matrices is inventory.py's.
"""

from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sgns_cli import inventory
from sgns_cli.errors import SgnsError
from sgns_cli.inventory import Report
from sgns_cli.run_folder import of_latest
from sgns_cli.vectors.model import Model
from sgns_cli.vectors.neighbors import SLACK, cosines, make_space, units
from sgns_cli.vectors.records import DECIMALS, Record, token_fields
from sgns_cli.vectors.run import open_run

LEAST = (100, 1000)  # occurrences from which the next class of trained rows begins
START = 2.0  # times 1/dim, how far from zero the numbers of a row may start: training/engine.py's
NEAR_START = 2.0  # times the length of a row at its start; by chance rows of 100 numbers are within 1.2
ALIKE = 200  # tokens of like count, among which a length is usual or not
NORMAL = 1.4826  # times the median absolute deviation is the standard deviation of what is normally distributed
COMPARED = 5000  # tokens that are compared with each other
BLOCK = 512  # of them at a time
LETTERS = 4  # of a word, at the least


@dataclass(frozen=True)
class Trained:
    """The R trained rows of a run, most frequent first."""

    ids: NDArray[np.int64]  # [R]
    norms: NDArray[np.float64]  # [R]


def describe_model(path: Path, *, many: int = 10, few: int = 5) -> Report:
    """Facts about a run's latest step, or about one step, with its rows by count and those that stand out: `many` of
    those that may need something done, `few` of the others.

    Raises SgnsError if it is damaged, or has numbers that are not finite.
    """
    inventory.check_run(path)
    return of_latest(path, lambda step: _describe_step(path, step, many, few))


def _describe_step(path: Path, step: Path, many: int, few: int) -> Report:
    facts = inventory.describe_step(path, step)
    model = open_run(step)
    trained = trained_rows(model)
    facts |= {
        "trained_rows": len(trained.ids),
        "rows_near_start": int(np.count_nonzero(times_start(model, trained) < NEAR_START)),
        "compared_rows": min(COMPARED, len(trained.ids)),
        "tokenizer": model.tokenizer.name,
        "tokenizer_kind": model.tokenizer.kind,
    }
    tables = {
        "rows_by_count": rows_by_count(model, trained),
        "under_trained": under_trained(model, trained, many),
        "best_trained": best_trained(model, trained, few),
        "near_duplicates": near_duplicates(model, trained, many),
        "outlying_norms": outlying_norms(model, trained, few),
        "never_seen": never_seen(model, few),
    }
    return Report(facts | inventory.describe_training(step), tables)


def counts_of(model: Model) -> NDArray[np.int64]:
    """[n_vocab]: how often each id occurs. Raises SgnsError for vectors from elsewhere, which have no counts."""
    if model.counts is None:
        raise SgnsError(f"{model.path} has no counts", "name a run of sgns")
    return model.counts


def trained_rows(model: Model) -> Trained:
    """The trained rows of a run. Raises SgnsError if one of their numbers is not finite."""
    space = make_space(model)
    ids = model.by_frequency
    norms = space.norms[np.searchsorted(space.ids, ids)].astype(np.float64)
    return Trained(ids, norms)


def times_start(model: Model, trained: Trained) -> NDArray[np.float64]:
    """[R]: the length of each row, as a multiple of the length that a row starts with.

    Numbers start uniform in +-a, a = START/dim, whose mean square is a^2/3; so a row starts with a length of about
    a * sqrt(dim/3). A row that an earlier run gave (--init-from) started longer.
    """
    return np.asarray(trained.norms / (START / np.sqrt(3 * model.dim)))


def rows_by_count(model: Model, trained: Trained) -> list[Record]:
    """How many of all ids each class of counts has, how much of the corpus they make up, and the mean length of the
    rows that were trained. Every id is in one class; special tokens and holes, which no text becomes, have their own.
    """
    counts, tokenizer, least = counts_of(model), model.tokenizer, max(1, model.min_count)
    edges = [1, least, *(edge for edge in LEAST if edge > least)]
    spans = [*map(_span, edges[1:], [*edges[2:], None])]
    names = ["never seen", "below min_count", *spans, "special", "hole"]
    classes = np.searchsorted(edges, counts, side="right")
    classes[[id for id in tokenizer.special_ids if id < len(counts)]] = names.index("special")
    classes[[id for id in range(len(counts)) if tokenizer.token_bytes(id) is None]] = names.index("hole")
    class_of_trained, all_tokens = classes[trained.ids], int(counts.sum())
    records: list[Record] = []
    for place, name in enumerate(names):
        ids, tokens = int(np.count_nonzero(classes == place)), int(counts[classes == place].sum())
        shares = {"share_of_ids": ids / len(counts), "share_of_tokens": tokens / all_tokens if all_tokens else None}
        norms = trained.norms[class_of_trained == place]
        mean_norm = _rounded(norms.mean()) if len(norms) else None
        records.append({"count": name, "ids": ids, "tokens": tokens, **shares, "mean_norm": mean_norm})
    return records


def under_trained(model: Model, trained: Trained, number: int) -> list[Record]:
    """The trained tokens with the shortest rows, the shortest first: those that training moved least from their start.

    `times_start` is about 1 for a row that is still where it started: its token is rare, or occurs in the held-out text
    only, or only where training began, while all contexts were near zero. Land and Bartolo (2024, "Fishing for
    Magikarp") find the under-trained tokens of LLMs by short rows too.
    """
    multiples = times_start(model, trained)
    places = np.argsort(trained.norms, kind="stable")[:number].tolist()
    return [{**_named(model, trained, place), "times_start": _rounded(multiples[place])} for place in places]


def best_trained(model: Model, trained: Trained, number: int) -> list[Record]:
    """The trained tokens that occur most often: no other rows were moved so many times."""
    return [_named(model, trained, place) for place in range(min(number, len(trained.ids)))]


def near_duplicates(model: Model, trained: Trained, number: int) -> list[Record]:
    """The tokens nearest to a token that occurs more often, the nearest first, each with that `other` one.

    Looked for among the COMPARED most frequent. Of n rows that are all alike, n - 1 pairs are named, not all.
    """
    ids = trained.ids[:COMPARED]
    rows = model.rows(ids)
    nearest, scores = _nearest_before(units(rows))
    places = np.arange(1, len(ids))
    if number < len(places):
        places = 1 + np.flatnonzero(scores[1:] >= np.partition(scores[1:], -number)[-number] - SLACK)
    exact = cosines(rows[places], rows[nearest[places]])  # products in float32 depend on how they are cut
    records: list[Record] = []
    for at in np.argsort(-exact, kind="stable")[:number].tolist():
        other = _of(model, ids[nearest[places[at]]])
        records.append(
            {
                **_of(model, ids[places[at]]),
                "other": other["token"],
                "other_id": other["id"],
                "other_bytes": other["bytes"],
                "other_count": other["count"],
                "score": _rounded(exact[at]),
            }
        )
    return records


def outlying_norms(model: Model, trained: Trained, number: int) -> list[Record]:
    """The tokens whose rows are most unusually short, and most unusually long, for how often they occur.

    `z` is the robust z-score of the logarithm of the length, (x - median) / (1.4826 * median absolute deviation), among
    ALIKE or more tokens of like count: rare tokens have shorter rows than frequent ones. `usual_norm` is that median;
    beyond +-3.5 is what Iglewicz and Hoaglin (1993) call outlying. Rows of length zero are left out.
    """
    z, usual = np.zeros(len(trained.ids)), np.zeros(len(trained.ids))
    places = np.flatnonzero(trained.norms > 0)
    for group in np.array_split(places, max(1, len(places) // ALIKE)) if len(places) else []:
        logarithms = np.log(trained.norms[group])
        median = np.median(logarithms)
        deviation = NORMAL * np.median(np.abs(logarithms - median))
        usual[group] = np.exp(median)
        z[group] = (logarithms - median) / deviation if deviation > 0 else 0
    order = np.argsort(z, kind="stable")
    shortest, longest = order[z[order] < 0][:number], order[z[order] > 0][::-1][:number]
    return [
        {**_named(model, trained, place), "usual_norm": _rounded(usual[place]), "z": _rounded(z[place])}
        for place in [*shortest.tolist(), *longest.tolist()]
    ]


def never_seen(model: Model, number: int) -> list[Record]:
    """The first words by id that the corpus does not have: a BPE made elsewhere has there what is most frequent there.

    A word is a token of LETTERS or more letters and a space before or behind them, which pieces of words mostly lack.
    """
    unseen = np.flatnonzero(counts_of(model) == 0).tolist()
    words = (id for id in unseen if _is_word(model.tokenizer.token_bytes(id) or b""))
    return [token_fields(model, id) for id in islice(words, number)]


def _is_word(token: bytes) -> bool:
    letters = token.strip(b" ")
    text = letters.decode(errors="replace")
    return letters != token and len(text) >= LETTERS and text.isalpha()


def _nearest_before(rows: NDArray[np.float32]) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """For each of rows [R, dim], of length one, the place and cosine of the nearest before it; -inf for the first."""
    places, scores = np.zeros(len(rows), np.int64), np.full(len(rows), -np.inf, np.float32)
    for start in range(0, len(rows), BLOCK):
        part = slice(start, start + BLOCK)
        products = rows[part] @ rows[: part.stop].T  # [BLOCK, all up to here]
        products[:, start:][~np.tri(len(products), k=-1, dtype=np.bool_)] = -np.inf
        places[part] = products.argmax(axis=1)
        scores[part] = products.max(axis=1)
    return places, scores


def _span(least: int, end: int | None) -> str:
    """The name of the counts from `least` up to `end`, which is not one of them."""
    if end is None:
        return f"{least} and more"
    return f"{least}-{end - 1}" if least < end - 1 else str(least)


def _named(model: Model, trained: Trained, place: int) -> Record:
    return {**_of(model, trained.ids[place]), "norm": _rounded(trained.norms[place])}


def _of(model: Model, id: np.int64) -> Record:
    return {**token_fields(model, int(id)), "count": model.count(int(id))}


def _rounded(value: float) -> float:
    return round(float(value), DECIMALS)
