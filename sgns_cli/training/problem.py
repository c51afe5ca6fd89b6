"""What a run optimises, as arrays and numbers: where configuration and corpus end and training begins.

Knows the rules that follow from the numbers (length of a round, schedule, what is held out), not how a kernel works.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sgns_cli.config import ModelConfig, TrainConfig
from sgns_cli.training.draws import Corpus
from sgns_cli.training.vocabulary import Vocabulary, make_vocabulary

ROUND_CENTRES = 1024  # kept tokens in a round, on average: see bench/README.md
GPU_ROUND_CENTRES = 4096  # likewise in a run that begins on a GPU, which needs more at once: as good (ibid.)
LONGEST_SPAN = 2**18  # corpus tokens a round, however few of them are kept
HELD_OUT_SHARE = 100  # one part in so many
HELD_OUT_TOKENS = 100_000  # at most


@dataclass(frozen=True)
class Problem:
    """A corpus, what is trained of it, and how."""

    corpus: Corpus  # the region trained on
    held_out: Corpus | None  # the region that is not
    vocabulary: Vocabulary
    model: ModelConfig
    train: TrainConfig
    span: int  # corpus tokens of a round

    @property
    def shared_negatives(self) -> int:
        """N: negatives that the centres of a block share, about 6 for each of K, in whole vectors of 16."""
        return math.ceil(6 * self.model.negatives / 16) * 16

    @property
    def epoch_tokens(self) -> int:
        return self.corpus.end - self.corpus.begin

    @property
    def total_tokens(self) -> int:
        """Corpus tokens over all epochs, before anything is dropped."""
        return self.epoch_tokens * self.train.epochs

    @property
    def epoch_rounds(self) -> int:
        return math.ceil(self.epoch_tokens / self.span)

    @property
    def total_rounds(self) -> int:
        return self.epoch_rounds * self.train.epochs

    @property
    def positions_learned(self) -> bool:
        return self.model.positions == "learned"

    def tokens_seen(self, step: int) -> int:
        """Corpus tokens passed after `step` rounds."""
        epoch, rounds = divmod(step, self.epoch_rounds)
        return epoch * self.epoch_tokens + min(rounds * self.span, self.epoch_tokens)

    def learning_rate(self, step: int) -> float:
        """max(final, initial * (1 - f)) at the share f of the corpus passed after `step` rounds."""
        passed = self.tokens_seen(step) / max(self.total_tokens, 1)
        return max(self.train.learning_rate * (1 - passed), self.train.final_learning_rate)

    def learning_rates(self, epoch: int, start: int, stop: int) -> NDArray[np.float32]:
        """The learning rate of each round of the corpus tokens [start, stop) of an epoch."""
        first = epoch * self.epoch_rounds + start // self.span
        count = math.ceil((stop - start) / self.span)
        return np.array([self.learning_rate(first + number) for number in range(count)], np.float32)


def make_problem(
    tokens: NDArray[np.uint16] | NDArray[np.uint32],
    documents: NDArray[np.int64],
    counts: NDArray[np.int64],
    model: ModelConfig,
    train: TrainConfig,
    *,
    round_centres: int | None = None,
) -> Problem:
    """From a token folder's arrays: ids [tokens], start offsets [documents + 1], counts by id [n_vocab].

    A round is so long that `round_centres` of its tokens are kept, on average.
    """
    vocabulary = make_vocabulary(
        counts,
        min_count=model.min_count,
        subsample_threshold=model.subsample_threshold,
        noise_power=model.noise_power,
    )
    halves: NDArray[np.uint16] = _read_only(np.asarray(tokens).view(np.uint16))
    words = tokens.dtype.itemsize // 2
    offsets: NDArray[np.int64] = _read_only(np.asarray(documents))
    split = held_out_start(documents)
    end = len(tokens)
    held_out = Corpus(halves, words, offsets, split, end) if split < end else None
    wanted = round((round_centres or ROUND_CENTRES) / max(vocabulary.kept_fraction, 1e-9))
    span = max(1, min(wanted, LONGEST_SPAN, split))
    return Problem(Corpus(halves, words, offsets, 0, split), held_out, vocabulary, model, train, span)


def held_out_start(documents: NDArray[np.int64]) -> int:
    """Where the held-out part begins: the last 1 % of documents, or of tokens where there are not 100 documents.

    Never more than 100,000 tokens; a document that this limit cuts is held out from the limit on.
    """
    tokens = int(documents[-1])
    count = (len(documents) - 1) // HELD_OUT_SHARE
    start = int(documents[-1 - count]) if count else tokens - tokens // HELD_OUT_SHARE
    return max(start, tokens - HELD_OUT_TOKENS)


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    """A read-only view, in C order: mapped and in-memory corpora then have one compiled type."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view
