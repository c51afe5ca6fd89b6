"""Arithmetic of the CPU kernel against what the processor can do, and the pairs that an epoch trains.

`python bench/arithmetic.py NAME '{"option": value}'` prints one JSON line. Numbers of blocks and pairs are counted from
the draws themselves (training/draws.py), not estimated.
"""

import json
import statistics
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from sgns_cli.config import ModelConfig, TrainConfig
from sgns_cli.corpus.token_store import open_token_store
from sgns_cli.training.compiled import OPTIONS
from sgns_cli.training.cpu_engine import CpuEngine
from sgns_cli.training.draws import BLOCK, draw_round, new_draws
from sgns_cli.training.engine import initial_matrices
from sgns_cli.training.kernels.simd import load, muladd, store
from sgns_cli.training.problem import Problem, make_problem

CHUNK_TOKENS = 100_000  # trained between two looks at the FMA peak; a tenth of a second or so, as in `sgns train`
PEAK_SECONDS = 0.05


def flops_per_block(*, block: int, window: int, shared: int, width: int) -> int:
    """Floating-point operations of the three products of a block (kernels/cpu_block.py), a multiply-add being two.

    Scores, input deltas and output deltas each touch the same tiles of 4 centres by 4 output rows over `width`
    columns: for each of block/4 centre tiles the band of context tiles that its windows can reach, and all of
    shared/4 negatives. Gradients, copies and the rows' steps are not counted.
    """
    band = (2 * window + 3) // 4 + 1
    tiles = block // 4 * (band + shared // 4)
    return 3 * tiles * 16 * width * 2


def useful_flops(*, dim: int, pairs: int, negatives: int) -> int:
    """What pair-by-pair SGNS needs: a dot product and two row updates for the pair and each negative."""
    return 6 * dim * pairs * (1 + negatives)


class Drawn(NamedTuple):
    blocks: int
    pairs: int


def open_problem(store: str, *, dim: int, subsample: float) -> Problem:
    """The problem that `sgns train` makes of a token folder for one epoch with seed 1."""
    opened = open_token_store(Path(store))
    model = ModelConfig(dim=dim, subsample_threshold=subsample)
    return make_problem(opened.tokens, opened.documents, opened.counts, model, TrainConfig(epochs=1))


