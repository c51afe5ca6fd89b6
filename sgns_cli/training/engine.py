"""What an engine is: it holds the matrices of a run on a device and trains rounds of it. And how matrices begin.

It takes the matrices over: the arrays that it is given may change as it trains. All engines start from the same rows
and follow the same draws; engines.py has them by device.
"""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sgns_cli.training.compiled import aligned_zeros
from sgns_cli.training.draws import HELD_OUT_EPOCH, Corpus
from sgns_cli.training.problem import Problem

if TYPE_CHECKING:
    from torch import Tensor


Floats = NDArray[np.float32]
START = 2.0  # times 1/dim, how far from zero numbers may start: four times as far as word2vec's (bench/README.md)
PIECE = 8192  # rows handled at a time, where a whole matrix more would be too much
# "vectors" [R, D], "contexts" [R, D] and, if learned, "positions" [context_length, D]; D is dim padded to 16 with zeros
Matrices = dict[str, Floats]


class Engine(ABC):
    """Trains rounds in order. `device` names what it runs on, `threads` how many of the CPU work on it."""

    device: str
    threads: int
    stride: int = 1  # rounds: stretches end at multiples of it in an epoch, or where the epoch does
    _problem: Problem

    def train(self, epoch: int, start: int, stop: int) -> tuple[float, int]:
        """Train the rounds of corpus tokens [start, stop): the sum of the losses of their pairs, and their number."""
        rates = self._problem.learning_rates(epoch, start, stop)
        return self.run_rounds(self._problem.corpus, self._problem.train.seed, epoch, start, stop, rates)

    def evaluate(self) -> tuple[float, int]:
        """The same sums over the held-out part, with draws that never change."""
        held_out = self._problem.held_out
        if held_out is None:
            return 0.0, 0
        return self.run_rounds(held_out, 0, HELD_OUT_EPOCH, held_out.begin, held_out.end, np.empty(0, np.float32))

    def matrices(self) -> Matrices:
        """The matrices as they stand (views where the device allows)."""
        return {name: table.cpu().numpy() for name, table in self.tables().items()}

    @abstractmethod
    def tables(self) -> "dict[str, Tensor]":
        """The matrices on the device, as views: what is written into them is trained on."""

    @abstractmethod
    def run_rounds(
        self, corpus: Corpus, seed: int, epoch: int, start: int, stop: int, rates: Floats
    ) -> tuple[float, int]:
        """Run the rounds of [start, stop) in a corpus at these learning rates; where there are none, nothing moves."""


def empty_matrices(problem: Problem) -> Matrices:
    """Zero matrices for a problem."""
    width = padded_width(problem.model.dim)
    return {name: aligned_zeros(rows, width) for name, rows in _matrix_rows(problem).items()}


def matrix_bytes(problem: Problem) -> int:
    """What the matrices of a problem take in memory."""
    return sum(_matrix_rows(problem).values()) * padded_width(problem.model.dim) * 4


def _matrix_rows(problem: Problem) -> dict[str, int]:
    rows = {"vectors": problem.vocabulary.rows, "contexts": problem.vocabulary.rows}
    return {**rows, "positions": problem.model.context_length} if problem.positions_learned else rows


def initial_matrices(problem: Problem) -> Matrices:
    """Vectors and positions uniform in +-START/dim, contexts zero, from the seed."""
    matrices = empty_matrices(problem)
    for stream, name in enumerate(("vectors", "positions")):
        uniform = np.random.Generator(np.random.Philox(key=[problem.train.seed, stream]))
        matrix = matrices.get(name, np.empty((0, 0), np.float32))
        for start in range(0, len(matrix), PIECE):
            piece = matrix[start : start + PIECE, : problem.model.dim]
            scale = np.float32(2 * START / problem.model.dim)
            piece[:] = (uniform.random(piece.shape, dtype=np.float32) - np.float32(0.5)) * scale
    return matrices


def padded_width(dim: int) -> int:
    return -(-dim // 16) * 16
