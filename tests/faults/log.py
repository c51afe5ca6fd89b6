"""Whether metrics.jsonl of a run that has ended tells all of it once: no gap, no repetition, along the schedule."""

import json
import math
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from sgns_cli import run_folder
from sgns_cli.config_file import load_config

Record = dict[str, Any]


def log_faults(run: Path, *, longest: float = math.inf, resumed: list[int] | None = None) -> list[str]:
    """What is wrong with the lines: none if they are as those of one undisturbed training.

    `longest` are the seconds of training that may lie between two lines; `resumed` the steps that it was resumed from,
    each of which has to have its line.
    """
    lines = (run / run_folder.METRICS).read_text(encoding="utf-8").split("\n")
    if lines.pop() != "":
        return ["the last line is cut short"]
    records = [json.loads(line) for line in lines]
    state = run_folder.read_state(run_folder.steps(run)[-1])
    return list(_faults(records, state, run, longest, resumed or []))


def _faults(records: list[Record], state: Record, run: Path, longest: float, resumed: list[int]) -> Iterator[str]:
    config = load_config(run / run_folder.CONFIG, []).train
    span, epochs = int(state["round_tokens"]), config.epochs
    epoch_tokens = int(state["tokens_total"]) // epochs
    epoch_rounds = math.ceil(epoch_tokens / span)
    for before, after in pairwise(records):
        if after["step"] <= before["step"]:
            yield f"step {after['step']} comes after step {before['step']}"
        if after["seconds"] < before["seconds"]:
            yield f"step {after['step']}: its {after['seconds']} s are fewer than the {before['seconds']} s before it"
        if after["seconds"] - before["seconds"] > longest:
            yield f"nothing is told of {after['seconds'] - before['seconds']:.1f} s before step {after['step']}"
    for record in records:
        epoch, rounds = divmod(record["step"], epoch_rounds)
        seen = epoch * epoch_tokens + min(rounds * span, epoch_tokens)
        if (record["tokens_seen"], record["tokens_total"]) != (seen, state["tokens_total"]):
            yield f"step {record['step']}: tokens_seen is {record['tokens_seen']}, and the rounds make {seen}"
        rate = max(config.final_learning_rate, config.learning_rate * (1 - seen / state["tokens_total"]))
        if not math.isclose(record["learning_rate"], rate, rel_tol=1e-6):
            yield f"step {record['step']}: learning_rate is {record['learning_rate']}, the schedule has {rate}"
    told = {record["step"] for record in records}
    yield from (f"step {step} was saved, and has no line" for step in [*resumed, state["step"]] if step not in told)
    if records and records[-1]["step"] != state["step"]:
        yield f"the last line is of step {records[-1]['step']}, the last step is {state['step']}"
