"""What a person typed, as token ids: variants with spaces, several tokens, tokens never trained.

A query ends as the ids whose mean vector it is, with notes that say what was taken for what. Knows nothing
of cosines.
"""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from sgns_cli.corpus import token_text
from sgns_cli.errors import SgnsError, UsageError
from sgns_cli.vectors.choices import Kind
from sgns_cli.vectors.model import Model

SPELLINGS = 3  # that an error suggests
PARTS = 50  # tokens of a text that are shown
QUOTED = 200  # characters of a text that are


@dataclass(frozen=True)
class Query:
    """`ids` are trained tokens, in the order of the text; the query is the mean of their vectors."""

    text: str
    ids: tuple[int, ...]
    notes: tuple[str, ...] = ()


def resolve_query(model: Model, text: str, *, suggest: bool = True) -> Query:
    """The tokens that `text` means. Raises SgnsError if none of them was trained.

    One token, or one of its variants with a space before or after, whichever was trained most often; an
    exact token with a space in it is taken as it is; anything else is the mean of its trained tokens.
    `suggest` looks for the nearest spellings when nothing was found, which takes a while in a large
    vocabulary.
    """
    if not text:
        raise UsageError("the query is empty", "give a word or another piece of text")
    asked = model.as_trained(text)
    exact = _id_of(model, asked)
    if exact is not None and " " in asked:
        return Query(text, (_insist(model, text, exact),))
    shown = _id_of_shown(model, asked)
    if exact is None and shown is not None and model.trained[shown]:
        return Query(text, (shown,), (f"{text} is read as the token shown so",))
    variants = [exact, *(_id_of(model, variant) for variant in (f" {asked}", f"{asked} ", f" {asked} "))]
    found = [id for id in variants if id is not None]
    trained = [id for id in found if model.trained[id]]
    if trained:
        best = model.most_frequent(trained)
        return Query(text, (best,), _variant_notes(model, text, best, found, exact=exact))
    return _mean_of_parts(model, text, found, suggest=suggest)


def resolve_id(model: Model, id: int) -> Query:
    """The token with this id. Raises SgnsError if there is none, or it was never trained."""
    if not 0 <= id < model.n_vocab:
        raise SgnsError(f"there is no token {id}", f"the ids of this model run from 0 to {model.n_vocab - 1}")
    token = model.tokenizer.token_bytes(id)
    if token is None:
        raise SgnsError(f"id {id} is a hole in the vocabulary: no token has it", "choose another id")
    return Query(token_text.show(token), (_insist(model, name_token(model, id), id),))


def space_variants(model: Model, id: int) -> list[int]:
    """The ids of the same token without spaces at its ends, and with one before, behind, or both."""
    bare = (model.tokenizer.token_bytes(id) or b"").strip(b" ")
    found = [model.tokenizer.id_of(token) for token in (bare, b" " + bare, bare + b" ", b" " + bare + b" ")]
    return [one for one in found if one is not None and one < model.n_vocab]


def query_vectors(model: Model, queries: Sequence[Query], kind: Kind) -> NDArray[np.float32]:
    """[len(queries), dim]: for each query the mean of its tokens' vectors."""
    lengths = np.array([len(query.ids) for query in queries], dtype=np.int64)
    ids = np.array([id for query in queries for id in query.ids], dtype=np.int64)
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.int64)
    rows = model.rows(ids, kind)
    if not np.isfinite(rows).all():
        id = int(ids[~np.isfinite(rows).all(axis=1)][0])
        raise SgnsError(f"{model.path}: row {id} has numbers that are not finite", "use other vectors")
    sums = np.add.reduceat(rows.astype(np.float64), starts, axis=0)
    return np.asarray(sums / lengths[:, None], dtype=np.float32)


def name_token(model: Model, id: int) -> str:
    """A token as text that can be shown; <hole> where no token has the id."""
    token = model.tokenizer.token_bytes(id)
    return "<hole>" if token is None else token_text.show(token)


def quoted(text: str) -> str:
    """A text as it is named in a note or an error: of a long one the beginning."""
    return repr(text) if len(text) <= QUOTED else f"{text[:QUOTED]!r}..."


def _id_of(model: Model, text: str) -> int | None:
    """The id of exactly this text. What came from the shell as no UTF-8 goes back to its bytes."""
    try:
        token = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return None
    return _within(model, model.tokenizer.id_of(token))


