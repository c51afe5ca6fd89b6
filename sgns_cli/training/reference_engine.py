"""The reference engine: rounds through the specification (kernels/reference.py), on any device of torch."""

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray

from sgns_cli.training.draws import BLOCK, PART, Corpus, Draws, draw_round, new_draws
from sgns_cli.training.engine import Engine, Floats, Matrices
from sgns_cli.training.kernels import reference
from sgns_cli.training.problem import Problem


class ReferenceEngine(Engine):
    """The specification (kernels/reference.py) on any device of torch."""

    def __init__(self, problem: Problem, matrices: Matrices, *, device: str, part: int = PART) -> None:
        self.device = device
        self.threads = 1
        self._part = part
        self._problem = problem
        self._draws = new_draws(problem.span, problem.model.window, problem.shared_negatives)
        on_device = {name: torch.tensor(matrix, device=device) for name, matrix in matrices.items()}
        self._parameters = reference.Parameters(on_device["vectors"], on_device["contexts"], on_device.get("positions"))

    def run_rounds(
        self, corpus: Corpus, seed: int, epoch: int, start: int, stop: int, rates: Floats
    ) -> tuple[float, int]:
        span, negatives = self._problem.span, self._problem.model.negatives
        loss, pairs = 0.0, 0
        for number, begin in enumerate(range(start, stop, span)):
            for draws in self._parts(corpus, seed, epoch, begin, min(begin + span, stop)):
                if len(rates):
                    more, count = reference.train_round(
                        self._parameters, draws, negatives=negatives, learning_rate=float(rates[number])
                    )
                else:
                    more, count = reference.round_loss(self._parameters, draws, negatives=negatives)
                loss, pairs = loss + more, pairs + count
        return loss, pairs

    def tables(self) -> dict[str, torch.Tensor]:
        parameters = self._parameters
        named = {
            "vectors": parameters.vectors,
            "contexts": parameters.contexts,
            "positions": parameters.positions,
        }
        return {name: table for name, table in named.items() if table is not None}

    def _parts(self, corpus: Corpus, seed: int, epoch: int, start: int, stop: int) -> Iterator[reference.Round]:
        """The draws of one round as index tensors of the reference, a part of it at a time."""
        problem, draws = self._problem, self._draws
        window, shared = problem.model.window, problem.shared_negatives
        first, last = draw_round(draws, corpus, problem.vocabulary.chances, seed, epoch, start, stop, window, shared)
        negatives = draws.negatives.reshape(-1, shared)
        for part in range(first, last, self._part):
            end = min(part + self._part, last)
            at = (part - first) // BLOCK
            yield self._round(draws, part, end, negatives[at : at + -(-(end - part) // BLOCK)])

    def _round(self, draws: Draws, first: int, last: int, negatives: NDArray[np.int32]) -> reference.Round:
        window, context_length = self._problem.model.window, self._problem.model.context_length
        centres = first + np.arange(len(negatives) * BLOCK).reshape(-1, BLOCK)  # [M, B]
        around = centres[:, :1] - window + np.arange(BLOCK + 2 * window)  # [M, C]
        real = centres < last
        centres = np.where(real, centres, first)
        low = np.where(real, draws.low[centres], 0)[..., None]
        high = np.where(real, draws.high[centres], 0)[..., None]
        column = around[:, None, :]
        in_window = (low <= column) & (column < high) & (column != centres[..., None])  # [M, B, C]
        needed = in_window.any(axis=1)

        def tensor(array: NDArray[np.generic]) -> torch.Tensor:
            return torch.from_numpy(array).to(self.device)

        return reference.Round(
            centres=tensor(np.where(real, draws.rows[centres], -1).astype(np.int64)),
            places=tensor(np.where(real, draws.offsets[centres] % context_length, -1).astype(np.int64)),
            contexts=tensor(np.where(needed, draws.rows[np.where(needed, around, first)], -1).astype(np.int64)),
            in_window=tensor(in_window),
            negatives=tensor(negatives.astype(np.int64)),
        )
