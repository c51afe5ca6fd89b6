"""The GPU engine: rounds through the Triton kernels (kernels/gpu.py), on draws made on the device.

The corpus goes to the device a stretch of many rounds at a time, through pinned memory, so it may be larger than the
device's. While a stretch is trained, the next one is drawn on a stream of its own. A part of a round takes some
microseconds, in which Python could not launch the next one, so LAUNCHED of them are captured as a CUDA graph.
"""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sgns_cli.training.draws import BLOCK, Corpus, reach_of
from sgns_cli.training.engine import Engine, Floats, Matrices
from sgns_cli.training.kernels import gpu
from sgns_cli.training.kernels.gpu_draws import DeviceChances, Stretch, draw_negatives, draw_stretch
from sgns_cli.training.problem import GPU_ROUND_CENTRES, Problem

STRETCH = 2**21  # corpus tokens drawn at a time, about
MOST_ROUNDS = 512  # of a stretch
LAUNCHED = 32  # parts of rounds in a CUDA graph
PART = 2 * GPU_ROUND_CENTRES  # centres of a part of a round


@dataclass(frozen=True)
class Drawn:
    """A stretch, its negatives, and its parts: the centres and blocks that they begin with, their ends and rates."""

    stretch: Stretch
    negatives: Tensor  # int32 [blocks, N]
    first: Tensor  # int32 [parts]
    last: Tensor  # int32 [parts]
    block: Tensor  # int32 [parts]
    rate: Tensor  # float32 [parts]

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        stretch = self.stretch
        of_stretch = (stretch.rows, stretch.places, stretch.offsets, stretch.low, stretch.high)
        return (*of_stretch, self.negatives, self.first, self.last, self.block, self.rate)


