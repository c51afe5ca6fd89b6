"""An engine holds the matrices of a run on a device and trains rounds of it: the CPU kernel, or the reference.

It takes the matrices over: the arrays that it is given may change as it trains.
Both start from the same rows, follow the same draws and the same rounds; which one runs is a matter of the device.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sgns_cli.errors import SgnsError
from sgns_cli.training.compiled import aligned_zeros
from sgns_cli.training.draws import BLOCK, HELD_OUT_EPOCH, PART, Corpus, Draws, draw_round, new_draws
from sgns_cli.training.problem import GPU_ROUND_CENTRES, ROUND_CENTRES, Problem

if TYPE_CHECKING:
    from torch import Tensor

    from sgns_cli.training.kernels.cpu_memory import Objective
    from sgns_cli.training.kernels.reference import Round

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

    @abstractmethod
    def matrices(self) -> Matrices:
        """The matrices as they stand (views where the device allows)."""

    def tables(self) -> "dict[str, Tensor]":
        """The matrices on the device, as views: what is written into them is trained on."""
        import torch

        return {name: torch.from_numpy(matrix) for name, matrix in self.matrices().items()}

    @abstractmethod
    def run_rounds(
        self, corpus: Corpus, seed: int, epoch: int, start: int, stop: int, rates: Floats
    ) -> tuple[float, int]:
        """Run the rounds of [start, stop) in a corpus at these learning rates; where there are none, nothing moves."""


def empty_matrices(problem: Problem) -> Matrices:
    """Zero matrices for a problem."""
    width = _padded_width(problem.model.dim)
    return {name: aligned_zeros(rows, width) for name, rows in _matrix_rows(problem).items()}


def matrix_bytes(problem: Problem) -> int:
    """What the matrices of a problem take in memory."""
    return sum(_matrix_rows(problem).values()) * _padded_width(problem.model.dim) * 4


def _matrix_rows(problem: Problem) -> dict[str, int]:
    rows = {"vectors": problem.vocabulary.rows, "contexts": problem.vocabulary.rows}
    return {**rows, "positions": problem.model.context_length} if problem.positions_learned else rows


def objective_of(problem: Problem) -> "Objective":
    """A problem as the compiled kernel takes it."""
    from sgns_cli.training.kernels.cpu_memory import new_objective

    return new_objective(
        width=_padded_width(problem.model.dim),
        window=problem.model.window,
        negatives=problem.model.negatives,
        shared=problem.shared_negatives,
        context_length=problem.model.context_length if problem.positions_learned else 0,
    )


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


def _padded_width(dim: int) -> int:
    return -(-dim // 16) * 16


def kernel_of(device: str) -> str:
    """Which kernel trains on a device: `cpu`, `gpu`, or `reference`, which runs on any and is many times slower."""
    if device == "cpu":
        return "cpu"
    return "gpu" if device.startswith("cuda") and find_spec("triton") is not None else "reference"


def make_engine(problem: Problem, matrices: Matrices, device: str, threads: int) -> Engine:
    """The engine for a device; on the CPU with so many threads."""
    kernel = kernel_of(device)
    if kernel == "cpu":
        return CpuEngine(problem, matrices, threads)
    if kernel == "gpu":
        from sgns_cli.training.gpu_engine import GpuEngine

        return GpuEngine(problem, matrices, device=device)
    return ReferenceEngine(problem, matrices, device=device)


def round_centres(device: str) -> int:
    """How many kept tokens a round has on average, in a run that begins on a device."""
    return GPU_ROUND_CENTRES if kernel_of(device) == "gpu" else ROUND_CENTRES


def device_bytes(problem: Problem, device: str) -> int:
    """What a device other than the CPU has to have room for, at most."""
    if kernel_of(device) != "gpu":
        return matrix_bytes(problem)
    from sgns_cli.training.gpu_engine import work_bytes

    return 2 * matrix_bytes(problem) + work_bytes(problem)


def useful_threads(device: str, threads: int) -> int:
    """How many of `threads` an engine has work for: on the CPU one for each block of a round, elsewhere one."""
    return min(threads, ROUND_CENTRES // BLOCK) if device == "cpu" else 1


def must_compile(device: str) -> bool:
    """Whether the engine for a device has to be compiled first, which takes a while."""
    if kernel_of(device) != "cpu":
        return False
    from sgns_cli.training.compiled import is_compiled
    from sgns_cli.training.kernels.cpu import run_rounds

    return not is_compiled(run_rounds)


class CpuEngine(Engine):
    """The compiled kernel (kernels/cpu.py) on some threads of the CPU; their number changes no byte of the result."""

    device = "cpu"

    def __init__(self, problem: Problem, matrices: Matrices, threads: int = 1) -> None:
        from sgns_cli.training.kernels import cpu, cpu_memory

        self.threads = threads
        self._problem = problem
        self._cpu, self._memory = cpu, cpu_memory
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

    def run_rounds(
        self, corpus: Corpus, seed: int, epoch: int, start: int, stop: int, rates: Floats
    ) -> tuple[float, int]:
        rounds = self._memory.Rounds(seed, epoch, start, stop, self._problem.span, rates)
        self._cpu.reset(self._work, rounds)
        chances, threads = self._problem.vocabulary.chances, self.threads
        shared = (corpus, chances, self._tables, self._objective, rounds, self._work, threads)
        others: list[Future[None]] = []
        try:
            for scratch in self._scratches[1:]:
                others.append(self._pool.submit(self._cpu.run_rounds, *shared, scratch))
            self._cpu.run_rounds(*shared, self._scratches[0])
        except RuntimeError as error:  # can't start new thread
            raise SgnsError(f"cannot start {threads} threads: {error}", "train with fewer: --threads 1") from error
        finally:  # also after Ctrl-C: the others must be out of the matrices
            for other in others:
                if not other.cancel():  # one that has not begun is not needed
                    other.result()
        return float(self._work.loss[0]), int(self._work.pairs[0])


class ReferenceEngine(Engine):
    """The specification (kernels/reference.py) on any device of torch."""

    def __init__(self, problem: Problem, matrices: Matrices, *, device: str, part: int = PART) -> None:
        import torch

        from sgns_cli.training.kernels import reference

        self.device = device
        self.threads = 1
        self._part = part
        self._problem = problem
        self._reference = reference
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
                    more, count = self._reference.train_round(
                        self._parameters, draws, negatives=negatives, learning_rate=float(rates[number])
                    )
                else:
                    more, count = self._reference.round_loss(self._parameters, draws, negatives=negatives)
                loss, pairs = loss + more, pairs + count
        return loss, pairs

    def matrices(self) -> Matrices:
        return {name: table.cpu().numpy() for name, table in self.tables().items()}

    def tables(self) -> "dict[str, Tensor]":
        parameters = self._parameters
        named = {
            "vectors": parameters.vectors,
            "contexts": parameters.contexts,
            "positions": parameters.positions,
        }
        return {name: table for name, table in named.items() if table is not None}

    def _parts(self, corpus: Corpus, seed: int, epoch: int, start: int, stop: int) -> "Iterator[Round]":
        """The draws of one round as index tensors of the reference, a part of it at a time."""
        problem, draws = self._problem, self._draws
        window, shared = problem.model.window, problem.shared_negatives
        first, last = draw_round(draws, corpus, problem.vocabulary.chances, seed, epoch, start, stop, window, shared)
        negatives = draws.negatives.reshape(-1, shared)
        for part in range(first, last, self._part):
            end = min(part + self._part, last)
            at = (part - first) // BLOCK
            yield self._round(draws, part, end, negatives[at : at + -(-(end - part) // BLOCK)])

    def _round(self, draws: Draws, first: int, last: int, negatives: NDArray[np.int32]) -> "Round":
        import torch

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

        return self._reference.Round(
            centres=tensor(np.where(real, draws.rows[centres], -1).astype(np.int64)),
            places=tensor(np.where(real, draws.offsets[centres] % context_length, -1).astype(np.int64)),
            contexts=tensor(np.where(needed, draws.rows[np.where(needed, around, first)], -1).astype(np.int64)),
            in_window=tensor(in_window),
            negatives=tensor(negatives.astype(np.int64)),
        )
