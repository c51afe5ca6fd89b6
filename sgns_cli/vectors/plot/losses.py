"""The losses of a run, from its metrics.jsonl: read and checked, as records, and where its epochs end.

How they are drawn is loss_picture.py's and loss_page.py's.
"""

import json
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sgns_cli.errors import SgnsError
from sgns_cli.run_config import load_run_config
from sgns_cli.run_folder import METRICS, read_metrics, steps
from sgns_cli.vectors.records import Record

WHOLE = ("step", "epoch", "tokens_seen", "tokens_total")
MAY_BE_NULL = ("loss", "held_out_loss")
MOST_MARKS = 20  # of epochs


@dataclass(frozen=True)
class Report:
    """A line of metrics.jsonl; a loss is None where there was nothing new to say."""

    step: int
    epoch: int
    tokens_seen: int
    loss: float | None
    held_out_loss: float | None
    learning_rate: float


@dataclass(frozen=True)
class Losses:
    """The reports of a run in order, at least one; `epoch_ends` are the tokens seen at the end of each epoch done."""

    run: Path
    reports: list[Report]
    epoch_ends: list[float]

    @property
    def epoch_marks(self) -> list[tuple[int, float]]:
        """Epochs from 1 and their ends: all of them, or every n-th where they are many."""
        step = math.ceil(len(self.epoch_ends) / MOST_MARKS) or 1
        return list(enumerate(self.epoch_ends, start=1))[step - 1 :: step]

    @property
    def title(self) -> str:
        return f"Loss of {self.run}"

    @property
    def summary(self) -> str:
        number, seen = len(self.reports), self.reports[-1].tokens_seen
        return f"{number:,} report{'' if number == 1 else 's'}, {seen:,} tokens seen"

    @property
    def subtitle(self) -> str:
        held_out = [report.held_out_loss for report in self.reports if report.held_out_loss is not None]
        return f"{self.summary}" + (f" · held-out loss {held_out[-1]:.3f}" if held_out else "")


def read_losses(path: Path) -> Losses:
    """The losses of the run that `path` is, or of whose steps it is one. Raises SgnsError if they cannot be read."""
    run = path if (path / METRICS).is_file() else path.parent
    file = run / METRICS
    if path.is_file() or not file.is_file():
        raise SgnsError(f"{path} has no losses: it is no run of sgns", "name a run with --model, or train one")
    text = read_metrics(run, next(reversed(steps(run)), None))
    lines = text.splitlines()
    if lines and not text.endswith("\n"):
        lines.pop()  # being written just now, or the writer was killed at it
    if not lines:
        raise SgnsError(f"{file} has no reports", "wait for the first, or train the run again")
    reports: list[Report] = []
    total = 0
    for number, line in enumerate(lines, start=1):
        record = _record(line)
        if record is None:
            raise _damaged(file, number, "it is no report")
        total = record.pop("tokens_total")
        report = Report(**record)
        if reports and report.step < reports[-1].step:
            raise _damaged(file, number, f"step {report.step} after step {reports[-1].step}")
        reports.append(report)
    epochs = load_run_config(run).train.epochs
    ends = [total * epoch / epochs for epoch in range(1, epochs + 1)]
    return Losses(run, reports, [end for end in ends if end <= reports[-1].tokens_seen])


def loss_records(losses: Losses) -> Iterator[Record]:
    """One record a report."""
    return map(asdict, losses.reports)


def _damaged(file: Path, line: int, why: str) -> SgnsError:
    return SgnsError(f"{file}, line {line} is damaged: {why}", "remove the line, or train the run again")


def _record(line: str) -> dict[str, Any] | None:
    """The fields of a report, or None if the line is none."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    record = {name: found.get(name) for name in (*WHOLE, *MAY_BE_NULL, "learning_rate")}
    for name, value in record.items():
        if value is None and name in MAY_BE_NULL:
            continue
        if type(value) is not int and (name in WHOLE or type(value) is not float or not math.isfinite(value)):
            return None
    return record
