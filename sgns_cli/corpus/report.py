"""What a corpus is, from its token folder: how often ids are seen, the most frequent tokens, the longest documents.

Counts are held whole, document offsets are mapped and taken a chunk at a time, and of the tokens only those are read
whose text is shown. Returns records for `sgns info`; what is known without opening the files is inventory.py's.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sgns_cli.corpus.token_store import TokenStore, open_token_store
from sgns_cli.corpus.token_text import show
from sgns_cli.corpus.tokenizer import WHITESPACE, Tokenizer
from sgns_cli.inventory import Report, describe_tokens
from sgns_cli.token_folder import META, damaged

LEAST = (1, 5, 100)  # occurrences from which the next class begins
CLASSES = ("never seen", "1-4", "5-99", "100 and more", "special", "hole")
SPECIAL, HOLE = CLASSES.index("special"), CLASSES.index("hole")
DOCUMENTS_AT_ONCE = 2**20
CHARACTERS = 48  # of a document, to know it by: a line of 80 columns has room for them
MOST_BYTES = 4  # of a character in UTF-8
SKIPPED = 5  # documents that are named

Record = dict[str, Any]


def describe_corpus(folder: Path, *, frequent: int = 10, longest: int = 5) -> Report:
    """Facts about a token folder with its ids by count, `frequent` tokens and the `longest` documents.

    Raises SgnsError if the folder is damaged: every file of it is checked by its SHA-256.
    """
    facts = describe_tokens(folder)
    store = open_token_store(folder, verify=True)
    if facts["types"] != np.count_nonzero(store.counts):
        raise damaged(folder, f"{META} and its files do not fit each other")
    tokenizer = store.tokenizer()
    facts |= {
        "bytes_per_token": facts["text_bytes"] / len(store.tokens),
        "tokens_per_document": len(store.tokens) / store.n_documents,
        "notes": store.meta["notes"],
    }
    tables = {
        "ids_by_count": ids_by_count(store.counts, tokenizer),
        "frequent_tokens": frequent_tokens(store, tokenizer, frequent),
        "longest_documents": longest_documents(store, tokenizer, longest),
        "skipped_documents": skipped_documents(store),
    }
    return Report(facts, tables)


def ids_by_count(counts: NDArray[np.int64], tokenizer: Tokenizer) -> list[Record]:
    """How many of all ids each class of counts [n_vocab] has, and how many of all tokens they make up.

    Every id is in one class. Special tokens and holes, which no text becomes, have their own: they would pass for
    tokens that the corpus lacks.
    """
    classes = np.searchsorted(LEAST, counts, side="right")
    classes[np.array(sorted(tokenizer.special_ids), dtype=np.int64)] = SPECIAL
    holes = [id for id in np.flatnonzero(counts == 0).tolist() if tokenizer.token_bytes(id) is None]
    classes[np.array(holes, dtype=np.int64)] = HOLE
    tokens_of_all = int(counts.sum())
    records = []
    for number, name in enumerate(CLASSES):
        members = classes == number
        ids, tokens = int(np.count_nonzero(members)), int(counts[members].sum())
        shares = {"share_of_ids": ids / len(counts), "share_of_tokens": tokens / tokens_of_all}
        records.append({"count": name, "ids": ids, "tokens": tokens, **shares})
    return records


def frequent_tokens(store: TokenStore, tokenizer: Tokenizer, number: int) -> list[Record]:
    """The tokens that occur most often; of equal ones those of lower id."""
    records = []
    for id in _largest(store.counts, number).tolist():
        count = int(store.counts[id])
        if count:
            token = _token_bytes(store, tokenizer, id)
            named = {"token": show(token), "id": id, "bytes": token.hex()}
            records.append({**named, "count": count, "share_of_tokens": count / len(store.tokens)})
    return records


def longest_documents(store: TokenStore, tokenizer: Tokenizer, number: int) -> list[Record]:
    """The documents of most tokens, each by its number from 1 and where it starts in tokens.bin; of equal ones the
    first.
    """
    candidates = []
    for first in range(0, store.n_documents, DOCUMENTS_AT_ONCE):
        lengths = np.diff(store.documents[first : first + DOCUMENTS_AT_ONCE + 1])
        candidates.append(first + _largest(lengths, number))
    places = np.concatenate(candidates)
    places = places[_largest(store.documents[places + 1] - store.documents[places], number)]
    records = []
    for place in places.tolist():
        start, end = store.documents[place : place + 2].tolist()
        beginning = _beginning(store, tokenizer, start, end)
        records.append({"document": place + 1, "start": start, "tokens": end - start, "beginning": beginning})
    return records


def skipped_documents(store: TokenStore) -> list[Record]:
    """The first documents that were left out: source, number from 1 there, and why."""
    names = ("source", "document", "reason")
    try:
        return [{name: note[name] for name in names} for note in store.meta["skipped"][:SKIPPED]]
    except (KeyError, TypeError) as error:
        raise damaged(store.folder, f"{META} says nothing proper of `skipped`") from error


def _largest(values: NDArray[np.int64], number: int) -> NDArray[np.int64]:
    """The places of the largest values, largest first; of equal ones the first."""
    places = np.arange(len(values))
    if number < len(values):
        places = np.flatnonzero(values >= np.partition(values, -number)[-number])
    return places[np.argsort(-values[places], kind="stable")[:number]]


def _beginning(store: TokenStore, tokenizer: Tokenizer, start: int, end: int) -> str:
    """The first characters of a document; a byte that is not UTF-8 is U+FFFD."""
    ids = store.tokens[start : min(end, start + MOST_BYTES * CHARACTERS)].tolist()
    between = b" " if tokenizer.kind == WHITESPACE else b""
    text = between.join(_token_bytes(store, tokenizer, id) for id in ids)
    return text.decode(errors="replace")[:CHARACTERS]


def _token_bytes(store: TokenStore, tokenizer: Tokenizer, id: int) -> bytes:
    token = tokenizer.token_bytes(id)
    if token is None:
        raise damaged(store.folder, f"there is token id {id} in it, which has no text")
    return token