def _id_of_shown(model: Model, text: str) -> int | None:
    """The id of a token typed as it is shown: ␣silver, <0xE2>."""
    token = token_text.parse(text)
    return _within(model, model.tokenizer.id_of(token)) if token_text.show(token) == text else None


def _within(model: Model, id: int | None) -> int | None:
    return id if id is not None and id < model.n_vocab else None


def _insist(model: Model, text: str, id: int) -> int:
    """`id` if it was trained, else an error: it was asked for by name."""
    if not model.trained[id]:
        raise SgnsError(f"{quoted(text)} was never trained: {_seen(model, id)}", "ask for another token")
    return id


def _seen(model: Model, id: int) -> str:
    count = model.count(id)
    if count is None:
        zero = not model.rows(np.array([id])).any()
        return "its row is zero" if zero else "it is special, or its name is that of a row before"
    return "the corpus does not have it" if count == 0 else f"seen {count} times, min_count is {model.min_count}"


def _variant_notes(model: Model, text: str, best: int, found: Sequence[int], *, exact: int | None) -> tuple[str, ...]:
    """Which variant was taken and which others there are; nothing where the text itself is the only token."""
    counts = {id: model.count(id) for id in (*found, best)}
    named = {id: name_token(model, id) for id in counts}
    others = [named[id] if counts[id] is None else f"{named[id]} ({counts[id]})" for id in found if id != best]
    if not others and best == exact:
        return ()
    times = {None: "", 1: " (trained once)"}.get(counts[best], f" (trained {counts[best]} times)")
    note = f"{quoted(text)} is read as {named[best]}{times}"
    return (f"{note}; also a token: {', '.join(others)}" if others else note,)


def _mean_of_parts(model: Model, text: str, found: Sequence[int], *, suggest: bool) -> Query:
    if not found and not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise SgnsError(f"{quoted(text)} is not valid UTF-8", "type its bytes as tokens are shown, such as <0xFF>")
    parts = [id for id in model.encode(text).tolist() if id < model.n_vocab]
    trained = [id for id in parts if model.trained[id]]
    split = "|".join([*(name_token(model, id) for id in parts[:PARTS]), *(["…"] if len(parts) > PARTS else [])])
    if not trained:
        hint = _spelling_hint(model, text) if suggest else "ask for a token that was trained"
        if found:
            raise SgnsError(f"{quoted(text)} was never trained: {_seen(model, found[0])}", hint)
        why = f"is {len(parts)} tokens, none of them trained: {split}" if parts else "is no token of this model"
        raise SgnsError(f"{quoted(text)} {why}", hint)
    many = f"is {len(parts)} tokens: {split}; asking for their mean"
    note = f"{quoted(text)} " + (many if len(parts) > 1 else f"is read as {split}")
    untrained = dict.fromkeys(name_token(model, id) for id in parts if not model.trained[id])
    unknown = dict.fromkeys(token_text.show(token_text.to_bytes(word)) for word in model.unknown(text).values())
    for left_out, why in ((untrained, "never trained"), (unknown, "not in the vocabulary")):
        if left_out:
            names = [*(name[:QUOTED] for name in islice(left_out, PARTS)), *(["…"] if len(left_out) > PARTS else [])]
            note += f", without those {why}: {', '.join(names)}"
    return Query(text, tuple(trained), (note,))


def _spelling_hint(model: Model, text: str) -> str:
    close = nearest_spellings(model, text)
    return f"nearest trained: {', '.join(close)}" if close else "ask for a token that was trained"


def nearest_spellings(model: Model, text: str) -> list[str]:
    """Trained tokens spelt nearly like `text`, the nearest first, each as it may be typed."""
    wanted = text.strip().lower()
    if len(wanted) > QUOTED:
        return []
    pairs = {wanted[i : i + 2] for i in range(len(wanted) - 1)}
    names: dict[str, str] = {}
    for id in model.by_frequency.tolist():
        name = token_text.show((model.tokenizer.token_bytes(id) or b"").strip(b" "))
        close = abs(len(name) - len(wanted)) <= 2 + len(wanted) // 4
        if close and (not pairs or any(pair in name.lower() for pair in pairs)):
            names.setdefault(name.lower(), name)
    return [names[match] for match in difflib.get_close_matches(wanted, names, n=SPELLINGS, cutoff=0.6)]
