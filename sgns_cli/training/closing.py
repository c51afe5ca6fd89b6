"""What is said when a run has ended: the last record of --json, the notes, and a command that asks the run."""

import math
import os
import shlex
from collections.abc import Iterator
from pathlib import Path

from sgns_cli.training.run import Training
from sgns_cli.training.trainer import Progress

MOST_LOOKED_AT = 10_000  # tokens, for a word to give as an example


def summary(training: Training, *, tokenize_seconds: float, total_seconds: float) -> dict[str, object]:
    """The last record of `train --json`."""
    last = _last(training)
    return {
        "run": str(training.folder),
        "checkpoint": str(training.checkpoint),
        "loss": last.loss,
        "held_out_loss": last.held_out_loss,
        "tokens_per_second": last.tokens_per_second,
        "train_seconds": last.seconds,
        "tokenize_seconds": tokenize_seconds,
        "compile_seconds": training.compile_seconds,
        "total_seconds": total_seconds,
        "device": last.device,
        "threads": last.threads,
    }


def closing_notes(training: Training, *, tokenize_seconds: float, total_seconds: float) -> Iterator[str]:
    """For people: what was reached, in what time, and how to ask it or go on."""
    last = _last(training)
    if not training.complete:
        yield f"interrupted and saved at step {last.step:,} of {training.problem.total_rounds:,}: --resume goes on"
        return
    if training.start.complete:
        yield f"ask it: {query_command(training)}"
        return
    held_out = "" if last.held_out_loss is None else f", held-out loss {last.held_out_loss:.4f}"
    yield (
        f"{training.checkpoint} complete{held_out}; {total_seconds:.1f} s, of them tokenizing {tokenize_seconds:.1f}, "
        f"compiling {training.compile_seconds:.1f}, training {last.seconds:.1f} at "
        f"{last.tokens_per_second:,.0f} tokens/s"
    )
    if training.problem.total_rounds and not training.trained_pairs and not training.start.state:
        yield (
            "no pair of tokens was trained, so the vectors are the random start: no token that was kept has "
            "another one in its document. Give more text, or set model.subsample_threshold to 0"
        )
    ignorant = (training.config.model.negatives + 1) * math.log(2)  # the loss where every chance is said to be a half
    reached = last.loss if last.held_out_loss is None else last.held_out_loss
    if reached is not None and reached > ignorant:
        yield (
            f"a loss of {reached:.4g} is above the {ignorant:.4f} of vectors that know nothing: lower "
            f"train.learning_rate, which is {training.config.train.learning_rate:g}"
        )
    yield f"ask it: {query_command(training)}"


def query_command(training: Training) -> str:
    """A query that finds this run: --model is left out only where the run would be found without it."""
    latest_of_runs = training.folder.resolve().parent == Path("runs").resolve() and not os.environ.get("SGNS_MODEL")
    model = "" if latest_of_runs else f" --model {shlex.quote(str(training.folder))}"
    return f"sgns neighbors {_example(training)}{model}"


def _example(training: Training) -> str:
    """A trained token to ask for: past the most frequent ones a word of five letters or more, else any."""
    ids = [int(token_id) for token_id in training.problem.vocabulary.ids]
    texts = [_text_of(training, token_id) for token_id in (ids[len(ids) // 20 :] + ids)[:MOST_LOOKED_AT]]
    words = [text for text in texts if text.isalpha() and len(text) > 4]
    others = [text for text in texts if text and text.isprintable() and not text.startswith("-")]
    return shlex.quote([*words, *others][0]) if words or others else f"--id {ids[0]}"


def _text_of(training: Training, token_id: int) -> str:
    """A token as somebody would type it, empty if that is not possible."""
    token = (training.tokenizer.token_bytes(token_id) or b"").strip(b" ")
    try:
        return token.decode()
    except UnicodeDecodeError:
        return ""


def _last(training: Training) -> Progress:
    if training.last is None:
        raise ValueError("the run has not begun: loop over progress() first")
    return training.last
