"""Training by several processes: each does its share of every stretch of rounds, and then all have the same tables.

On rank 0 this is an engine like any other, so the loop (trainer.py), reports and checkpoints are those of one process;
the others `follow`. Between two stretches all tables are equal. So who saves when changes nothing, and a run resumes
from the tables of one process alone.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from sgns_cli.config import Config
from sgns_cli.corpus.token_store import open_token_store
from sgns_cli.errors import SgnsError
from sgns_cli.token_folder import is_token_folder
from sgns_cli.training.averaging import Averaging, Interval
from sgns_cli.training.draws import Corpus
from sgns_cli.training.engine import Engine, Floats, Matrices, empty_matrices
from sgns_cli.training.engines import make_engine, useful_threads
from sgns_cli.training.problem import Problem, make_problem
from sgns_cli.training.ranks import End, Group
from sgns_cli.training.room import Needs, check_device, check_memory
from sgns_cli.training.shares import all_rounds, intervals, share_of, share_rounds

if TYPE_CHECKING:
    from torch import Tensor

Stopped = Callable[[], bool]
NOT_SHARED = "let all machines see the same files, or tokenize on each to the same path and train from that folder"


@dataclass(frozen=True)
class Work:
    """What the leader gives out to be trained."""

    config: Config
    tokens: Path  # the token folder
    fingerprint: str  # of the corpus in it
    span: int  # corpus tokens of a round, over all processes
    device: str


@dataclass(frozen=True)
class Stretch:
    """Rounds to train next: the corpus tokens [start, stop) of an epoch."""

    epoch: int
    start: int
    stop: int


class Member:
    """What one process does in the training of all."""

    def __init__(self, group: Group, problem: Problem, engine: Engine) -> None:
        """`engine` trains the share of this process; its tables become those of the leader."""
        self._group, self._problem, self._engine = group, problem, engine
        self._share = share_of(problem, group.place.rank, group.place.processes)
        tables = engine.tables()
        with group.together():
            for table in tables.values():
                group.share(table)
        self.averaging = Averaging(self._share, tables, group.total)

    def train(self, stretch: Stretch, stopped: Stopped) -> tuple[float, int, bool]:
        """Train a stretch with the others: the losses and pairs of all, and whether any of them is asked to stop."""
        import torch

        sums = torch.zeros(3, dtype=torch.float64)
        with self._group.together():
            for intervals in self._intervals(stretch):
                self.averaging.prepare(stretch.epoch, intervals)
                for interval in intervals:
                    sums += torch.tensor([*self._train(stretch.epoch, interval), 0], dtype=torch.float64)
                    self.averaging.average()
            sums[2] = float(stopped())
            self._group.total(sums)
        loss, pairs, asked = sums.tolist()
        return loss, round(pairs), asked > 0

    def _intervals(self, stretch: Stretch) -> Iterator[list[Interval]]:
        """What to train between averages, as far as an average of all rows each time."""
        found: list[Interval] = []
        for start, stop, rows in intervals(self._problem, self._group.place.processes, stretch.start, stretch.stop):
            rates = self._problem.learning_rates(stretch.epoch, start, stop)
            found.append(Interval(*share_rounds(self._problem, self._share, start, stop), rates, rows))
            if rows is None:
                yield found
                found = []

    def _train(self, epoch: int, interval: Interval) -> tuple[float, int]:
        share, begin, end = self._share, interval.begin, interval.end
        if begin == end:
            return 0.0, 0
        return self._engine.run_rounds(share.corpus, share.train.seed, epoch, begin, end, interval.learning_rates)


class JointEngine(Engine):
    """The engine of the leader: it trains with all others."""

    def __init__(self, group: Group, problem: Problem, engine: Engine, stopped: Stopped) -> None:
        self.device, self.threads = engine.device, engine.threads
        self.stride = all_rounds(problem, group.place.processes)
        self._problem, self._engine, self._group, self._stopped = problem, engine, group, stopped
        self._member = Member(group, problem, engine)
        self.asked_to_stop = False

    def train(self, epoch: int, start: int, stop: int) -> tuple[float, int]:
        stretch = Stretch(epoch, start, stop)
        self._group.say(stretch)
        loss, pairs, self.asked_to_stop = self._member.train(stretch, self._stopped)
        return loss, pairs

    def matrices(self) -> Matrices:
        return self._engine.matrices()

    def tables(self) -> "dict[str, Tensor]":
        return self._engine.tables()

    def run_rounds(
        self, corpus: Corpus, seed: int, epoch: int, start: int, stop: int, rates: Floats
    ) -> tuple[float, int]:
        """Those of the held-out part: the leader runs them alone."""
        return self._engine.run_rounds(corpus, seed, epoch, start, stop, rates)


def lead(group: Group, problem: Problem, engine: Engine, work: Work, stopped: Stopped) -> JointEngine:
    """Give out the work, and wait until all processes are ready. Raises SgnsError if one of them cannot take part."""
    group.say(work)
    group.agree(None)
    return JointEngine(group, problem, engine, stopped)


def follow(group: Group, *, device: str, threads: int, stopped: Stopped) -> int:
    """Do what the leader says until it says the end; returns the exit code. Raises SgnsError for what fails here."""
    member: Member | None = None
    while True:
        said = group.hear()
        if isinstance(said, End):
            return said.code
        if isinstance(said, Work):
            member = _take_part(group, said, device, threads)
        elif member is not None:
            member.train(said, stopped)


def _take_part(group: Group, work: Work, device: str, threads: int) -> Member | None:
    """Make ready what is to be trained here; None if another process cannot, and the run is to end."""
    try:
        problem = _problem(group, work, device, threads)
        share = share_of(problem, group.place.rank, group.place.processes)
        engine = make_engine(share, empty_matrices(problem), device, useful_threads(device, threads))
        engine.train(0, 0, 0)  # compiles, or loads what the leader has compiled
    except SgnsError as error:
        group.agree(error)
        raise
    return Member(group, problem, engine) if group.agree(None) else None


def _problem(group: Group, work: Work, device: str, threads: int) -> Problem:
    """The problem as the leader has it. Raises SgnsError where the corpus is not the same, or there is no room."""
    if device.partition(":")[0] != work.device.partition(":")[0]:
        raise SgnsError(f"its device is {device}, and that of process 0 is {work.device}", "name one with --device")
    first_here = group.place.local_rank == 0
    if not is_token_folder(work.tokens):
        raise SgnsError(f"{work.tokens} is not there", NOT_SHARED)
    store = open_token_store(work.tokens, verify=first_here)
    if store.fingerprint != work.fingerprint:
        raise SgnsError(f"{work.tokens} holds other tokens than process 0 has", NOT_SHARED)
    config = work.config
    problem = make_problem(store.tokens, store.documents, store.counts, config.model, config.train)
    problem = replace(problem, span=work.span)
    needs = Needs(device, threads, processes=group.place.local_processes)
    if first_here:
        check_memory(problem, needs)
    else:
        check_device(problem, needs)
    return problem
