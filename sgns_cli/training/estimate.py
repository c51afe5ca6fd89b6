"""What a training would be, told before it starts: tokens, rows, pairs, memory, disk, and the time to expect.

`prepare_estimate` refuses what `prepare_run` (run.py) refuses before it reads a step, and writes nothing;
`Estimate.measure` trains the first rounds for a moment, for the speed of this problem here, and forgets them.
"""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sgns_cli.config import Config
from sgns_cli.corpus.token_store import TokenStore
from sgns_cli.machine import available_memory
from sgns_cli.training.engine import initial_matrices, matrix_bytes
from sgns_cli.training.problem import Problem
from sgns_cli.training.room import Needs, step_bytes
from sgns_cli.training.setup import Setup, set_up, start_engine
from sgns_cli.training.start import Request, Start
from sgns_cli.training.trainer import Pace, Saved, train
from sgns_cli.training.vocabulary import CERTAIN

PROBE_SECONDS = 2.0
SAMPLED_TOKENS = 2**22  # looked at for the number of pairs, about
STRETCH = 2**18  # of them at once
MOST_TIMES = 100  # that a small corpus is looked at


@dataclass(frozen=True)
class Estimate:
    """A training that could start. `notes` are for people."""

    setup: Setup
    start: Start
    needs: Needs
    documents: int
    tokens: int

    @property
    def notes(self) -> list[str]:
        return [*self.setup.notes, *self.start.notes]

    def measure(self, stopped: Callable[[], bool] = lambda: False) -> dict[str, object]:
        """The facts, after a moment of training, which `stopped` ends sooner; no speed where nothing is to train.

        `train_seconds` are those still to spend in the rounds. `memory_bytes` is the peak of the whole process,
        `checkpoint_bytes` what a step takes on disk.
        """
        problem = self.setup.problem
        available = available_memory()
        to_train = problem.total_tokens - problem.tokens_seen(self.start.step)
        speed, wait, compile_seconds = self._probe(stopped) if to_train else (None, 0.0, 0.0)
        return {
            "documents": self.documents,
            "tokens": self.tokens,
            "trained_rows": problem.vocabulary.rows,
            "n_vocab": len(problem.vocabulary.counts),
            "tokens_total": problem.total_tokens,
            "rounds": problem.total_rounds,
            "pairs": round(expected_pairs(problem)),
            "matrix_bytes": matrix_bytes(problem),
            "memory_bytes": self.needs.memory(problem),
            "memory_available_bytes": available,
            "checkpoint_bytes": step_bytes(problem),
            "tokens_per_second": speed,
            "train_seconds": wait + to_train / speed if speed else 0.0,
            "compile_seconds": compile_seconds,
            "device": self.setup.device,
            "threads": self.setup.threads,
        }

    def _probe(self, stopped: Callable[[], bool]) -> tuple[float, float, float]:
        """Corpus tokens a second over the first rounds, once all memory is there; the seconds that training waits for
        that, which the first rounds would spend and no others; and those that the engine took to be ready.
        """
        problem = self.setup.problem
        matrices = initial_matrices(problem)
        engine, compile_seconds = start_engine(problem, matrices, self.setup.device, self.setup.threads)
        began = time.perf_counter()
        matrices["contexts"].fill(0)  # until somebody writes to them, zeros take no memory
        wait = time.perf_counter() - began
        end = time.monotonic() + PROBE_SECONDS
        *_, last = train(
            problem,
            engine,
            Saved(),
            pace=Pace(log_seconds=math.inf, checkpoint_minutes=math.inf),
            save=lambda record: None,
            stopped=lambda: stopped() or time.monotonic() >= end,
        )
        return last.tokens_per_second, wait, compile_seconds


def prepare_estimate(
    config: Config, store: TokenStore, *, request: Request | None = None, device: str = "auto", threads: int = 1
) -> Estimate:
    """Look at a run without making it. Raises SgnsError for what cannot be trained or resumed, or has no room."""
    setup = set_up(config, store, device=device, threads=threads)
    start, needs, problem = setup.find_start(request or Request())
    setup = replace(setup, problem=problem)
    return Estimate(setup, start, needs, documents=store.n_documents, tokens=len(store.tokens))


def expected_pairs(problem: Problem) -> float:
    """How many pairs all epochs will train: tokens of a sample are kept as training keeps them, by other draws.

    In a document of n kept tokens, one with k kept ones before it has min(r, k) of them in its window if its radius is
    r. As many windows reach forward, so the document has 2 * sum over k < n of mean over r = 1..window of min(r, k).
    """
    window = problem.model.window
    k = np.arange(window + 1)
    before = np.cumsum((k * (k + 1) / 2 + (window - k) * k) / window)  # [window + 1], the sum as far as k
    keep = problem.vocabulary.chances.keep / CERTAIN
    random = np.random.default_rng(problem.train.seed)
    pairs, tokens = 0.0, 0
    for ids, starts in _sample(problem):
        kept = np.add.reduceat(random.random(len(ids)) < keep[ids], starts, dtype=np.int64)
        beyond = np.maximum(kept - 1 - window, 0)  # tokens that have a whole window before them
        pairs += 2 * float((before[np.clip(kept - 1, 0, window)] + beyond * (window + 1) / 2).sum())
        tokens += len(ids)
    return pairs / tokens * problem.total_tokens


def _sample(problem: Problem) -> Iterator[tuple[NDArray[Any], NDArray[np.int64]]]:
    """Stretches of the corpus: their ids, and where documents begin in them. A small corpus comes whole, several times,
    of a large one there are stretches at even distances; the documents that they cut weigh nothing.
    """
    corpus, total = problem.corpus, problem.epoch_tokens
    tokens = corpus.halves if corpus.words == 1 else corpus.halves.view(np.uint32)
    if total <= SAMPLED_TOKENS:
        begins = [*range(corpus.begin, corpus.end, STRETCH)] * min(MOST_TIMES, SAMPLED_TOKENS // total)
    else:
        begins = np.linspace(corpus.begin, corpus.end - STRETCH, SAMPLED_TOKENS // STRETCH, dtype=np.int64).tolist()
    for begin in begins:
        end = min(begin + STRETCH, corpus.end)
        first, last = np.searchsorted(corpus.documents, [begin, end])
        starts = corpus.documents[first:last] - begin
        yield tokens[begin:end], starts if len(starts) and starts[0] == 0 else np.concatenate([[0], starts])
