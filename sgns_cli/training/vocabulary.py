"""Which token ids are trained, and the chances of the draws: training rows, keep probabilities, noise.

Training rows are the ids with count >= min_count, most frequent first, so that hot rows lie together.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sgns_cli.errors import SgnsError
from sgns_cli.training.draws import Chances

MOST = 1e300
CERTAIN = 2**32  # a chance of 1, in 32 random bits


@dataclass(frozen=True)
class Vocabulary:
    """Training rows and what is drawn from them. `ids` [R] is the token id of each row, `counts` [n_vocab] by id."""

    ids: NDArray[np.int64]
    counts: NDArray[np.int64]
    chances: Chances

    @property
    def rows(self) -> int:
        return len(self.ids)

    @property
    def kept_fraction(self) -> float:
        """The expected share of corpus tokens that are kept."""
        return float(self.counts @ (self.chances.keep.astype(np.float64) / CERTAIN) / self.counts.sum())


def make_vocabulary(
    counts: NDArray[np.int64], *, min_count: int, subsample_threshold: float, noise_power: float
) -> Vocabulary:
    """Build the vocabulary from counts by token id [n_vocab].

    Frequencies are shares of the trained tokens (word2vec's total, after min_count). Raises SgnsError if no id
    reaches min_count.
    """
    ids = np.flatnonzero(counts >= min_count)
    ids = ids[np.argsort(-counts[ids], kind="stable")]
    if len(ids) == 0:
        raise SgnsError(
            f"no token reaches model.min_count {min_count}: the corpus has {counts.sum():,} tokens of "
            f"{np.count_nonzero(counts):,} types, the most frequent occurs {counts.max(initial=0):,} times",
            "lower model.min_count, or give more text",
        )
    trained = counts[ids]
    rows = np.full(len(counts), -1, np.int32)
    rows[ids] = np.arange(len(ids), dtype=np.int32)
    keep = np.zeros(len(counts), np.uint64)
    keep[ids] = np.round(keep_probabilities(trained, subsample_threshold) * CERTAIN).astype(np.uint64)
    accept, alias = alias_table(trained.astype(np.float64) ** noise_power)
    return Vocabulary(ids, counts, Chances(rows, keep, accept, alias))


def keep_probabilities(counts: NDArray[np.int64], threshold: float) -> NDArray[np.float64]:
    """(sqrt(f/t) + 1) * t/f, at most 1, for f the share of each count [R]: word2vec's rule; 1 where t is 0."""
    if threshold == 0:
        return np.ones(len(counts))
    with np.errstate(over="ignore"):  # by a threshold near 0, for which nothing is kept
        share: NDArray[np.float64] = np.minimum(counts / counts.sum() / threshold, MOST)
    keep: NDArray[np.float64] = np.minimum(1.0, (np.sqrt(share) + 1) / share)
    return keep


def alias_table(weights: NDArray[np.float64]) -> tuple[NDArray[np.uint64], NDArray[np.int32]]:
    """Tables to draw k with chance weights[k] / sum in constant time (Walker 1977, Vose 1991), each [R].

    Draw a row uniformly; stay if 32 random bits are below accept[row], else take alias[row].
    """
    n = len(weights)
    scaled = weights / weights.sum() * n
    accept = np.ones(n)
    alias = np.arange(n, dtype=np.int32)
    small = [int(k) for k in np.flatnonzero(scaled < 1)]
    large = [int(k) for k in np.flatnonzero(scaled >= 1)]
    while small and large:
        poor, rich = small.pop(), large[-1]
        accept[poor], alias[poor] = scaled[poor], rich
        scaled[rich] -= 1 - scaled[poor]
        if scaled[rich] < 1:
            small.append(large.pop())
    return np.round(accept * CERTAIN).astype(np.uint64), alias
