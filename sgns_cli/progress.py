"""Reports of training and of tokenizing as one line each, for people: how far, how fast, how long still.

Where the line is drawn, and how often, is console.py's business.
"""

from dataclasses import dataclass
from typing import Protocol


class TrainingReport(Protocol):
    """What training_progress shows."""

    @property
    def epoch(self) -> int: ...
    @property
    def tokens_seen(self) -> int: ...
    @property
    def tokens_total(self) -> int: ...
    @property
    def loss(self) -> float | None: ...
    @property
    def learning_rate(self) -> float: ...
    @property
    def tokens_per_second(self) -> float: ...


class TokenizeReport(Protocol):
    """What tokenize_progress shows; `bytes_total` is None where the size is not known (stdin, a hub)."""

    @property
    def stage(self) -> str: ...
    @property
    def tokens(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    @property
    def bytes_total(self) -> int | None: ...
    @property
    def seconds(self) -> float: ...


@dataclass(frozen=True)
class Stage:
    """How far something has come: what is done, the part of it done (None: unknown), and the numbers."""

    doing: str
    part: float | None
    numbers: str

    @property
    def line(self) -> str:
        """All of it in one line."""
        return f"{self.doing} {self.numbers}"

    @property
    def short(self) -> str:
        """What fits beside a bar on a narrow terminal."""
        return self.numbers.replace("learning rate", "lr")


def training_stage(report: TrainingReport) -> Stage:
    """How far training has come."""
    part = report.tokens_seen / report.tokens_total if report.tokens_total else 1.0
    words = [
        f"{part:4.0%}",
        f"epoch {report.epoch}",
        amount(report.tokens_per_second, "tokens/s"),
        "loss -" if report.loss is None else f"loss {report.loss:.3f}",
        f"learning rate {report.learning_rate:.4f}",
    ]
    if report.tokens_per_second > 0:
        words.append(f"{_duration((report.tokens_total - report.tokens_seen) / report.tokens_per_second)} left")
    return Stage("training", part, "  ".join(words))


def tokenize_stage(report: TokenizeReport) -> Stage:
    """How far tokenizing has come, or the training of a tokenizer before it."""
    if report.stage == "waiting":
        return Stage("waiting", None, "for another process that tokenizes the same corpus")
    if report.stage == "merging":  # the trainer does not say how far it is
        return Stage("training the tokenizer", None, f"on {amount(report.bytes, 'B')}")
    part = min(1.0, report.bytes / report.bytes_total) if report.bytes_total else None
    words = [] if part is None else [f"{part:4.0%}"]
    words.append(amount(report.bytes, "B"))
    if report.seconds > 0:
        words.append(amount(report.bytes / report.seconds, "B/s"))
        if report.stage == "tokens":
            words.append(amount(report.tokens / report.seconds, "tokens/s"))
        if part:
            words.append(f"{_duration(report.seconds / part - report.seconds)} left")
    return Stage("tokenizing" if report.stage == "tokens" else "reading", part, "  ".join(words))


def amount(value: float, unit: str) -> str:
    """1234567 tokens -> "1.23 M tokens"; bytes stick to their prefix: "4.14 MB"."""
    for limit, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= limit:
            return f"{value / limit:.3g} {prefix}{'' if unit.startswith('B') else ' '}{unit}"
    return f"{value:.0f} {unit}"


def _duration(seconds: float) -> str:
    """75 -> "1 m 15 s"."""
    minutes, rest = divmod(round(max(0.0, seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} m"
    return f"{minutes} m {rest} s" if minutes else f"{rest} s"