def rounds_of_stretch(problem: Problem) -> int:
    """Rounds drawn at a time: fewer where each block has very many negatives."""
    tokens = STRETCH // max(1, problem.shared_negatives // 64)
    return max(1, min(tokens // problem.span, MOST_ROUNDS, problem.epoch_rounds))


def work_bytes(problem: Problem) -> int:
    """Bytes on the device beside the tables, at most: the draws of two stretches, and what makes one of them."""
    tokens = rounds_of_stretch(problem) * problem.span
    draws, making = 32 + 4 * problem.shared_negatives // BLOCK, 96 + 48 * problem.shared_negatives // BLOCK
    chances = 12 * len(problem.vocabulary.counts) + 12 * problem.vocabulary.rows
    curvature = 4 * (2 * problem.vocabulary.rows + problem.model.context_length)
    return tokens * (3 * draws + making) + chances + curvature


class GpuEngine(Engine):
    """The Triton kernels on a CUDA device; on the CPU, for tests, through Triton's interpreter."""

    threads = 1

    def __init__(
        self,
        problem: Problem,
        matrices: Matrices,
        *,
        device: str,
        part: int = PART,
        at_once: int = LAUNCHED,
        options: gpu.Options | None = None,
    ) -> None:
        """`part` centres of a round are trained at once, `at_once` parts launched."""
        self.device, self._cuda = device, torch.device(device).type == "cuda"
        if self._cuda:
            torch.cuda.set_device(torch.device(device).index or 0)
        self._problem, self._part = problem, part
        self._sizes = {name: len(matrix) for name, matrix in matrices.items()}
        width = next(iter(matrices.values())).shape[1]
        rows = torch.empty(sum(self._sizes.values()), width, device=device)
        for view, matrix in zip(torch.split(rows, list(self._sizes.values())), matrices.values(), strict=True):
            view.copy_(torch.from_numpy(matrix))
        self._tables = gpu.Tables(rows, torch.zeros_like(rows), rows.new_zeros(len(rows)))
        self._chances = DeviceChances.of(problem.vocabulary.chances, device)
        model = problem.model
        self._shape = gpu.Shape(
            width=width,
            rows=problem.vocabulary.rows,
            context_length=model.context_length if problem.positions_learned else 0,
            window=model.window,
            negatives=model.negatives,
            shared=problem.shared_negatives,
            options=options or gpu.Options(),
        )
        self._rounds = rounds_of_stretch(problem)
        self._at_once = at_once
        self._make_room(self._rounds * problem.span)
        self._drawing = torch.cuda.Stream() if self._cuda else None  # type: ignore[no-untyped-call]
        self._graph: torch.cuda.CUDAGraph | None = None

    def tables(self) -> dict[str, Tensor]:
        return dict(zip(self._sizes, torch.split(self._tables.rows, list(self._sizes.values())), strict=True))

    def run_rounds(
        self, corpus: Corpus, seed: int, epoch: int, start: int, stop: int, rates: Floats
    ) -> tuple[float, int]:
        self._compile()
        loss = torch.zeros((), dtype=torch.float64, device=self.device)
        pairs = torch.zeros((), dtype=torch.int64, device=self.device)
        length = self._rounds * self._problem.span
        following: Drawn | None = None
        for number, begin in enumerate(range(start, stop, length)):
            end = min(begin + length, stop)
            drawn = following or self._draw(corpus, seed, epoch, begin, end, rates)
            self._take(drawn)
            blocks = len(drawn.negatives)
            self._run_parts(len(drawn.first), moves=len(rates) > 0)
            loss += self._sums.losses[:blocks].double().sum()
            pairs += self._sums.pairs[:blocks].sum()
            if end < stop:  # while the device trains
                rest = rates[(number + 1) * self._rounds :]
                following = self._draw(corpus, seed, epoch, end, min(end + length, stop), rest)
        return float(loss), int(pairs)

    # --- draws

    def _draw(self, corpus: Corpus, seed: int, epoch: int, start: int, stop: int, rates: Floats) -> Drawn:
        """Draw the rounds of [start, stop), at most as many as a stretch has; `rates` are theirs, and of later ones."""
        span, window, shared = self._problem.span, self._shape.window, self._shape.shared
        begin, end = reach_of(corpus, self._problem.vocabulary.chances, seed, epoch, start, stop, window)
        edges = [*range(start, stop, span), stop]
        with self._on_drawing_stream():
            tokens = self._upload(corpus, begin, end)
            stretch = draw_stretch(corpus, tokens, begin, self._chances, seed, epoch, edges, window)
            parts, blocks, of_round = self._parts_of(stretch.bounds)
            negatives = draw_negatives(self._chances, stretch.places[self._there(blocks)], seed, epoch, shared)
            first = self._there(parts[:, 0])
            rate = self._there(rates[of_round] if len(rates) else np.zeros(len(parts), np.float32))
            return Drawn(stretch, negatives, first, self._there(parts[:, 1]), self._there(parts[:, 2]), rate)

    def _parts_of(self, bounds: list[int]) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]:
        """The parts [parts, 3] as (first centre, end, first block), the first centres of blocks, the parts' rounds."""
        begins, ends = np.array(bounds[:-1]), np.array(bounds[1:])
        counts = -(-(ends - begins) // self._part)
        of_round = np.repeat(np.arange(len(counts)), counts)
        number = np.arange(len(of_round)) - np.repeat(np.cumsum(counts) - counts, counts)  # of a part in its round
        first = begins[of_round] + number * self._part
        last = np.minimum(first + self._part, ends[of_round])
        blocks = -(-(last - first) // BLOCK)
        block = np.cumsum(blocks) - blocks
        centres = np.repeat(first - block * BLOCK, blocks) + np.arange(blocks.sum()) * BLOCK
        return np.stack([first, last, block], axis=1).astype(np.int32), centres, of_round

    def _on_drawing_stream(self) -> AbstractContextManager[object]:
        return nullcontext() if self._drawing is None else torch.cuda.stream(self._drawing)

    def _upload(self, corpus: Corpus, begin: int, end: int) -> Tensor:
        """The token ids of [begin, end) on the device, int64."""
        halves = corpus.halves[begin * corpus.words : end * corpus.words]
        ids = halves.view(np.int16 if corpus.words == 1 else np.int32)
        staged = torch.empty(len(ids), dtype=getattr(torch, ids.dtype.name), pin_memory=self._cuda)
        staged.numpy()[:] = ids
        return staged.to(self.device, non_blocking=True).long() & (0xFFFF if corpus.words == 1 else 0xFFFFFFFF)

    def _there(self, array: NDArray[np.generic]) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.device)

    # --- kernels

    def _make_room(self, tokens: int) -> None:
        """What the kernels read of a stretch of `tokens` tokens, at addresses that stay; `_take` fills it."""
        window, parts = self._shape.window, self._rounds + tokens // self._part + self._at_once
        blocks = tokens // BLOCK + parts

        def ints(size: int) -> Tensor:
            return torch.zeros(size, dtype=torch.int32, device=self.device)

        kept = tokens + 4 * window  # with those that windows reach, and as many empty ones, which kernels may look at
        self._draws = gpu.Draws(ints(kept), ints(kept), ints(kept), ints(kept), ints(blocks * self._shape.shared))
        rate = torch.zeros(parts, device=self.device)
        self._parts = gpu.Parts(ints(parts), ints(parts), ints(parts), rate, ints(1))
        self._sums = gpu.Sums(torch.zeros(blocks, device=self.device), ints(blocks))

    def _take(self, drawn: Drawn) -> None:
        """Put a stretch where the kernels read it, after `window` empty tokens and before as many."""
        stretch, window, parts = drawn.stretch, self._shape.window, self._parts
        if self._drawing is not None:
            stream = torch.cuda.current_stream()
            stream.wait_stream(self._drawing)
            for tensor in drawn.tensors:
                tensor.record_stream(stream)
        n = len(stretch.rows)
        at = slice(window, window + n)
        self._draws.rows[:window] = -1
        self._draws.rows[at] = stretch.rows
        self._draws.rows[window + n : n + 2 * window] = -1
        self._draws.low[at] = stretch.low + window
        self._draws.high[at] = stretch.high + window
        self._draws.places[at] = stretch.offsets % self._problem.model.context_length
        self._draws.negatives[: drawn.negatives.numel()] = drawn.negatives.flatten()
        count = len(drawn.first)
        for there, of_parts in zip(parts[:3], (drawn.first + window, drawn.last + window, drawn.block), strict=True):
            there.zero_()  # a part of no centres is nothing
            there[:count] = of_parts
        parts.rate[:count] = drawn.rate
        parts.at.zero_()

    def _run_parts(self, count: int, *, moves: bool) -> None:
        for _ in range(0, count, self._at_once):
            if self._graph is not None and moves:
                self._graph.replay()
            else:
                self._run_some(moves=moves)

    def _run_some(self, *, moves: bool) -> None:
        """Launch the kernels for the next parts."""
        shared = (self._tables, self._draws, self._parts, self._sums, self._shape, -(-self._part // BLOCK))
        for number in range(self._at_once):
            gpu.run_part(number, *shared, moves=moves)
        self._parts.at.add_(self._at_once)

    def _compile(self) -> None:
        """Compile the kernels on parts of no centres, and capture a graph of them."""
        if not self._cuda or self._graph is not None:
            return
        for moves in (False, True):
            self._parts.at.zero_()
            self._run_some(moves=moves)
        self._parts.at.zero_()
        reach_of(self._problem.corpus, self._problem.vocabulary.chances, 0, 0, 0, 1, 1)
        torch.cuda.synchronize()
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._run_some(moves=True)
