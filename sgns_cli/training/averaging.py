"""What makes one model of tables that processes have trained apart: each row takes what all of them did to it.

Where a row was touched little, the changes add up, as they would have one after another. Where it was touched much,
each process has gone most of the way by itself, and the way is averaged, weighted by touches. docs/algorithm.md has
the formula, and shares.py says when it is used.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sgns_cli.training.draws import count_kept
from sgns_cli.training.engine import PIECE
from sgns_cli.training.problem import Problem

if TYPE_CHECKING:
    import torch

BEND = 0.05  # the curvature of a row that a term of its gradient stands for: see bench/README.md
Tables = dict[str, "torch.Tensor"]
Counts = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Interval:
    """What a process trains between two averages: the tokens [begin, end) of the corpus."""

    begin: int
    end: int
    learning_rates: NDArray[np.float32]  # of its rounds
    rows: int | None  # how many of every table are then averaged: the first ones, or all


class Averaging:
    """Averages the tables of this process with those of the others, in place. They begin equal."""

    def __init__(self, share: Problem, tables: Tables, total: "Callable[[torch.Tensor], None]") -> None:
        """`total` replaces a tensor by its sum over all processes; every one of them must come to the same calls."""
        import torch

        self._share, self._names, self._total = share, list(tables), total
        self._tables = [(table, table.clone()) for table in tables.values()]  # and as it was last averaged
        pieces = [table[:PIECE] for table in tables.values()]
        self._changes = pieces[0].new_empty(sum(map(len, pieces)), pieces[0].shape[1], dtype=torch.bfloat16)
        self._room = self._changes.new_empty(max(map(len, pieces)), pieces[0].shape[1], dtype=torch.float32)
        self._prepared: deque[list[NDArray[np.float32]]] = deque()  # by average and table, the parts of changes [rows]
        self.sent = 0  # bytes that went into `total`
        rows, positions = share.vocabulary.rows, len(tables["positions"]) if "positions" in tables else 0
        self._by_row, self._by_position = np.zeros(rows, np.int64), np.zeros(positions, np.int64)
        self._kept = np.zeros(rows, np.int64)  # [R] by the row: all tokens kept since the row was averaged
        noise = share.vocabulary.counts[share.vocabulary.ids] ** share.model.noise_power
        self._noise: Floats = noise / noise.sum()
        self._count(0, share.corpus.begin, share.corpus.begin)  # compiles

    def prepare(self, epoch: int, intervals: Sequence[Interval]) -> None:
        """Count what training these intervals one after another will touch; after each comes an `average`.

        It follows from the draws alone. So all processes are asked once for many averages: a small message takes as
        long as a large one.
        """
        import torch

        own = []
        for interval in intervals:
            self._count(epoch, interval.begin, interval.end)
            own.append(self._touches(interval.rows))
            self._by_row[: interval.rows] = self._by_position[: interval.rows] = self._kept[: interval.rows] = 0
        every = torch.from_numpy(np.concatenate([touches for tables in own for touches in tables])).float()
        self._sum(every)
        totals, at = every.double().numpy(), 0
        for interval, tables in zip(intervals, own, strict=True):
            bend, parts = BEND * float(interval.learning_rates.mean(dtype=np.float64)), []
            for touches in tables:
                total = totals[at : at + len(touches)]
                at += len(touches)
                parts.append((_reach(bend * total) / _reach(bend * touches)).astype(np.float32))
            self._prepared.append(parts)

    def average(self) -> None:
        """Average the rows of every table that are next as prepared."""
        import torch

        device = self._changes.device
        parts = [torch.from_numpy(part).to(device)[:, None] for part in self._prepared.popleft()]
        for start in range(0, max(map(len, parts)), PIECE):
            self._average(start, [part[start : start + PIECE] for part in parts])

    def _count(self, epoch: int, start: int, stop: int) -> None:
        share = self._share
        before = self._by_row.sum()
        chances, seed = share.vocabulary.chances, share.train.seed
        count_kept(self._by_row, self._by_position, share.corpus, chances, seed, epoch, start, stop)
        self._kept += self._by_row.sum() - before

    def _touches(self, rows: int | None) -> list[Floats]:
        """How many terms of gradients this process had for the first rows of each table, as expected for negatives."""
        model = self._share.model
        pairs, terms = model.window + 1, 1 + model.negatives  # pairs of a kept token, far from its document's ends
        kept = self._by_row[:rows]
        negatives = model.negatives * self._noise[:rows] * self._kept[:rows]
        touches = {"vectors": terms * kept, "contexts": kept + negatives, "positions": terms * self._by_position[:rows]}
        return [pairs * touches[name].astype(np.float64) for name in self._names]

    def _average(self, start: int, parts: "list[torch.Tensor]") -> None:
        """Move the rows from `start` on by the sum of the parts of what each process changed them, [n, 1] a table."""
        import torch

        pieces, filled = [], 0
        for (table, base), part in zip(self._tables, parts, strict=True):
            rows, change = slice(start, start + len(part)), self._changes[filled : filled + len(part)]
            change.copy_(torch.sub(table[rows], base[rows], out=self._room[: len(part)]).mul_(part))
            pieces.append((table[rows], base[rows], change))
            filled += len(part)
        self._sum(self._changes[:filled])
        for table, base, change in pieces:
            base += change
            table.copy_(base)

    def _sum(self, tensor: "torch.Tensor") -> None:
        self.sent += tensor.numel() * tensor.element_size()
        self._total(tensor)


def _reach(touches: Floats) -> Floats:
    """(1 - exp(-t)) / t, 1 at zero: the share of t small steps towards a place that is left of them as it nears."""
    t = np.clip(touches, 1e-9, 1e9)
    reach: Floats = -np.expm1(-t) / t
    return reach
