"""Answers as records, with the names that are promised for JSON. How they are printed is not known here."""

from collections.abc import Iterable, Iterator, Sequence

from sgns_cli.vectors.embed import Tokens, Vectors
from sgns_cli.vectors.model import Model
from sgns_cli.vectors.neighbors import Answers
from sgns_cli.vectors.query import Query, name_token

DECIMALS = 6  # of a score

Record = dict[str, object]


def neighbor_records(model: Model, query: Query, answers: Answers) -> Iterator[Record]:
    """One record an answer, best first."""
    return _answer_records(model, query.text, query.ids, answers)


def analogy_records(model: Model, question: Sequence[Query], answers: Answers) -> Iterator[Record]:
    """One record an answer to (A, B, C), best first; `query_ids` are those of A, of B, and of C."""
    ids = [id for query in question for id in query.ids]
    return _answer_records(model, [query.text for query in question], ids, answers)


def similarity_record(pair: Sequence[Query], score: float) -> Record:
    return {"a": pair[0].text, "b": pair[1].text, "score": round(score, DECIMALS)}


def _answer_records(model: Model, query: object, ids: Sequence[int], answers: Answers) -> Iterator[Record]:
    pairs = zip(answers.ids.tolist(), answers.scores.tolist(), strict=True)
    for rank, (id, score) in enumerate(pairs, start=1):
        yield {
            "query": query,
            "query_ids": list(ids),
            "rank": rank,
            **token_fields(model, id),
            "count": model.count(id),
            "score": round(score, DECIMALS),
        }


def token_fields(model: Model, id: int) -> Record:
    """How every record names a token: as it is shown, by id, and its bytes in hex."""
    return {"token": name_token(model, id), "id": id, "bytes": (model.tokenizer.token_bytes(id) or b"").hex()}


def embed_records(
    model: Model, text: int, tokens: Tokens, vectors: Vectors, *, sequence: int | None
) -> Iterator[Record]:
    """One record a token; `sequence` is its number where texts are cut into sequences."""
    for position, id, vector in zip(tokens.positions.tolist(), tokens.ids.tolist(), vectors, strict=True):
        where: Record = {"text": text} if sequence is None else {"text": text, "sequence": sequence}
        yield {
            **where,
            "position": position,
            "token": name_token(model, id),
            "id": id,
            "vector": numbers(vector),
        }


def pooled_record(text: int, tokens: Tokens, vector: Vectors) -> Record:
    return {"text": text, "tokens": len(tokens.ids), "vector": numbers(vector)}


def numbers(vector: Iterable[object]) -> list[float]:
    """float32 values as the shortest decimals that read back the same: 0.1, not 0.10000000149011612."""
    return [float(str(value)) for value in vector]
