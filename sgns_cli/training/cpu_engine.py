"""The CPU engine: rounds through the compiled kernel (kernels/cpu.py)."""

from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np

from sgns_cli.errors import SgnsError
from sgns_cli.training.draws import Corpus
from sgns_cli.training.engine import Engine, Floats, Matrices, padded_width
from sgns_cli.training.kernels import cpu, cpu_memory
from sgns_cli.training.problem import Problem

if TYPE_CHECKING:
    from torch import Tensor


def objective_of(problem: Problem) -> cpu_memory.Objective:
    """A problem as the compiled kernel takes it."""
    return cpu_memory.new_objective(
        width=padded_width(problem.model.dim),
        window=problem.model.window,
        negatives=problem.model.negatives,
        shared=problem.shared_negatives,
        context_length=problem.model.context_length if problem.positions_learned else 0,
    )


class CpuEngine(Engine):
    """The compiled kernel (kernels/cpu.py) on some threads of the CPU; their number changes no byte of the result."""

    device = "cpu"

    def __init__(self, problem: Problem, matrices: Matrices, threads: int = 1) -> None:
        self.threads = threads
        self._problem = problem
        self._matrices = matrices
        nothing = np.empty(0, np.float32)
        self._tables = cpu_memory.Tables(
            matrices["vectors"].reshape(-1),
            matrices["contexts"].reshape(-1),
            matrices["positions"].reshape(-1) if problem.positions_learned else nothing,
        )
        self._objective = objective_of(problem)
        self._work = cpu.new_work(self._objective, problem.span)
        self._scratches = [cpu_memory.new_scratch(self._objective) for _ in range(threads)]
        self._pool = ThreadPoolExecutor(max(1, threads - 1))  # starts a thread when it is given work

    def matrices(self) -> Matrices:
        return self._matrices

    def tables(self) -> "dict[str, Tensor]":
        import torch

        return {name: torch.from_numpy(matrix) for name, matrix in self._matrices.items()}

    def run_rounds(
        self, corpus: Corpus, seed: int, epoch: int, start: int, stop: int, rates: Floats
    ) -> tuple[float, int]:
        rounds = cpu_memory.Rounds(seed, epoch, start, stop, self._problem.span, rates)
        cpu.reset(self._work, rounds)
        chances, threads = self._problem.vocabulary.chances, self.threads
        shared = (corpus, chances, self._tables, self._objective, rounds, self._work, threads)
        others: list[Future[None]] = []
        try:
            for scratch in self._scratches[1:]:
                others.append(self._pool.submit(cpu.run_rounds, *shared, scratch))
            cpu.run_rounds(*shared, self._scratches[0])
        except RuntimeError as error:  # can't start new thread
            raise SgnsError(f"cannot start {threads} threads: {error}", "train with fewer: --threads 1") from error
        finally:  # also after Ctrl-C: the others must be out of the matrices
            for other in others:
                if not other.cancel():  # one that has not begun is not needed
                    other.result()
        return float(self._work.loss[0]), int(self._work.pairs[0])
