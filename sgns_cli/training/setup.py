"""What a config and a token folder make together: the problem, who solves it, where it starts, whether there is room.

What a run (run.py) and its estimate (estimate.py) have in common. Nothing is written here.
"""

import time
from dataclasses import dataclass, replace

from sgns_cli.config import Config
from sgns_cli.corpus.token_store import TokenStore
from sgns_cli.corpus.tokenizer import Tokenizer
from sgns_cli.training.compiled import is_kept
from sgns_cli.training.device import choose_device
from sgns_cli.training.engine import Engine, Matrices
from sgns_cli.training.engines import make_engine, must_compile, notes_of, round_centres, useful_threads
from sgns_cli.training.problem import Problem, make_problem
from sgns_cli.training.ranks import ALONE, Place
from sgns_cli.training.room import Needs, check_disk, check_memory
from sgns_cli.training.shares import MOST_PROCESSES, joint_problem
from sgns_cli.training.start import Request, Start, find_start, run_directory


@dataclass(frozen=True)
class Setup:
    """What a run is made of, before anything large is allocated. `notes` are for people."""

    config: Config
    problem: Problem
    tokenizer: Tokenizer
    fingerprints: dict[str, str]
    device: str
    threads: int
    notes: list[str]
    place: Place

    def find_start(self, request: Request) -> tuple[Start, Needs, Problem]:
        """Where the run starts, what it needs there, and the problem with the rounds that it was begun with.

        Raises SgnsError if that may not be or has no room.
        """
        processes = self.place.processes
        start = find_start(self.config, self.problem, self.fingerprints, request, processes=processes)
        problem = start.problem(self.problem)
        compiles = not start.complete and must_compile(self.device)
        adopts, here = start.adopts is not None, self.place.local_processes
        needs = Needs(self.device, self.threads, adopts=adopts, compiles=compiles, processes=here)
        if not start.complete:
            fixed = ["model.dim", "model.min_count"] if start.resumes else ["model.dim"] if start.adopts else []
            check_memory(problem, needs, fixed=fixed)
            check_disk(problem, self.config.run, run_directory(self.config), fixed=fixed)
        if compiles:
            when = "once" if is_kept() else "in each run, as no cache folder can be written to"
            note = f"compiling the kernel for this processor, {when}: some ten seconds, for which Ctrl-C waits"
            start = replace(start, notes=[*start.notes, note])
        return start, needs, problem


def set_up(config: Config, store: TokenStore, *, device: str = "auto", threads: int = 1, place: Place = ALONE) -> Setup:
    """The problem that a config and a token folder make, and who is to solve it. Raises SgnsError if there is none."""
    device = choose_device(device)
    asked, threads = threads, useful_threads(device, threads)
    tokenizer = store.tokenizer()
    centres = round_centres(device)
    problem = make_problem(
        store.tokens, store.documents, store.counts, config.model, config.train, round_centres=centres
    )
    fingerprints = {"corpus": store.fingerprint, "tokenizer": tokenizer.fingerprint}
    notes = [*store.meta["notes"], *notes_of(device)]
    if place.processes > 1:
        problem = joint_problem(problem, place.processes)
        notes.append(f"{place.processes} processes train together, threads of each: {threads}")
        if place.processes > MOST_PROCESSES:
            worse = f"more than {MOST_PROCESSES} processes train worse, on little text much worse (docs/scaling.md)"
            notes.append(f"{worse}: compare the held-out loss with that of fewer")
    if device == "cpu" and not config.train.deterministic:
        notes.append("train.deterministic: false changes nothing: training on the CPU is always deterministic")
    if device == "cpu" and threads < asked:
        notes.append(f"training uses {threads} of {asked} threads: a round has no work for more")
    return Setup(config, problem, tokenizer, fingerprints, device, threads, notes, place)


def start_engine(problem: Problem, matrices: Matrices, device: str, threads: int) -> tuple[Engine, float]:
    """The engine ready to train, and the seconds that it took, most of them where the kernel had to be compiled."""
    began = time.perf_counter()
    engine = make_engine(problem, matrices, device, threads)
    engine.train(0, 0, 0)  # compiles
    return engine, time.perf_counter() - began
