"""A is to B as C is to ?, and how alike A and B are, for many questions at once.

Analogies are 3CosAdd (Mikolov et al., Linguistic Regularities in Continuous Space Word Representations, 2013): the
rows nearest to b - a + c, each of length one first.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sgns_cli.vectors.choices import Kind
from sgns_cli.vectors.model import Model
from sgns_cli.vectors.neighbors import Answers, Space, cosines, nearest_to_directions, units
from sgns_cli.vectors.query import Query, query_vectors, space_variants


def analogies(model: Model, space: Space, questions: Sequence[Sequence[Query]], kind: Kind, *, k: int) -> list[Answers]:
    """For each question (A, B, C) the k rows nearest to B - A + C.

    The tokens of the question and their variants with and without spaces are no answers.
    """
    a, b, c = (query_vectors(model, queries, kind) - space.mean for queries in zip(*questions, strict=True))
    exclude = [
        sorted({id for query in question for own in query.ids for id in (own, *space_variants(model, own))})
        for question in questions
    ]
    return nearest_to_directions(space, directions(a, b, c), exclude, k=k)


def directions(a: NDArray[np.float32], b: NDArray[np.float32], c: NDArray[np.float32]) -> NDArray[np.float32]:
    """[Q, dim]: where the answers of 3CosAdd lie, for a, b and c [Q, dim] each."""
    return np.asarray(units(b) - units(a) + units(c))


def similarities(
    model: Model, pairs: Sequence[Sequence[Query]], kind: Kind, mean: NDArray[np.float32]
) -> NDArray[np.float64]:
    """[len(pairs)]: the cosine of the two of each pair, after subtracting `mean` [dim]."""
    first, second = (query_vectors(model, queries, kind) - mean for queries in zip(*pairs, strict=True))
    return cosines(first, second)
