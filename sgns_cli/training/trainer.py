"""The loop: rounds through an engine, a Progress record at each report, a checkpoint when it is time.

A generator. The command line draws its records, tests assert on them, a notebook loops over them; it knows nothing of
terminals or files. Where it stops and starts again changes nothing in the result: every draw follows from the step.
"""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sgns_cli.errors import SgnsError
from sgns_cli.training.engine import Engine
from sgns_cli.training.problem import Problem

SLICE_SECONDS = 0.1  # between looks at the clock and at a request to stop


@dataclass(frozen=True)
class Progress:
    """A report. Losses are means a pair: `loss` over the rounds since the last report, before their steps."""

    step: int  # rounds done
    epoch: int  # at hand, from 1; 0 if there is none
    tokens_seen: int  # corpus tokens passed, over all epochs, before anything is dropped
    tokens_total: int
    loss: float | None  # None if no pair was trained
    held_out_loss: float | None  # when new
    learning_rate: float
    tokens_per_second: float  # tokens_seen over seconds
    seconds: float  # in the rounds, those before a resume too; not in held-out losses and checkpoints
    device: str
    threads: int


@dataclass(frozen=True)
class Saved:
    """Where a run goes on: the rounds done, and the seconds that they took."""

    step: int = 0
    seconds: float = 0.0
    reported: bool = False  # whether the step is saved, and its report written


@dataclass(frozen=True)
class Pace:
    """When to report and when to save."""

    log_seconds: float
    checkpoint_minutes: float


def train(
    problem: Problem,
    engine: Engine,
    origin: Saved,
    *,
    pace: Pace,
    save: Callable[[Progress], None],
    stopped: Callable[[], bool] = lambda: False,
) -> Iterator[Progress]:
    """Train from `origin` on to the end, or until `stopped()`; every record that ends a stretch is saved first.

    `save` is called with the record of the step to save: at each checkpoint interval, when stopped, and at the end.
    Where nothing was done there is no record.
    Raises SgnsError if the loss is no longer a number; nothing is saved then.
    """
    step, seconds = origin.step, origin.seconds
    loss, pairs = 0.0, 0
    reported = saved = time.monotonic()
    evaluated_epoch = step // problem.epoch_rounds
    rounds = 1  # in a slice
    while True:
        done = step >= problem.total_rounds
        halt = done or stopped()
        known = origin.reported and step == origin.step  # nothing was done since
        if halt and known:
            return
        now = time.monotonic()
        checkpoint = halt or now - saved >= pace.checkpoint_minutes * 60
        if not known and (checkpoint or now - reported >= pace.log_seconds):
            held_out = None
            if halt or step // problem.epoch_rounds > evaluated_epoch:
                evaluated_epoch = step // problem.epoch_rounds
                held_out = _mean(*engine.evaluate())
            record = Progress(
                step=step,
                epoch=min(step // problem.epoch_rounds + 1, problem.train.epochs),
                tokens_seen=problem.tokens_seen(step),
                tokens_total=problem.total_tokens,
                loss=_mean(loss, pairs),
                held_out_loss=held_out,
                learning_rate=problem.learning_rate(step),
                tokens_per_second=problem.tokens_seen(step) / max(seconds, 1e-9),
                seconds=seconds,
                device=engine.device,
                threads=engine.threads,
            )
            _check(record)
            if checkpoint:
                save(record)
                saved = time.monotonic()
            yield record
            loss, pairs, reported = 0.0, 0, time.monotonic()
        if halt:
            return
        epoch, round_ = divmod(step, problem.epoch_rounds)
        count = min(-(-rounds // engine.stride) * engine.stride, problem.epoch_rounds - round_)
        start = round_ * problem.span
        began = time.perf_counter()
        more, new_pairs = engine.train(epoch, start, min(start + count * problem.span, problem.epoch_tokens))
        took = time.perf_counter() - began
        seconds += took
        loss, pairs, step = loss + more, pairs + new_pairs, step + count
        rounds = max(1, round(count * min(4.0, SLICE_SECONDS / max(took, 1e-6))))


def _mean(loss: float, pairs: int) -> float | None:
    return loss / pairs if pairs else None


def _check(record: Progress) -> None:
    for loss in (record.loss, record.held_out_loss):
        if loss is not None and not math.isfinite(loss):
            raise diverged(f"the loss is {loss} at step {record.step} (learning rate {record.learning_rate:g})")


def diverged(what: str) -> SgnsError:
    """Training has gone where no number can follow."""
    return SgnsError(
        f"{what}: training diverged",
        "lower train.learning_rate and train again; checkpoints before this one are as they were",
    )