def drawn(problem: Problem, start: int, stop: int) -> Drawn:
    """Blocks and pairs that training draws for the corpus tokens [start, stop), which begin at a round."""
    window, shared, span = problem.model.window, problem.shared_negatives, problem.span
    draws = new_draws(span, window, shared)
    chances, seed = problem.vocabulary.chances, problem.train.seed
    blocks = pairs = 0
    for begin in range(start, stop, span):
        end = min(begin + span, stop)
        first, last = draw_round(draws, problem.corpus, chances, seed, 0, begin, end, window, shared)
        blocks += -(-(last - first) // BLOCK)
        pairs += int((draws.high[first:last] - draws.low[first:last] - 1).sum(dtype="int64"))
    return Drawn(blocks, pairs)


def count(store: str, subsample: float) -> dict[str, float]:
    """Pairs that an epoch trains, for each corpus token of it."""
    problem = open_problem(store, dim=16, subsample=subsample)
    return {"pairs_per_token": drawn(problem, 0, problem.epoch_tokens).pairs / problem.epoch_tokens}


def measure(store: str, dim: int, threads: int, subsample: float) -> dict[str, Any]:
    """Train a token folder once, chunk by chunk, with a look at the FMA peak between the chunks.

    Shares are medians over the chunks of a chunk's rate against the mean of the peaks before and after it, so that a
    processor that slows down slows both.
    """
    problem = open_problem(store, dim=dim, subsample=subsample)
    matrices = initial_matrices(problem)
    width = matrices["vectors"].shape[1]
    engine = CpuEngine(problem, matrices, threads)
    per_block = flops_per_block(block=BLOCK, window=problem.model.window, shared=problem.shared_negatives, width=width)
    peak = FmaPeak(threads)
    before = peak.flops_per_second()
    rounds = max(1, CHUNK_TOKENS // problem.span)
    rows = []
    for start in range(0, problem.epoch_tokens, rounds * problem.span):
        stop = min(start + rounds * problem.span, problem.epoch_tokens)
        began = time.perf_counter()
        engine.train(0, start, stop)
        seconds = time.perf_counter() - began
        after = peak.flops_per_second()
        blocks, pairs = drawn(problem, start, stop)
        useful = useful_flops(dim=dim, pairs=pairs, negatives=problem.model.negatives)
        rows.append((per_block * blocks / seconds, useful / seconds, (before + after) / 2, (stop - start) / seconds))
        before = after
    rows = rows[1:] or rows  # the first chunk meets its memory for the first time
    executed, useful_rate, peaks, tokens = (statistics.median(column) for column in zip(*rows, strict=True))
    return {
        "dim": dim,
        "width": width,
        "threads": threads,
        "subsample": subsample,
        "block": BLOCK,
        "shared_negatives": problem.shared_negatives,
        "flops_per_block": per_block,
        "peak_gflops": peaks / 1e9,
        "executed_gflops": executed / 1e9,
        "useful_gflops": useful_rate / 1e9,
        "executed_share": statistics.median(row[0] / row[2] for row in rows),
        "useful_share": statistics.median(row[1] / row[2] for row in rows),
        "tokens_per_second": tokens,
    }


class FmaPeak:
    """Fused multiply-adds on registers alone, on several threads: what the processor can do at this moment.

    Twelve independent sums of 16 numbers keep two units of four cycles busy and fit the 32 registers of AVX-512 (on
    processors with fewer, they do not, and the peak comes out too low).
    """

    def __init__(self, threads: int) -> None:
        self._spin = numba.njit(**OPTIONS)(_spin)
        self._numbers = [np.full(14 * 16, 0.5, np.float32) for _ in range(threads)]
        self._repeats = 1000
        self._run()  # compiles
        seconds = 0.0
        while seconds < PEAK_SECONDS:
            self._repeats *= 2
            seconds = self._run()

    def flops_per_second(self) -> float:
        """The median of three."""
        flops = self._repeats * 12 * 16 * 2 * len(self._numbers)
        return flops / statistics.median(self._run() for _ in range(3))

    def _run(self) -> float:
        began = time.perf_counter()
        others = [threading.Thread(target=self._spin, args=(numbers, self._repeats)) for numbers in self._numbers[1:]]
        for thread in others:
            thread.start()
        self._spin(self._numbers[0], self._repeats)
        for thread in others:
            thread.join()
        return time.perf_counter() - began


def _spin(numbers: NDArray[np.float32], repeats: int) -> None:
    x, y = load(numbers, 192), load(numbers, 208)
    a, b, c, d = load(numbers, 0), load(numbers, 16), load(numbers, 32), load(numbers, 48)
    e, f, g, h = load(numbers, 64), load(numbers, 80), load(numbers, 96), load(numbers, 112)
    i, j, k, m = load(numbers, 128), load(numbers, 144), load(numbers, 160), load(numbers, 176)
    for _ in range(repeats):
        a, b, c, d = muladd(a, x, y), muladd(b, x, y), muladd(c, x, y), muladd(d, x, y)
        e, f, g, h = muladd(e, x, y), muladd(f, x, y), muladd(g, x, y), muladd(h, x, y)
        i, j, k, m = muladd(i, x, y), muladd(j, x, y), muladd(k, x, y), muladd(m, x, y)
    store(numbers, 0, a + b + c + d + e + f + g + h + i + j + k + m)  # or nothing would be computed


WORKERS: dict[str, Callable[..., dict[str, Any]]] = {"count": count, "measure": measure}

if __name__ == "__main__":
    print(json.dumps(WORKERS[sys.argv[1]](**json.loads(sys.argv[2]))))
