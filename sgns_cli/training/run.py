"""A run from its config and a token folder to its steps on disk: `prepare_run`, then loop over `Training.progress()`.

Writes config.yaml, tokenizer and metrics.jsonl, and hands the loop (trainer.py) its engine and its way to save
(checkpoint.py). What a run may start from is start.py's business, whether there is room for it room.py's. `set_up` is
what a run and its estimate (estimate.py) have in common.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from sgns_cli import run_folder
from sgns_cli.config import DEFAULT_ENCODING, Config, TokenizerConfig
from sgns_cli.corpus.token_store import TokenStore
from sgns_cli.corpus.tokenizer import Tokenizer
from sgns_cli.errors import SgnsError
from sgns_cli.files import checksum
from sgns_cli.folders import (
    AGAIN,
    INCOMPLETE,
    discard,
    incomplete_name,
    make_folder,
    publish_folder,
    replace_folder,
    writing,
)
from sgns_cli.locks import locked
from sgns_cli.run_config import write_run_config
from sgns_cli.training.checkpoint import append_metrics, remove_old_steps, save_step, seal_metrics, trim_metrics
from sgns_cli.training.compiled import is_kept
from sgns_cli.training.device import choose_device
from sgns_cli.training.engine import Engine, Matrices
from sgns_cli.training.engines import make_engine, must_compile, notes_of, round_centres, useful_threads
from sgns_cli.training.joint import Work, lead
from sgns_cli.training.problem import Problem, make_problem
from sgns_cli.training.ranks import ALONE, Group, Place
from sgns_cli.training.room import Needs, check_disk, check_memory
from sgns_cli.training.shares import MOST_PROCESSES, joint_problem, share_of
from sgns_cli.training.start import Request, Start, check_start, find_start, load_matrices, run_directory
from sgns_cli.training.trainer import Pace, Progress, Saved, train

METRICS_OF_STEP = ("loss", "held_out_loss", "tokens_per_second", "seconds")  # of a report, kept in state.json


@dataclass
class Training:
    """A run that is ready to go. `notes` are for people; `folder` is where its steps appear."""

    config: Config
    problem: Problem
    tokenizer: Tokenizer
    start: Start
    matrices: Matrices  # to start with; training changes them
    device: str
    threads: int  # of the CPU; they change no byte of the result
    tokens: Path  # the token folder
    facts: dict[str, Any]  # for state.json
    folder: Path
    new: bool  # whether the folder was made for this run
    replaces: Path | None  # the run whose place `folder` takes when its first step is complete
    held: ExitStack  # the lock of the run folder
    group: Group | None = None  # where several processes train it together
    notes: list[str] = field(default_factory=list)
    compile_seconds: float = 0.0
    checkpoint: Path | None = None
    last: Progress | None = None
    trained_pairs: bool = False

    def progress(self, stopped: Callable[[], bool] = lambda: False) -> Iterator[Progress]:
        """Train; yields each report once it is in metrics.jsonl, and checkpoints on the way and at the end.

        A run that was complete before yields nothing. If it fails before its first step is complete, a new run folder
        is removed again, so that the same command can be given anew.
        """
        with self.held:
            if self.start.state:
                self._recall(self.start.state)
            if self.start.complete:
                return
            try:
                yield from self._train(stopped)
            except BaseException as error:
                if self.new and not run_folder.steps(self.folder):
                    discard(self.folder)
                if (failure := self._failure(error)) is None:
                    raise
                raise failure from error

    def _failure(self, error: BaseException) -> SgnsError | None:
        """What failed, with the checkpoint that is left and how to go on; None where that is not known."""
        if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":  # torch's, of a GPU
            error = SgnsError("not enough memory", "lower model.dim, raise model.min_count, or use a larger machine")
        if not isinstance(error, SgnsError):
            return None
        left = f"; the last good checkpoint is {self.checkpoint}" if self.checkpoint else ""
        hint = (
            error.hint.replace(AGAIN, f"{AGAIN} with --resume") if run_folder.is_run_folder(self.folder) else error.hint
        )
        return type(error)(error.message + left, hint)

    def _train(self, stopped: Callable[[], bool]) -> Iterator[Progress]:
        engine, asked = self._start_engine(stopped)

        def save(record: Progress) -> None:
            self._report(record)  # first: a step that is there has its line, whatever happens
            self._save(record, engine.matrices())

        reports = train(
            self.problem,
            engine,
            Saved(self.start.step, self.last.seconds if self.last else 0.0, reported=self.last is not None),
            pace=Pace(self.config.run.log_seconds, self.config.run.checkpoint_minutes),
            save=save,
            stopped=asked,
        )
        for record in reports:
            if record is not self.last:
                self._report(record)
            yield record

    def _report(self, record: Progress) -> None:
        append_metrics(self.folder / run_folder.METRICS, asdict(record))
        self.last = record
        self.trained_pairs |= record.loss is not None

    def _start_engine(self, stopped: Callable[[], bool]) -> tuple[Engine, Callable[[], bool]]:
        """The engine, and whether to stop: where several processes train together, any of them may be asked to."""
        problem, group = self.problem, self.group
        share = share_of(problem, 0, group.place.processes) if group else problem
        engine, self.compile_seconds = start_engine(share, self.matrices, self.device, self.threads)
        if group is None:
            return engine, stopped
        work = Work(self.config, self.tokens, self.facts["fingerprints"]["corpus"], problem.span, self.device)
        joint = lead(group, problem, engine, work, stopped)
        return joint, lambda: joint.asked_to_stop or stopped()

    @property
    def complete(self) -> bool:
        """Whether every round of the run is done."""
        return self.last is not None and self.last.step >= self.problem.total_rounds

    def _recall(self, state: dict[str, Any]) -> None:
        """Take what was reached from the step that the run goes on from."""
        self.checkpoint = self.folder / run_folder.step_name(self.start.step)
        try:
            metrics = {name: state["metrics"][name] for name in METRICS_OF_STEP}
        except (KeyError, TypeError) as error:
            raise SgnsError(
                f"{self.checkpoint / run_folder.STATE} is damaged: it has no metrics",
                f"remove {self.checkpoint} and resume from the step before it",
            ) from error
        self.last = Progress(
            step=self.start.step,
            epoch=min(self.start.step // self.problem.epoch_rounds + 1, self.problem.train.epochs),
            tokens_seen=self.problem.tokens_seen(self.start.step),
            tokens_total=self.problem.total_tokens,
            learning_rate=self.problem.learning_rate(self.start.step),
            device=self.device,
            threads=self.threads,
            **metrics,
        )

    def _save(self, record: Progress, matrices: Matrices) -> None:
        metrics = {name: getattr(record, name) for name in METRICS_OF_STEP}
        facts = {**self.facts, "log": seal_metrics(self.folder / run_folder.METRICS)}
        self.checkpoint = save_step(self.folder, record.step, self.problem, matrices, facts=facts, metrics=metrics)
        if self.replaces is not None:
            with writing(self.replaces):
                replace_folder(self.folder, self.replaces)
            self.folder, self.replaces = self.replaces, None
            self.checkpoint = self.folder / self.checkpoint.name
        remove_old_steps(self.folder, self.config.run.keep_checkpoints)


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


def prepare_run(
    config: Config,
    store: TokenStore,
    *,
    request: Request | None = None,
    device: str = "auto",
    threads: int = 1,
    group: Group | None = None,
) -> Training:
    """Make a run ready: problem, matrices, and a run folder with config and tokenizer in it, held for this process,
    which leads the `group` where there is one.

    Raises SgnsError for what cannot be trained, resumed or written, or has no room.
    """
    request = request or Request()
    folder = run_directory(config)
    setup = set_up(config, store, device=device, threads=threads, place=group.place if group else ALONE)
    tokenizer = setup.tokenizer
    facts = {"fingerprints": setup.fingerprints, "lowercase": store.meta["options"]["lowercase"]}
    facts |= {"processes": setup.place.processes} if group else {}
    with ExitStack() as holding:
        holding.enter_context(locked(folder))
        check_start(config, request)
        start, _, problem = setup.find_start(request)
        matrices, more_notes = load_matrices(start, problem, tokenizer)
        new = run_folder.is_unused(folder)
        replaces = folder if request.overwrite and not new else None
        place = incomplete_name(folder) if replaces else folder
        with writing(place):
            discard(incomplete_name(folder))
            appears = not replaces and not folder.exists()  # whole at once; one that is there may be where we stand
            with publish_folder(folder) if appears else nullcontext(place) as there:
                facts["tokenizer"] = _write_run_folder(there, config, tokenizer, start)
        held = holding.pop_all()
    return Training(
        config,
        problem,
        tokenizer,
        start,
        matrices,
        setup.device,
        setup.threads,
        store.folder.resolve(),
        facts,
        folder=place,
        new=new or replaces is not None,
        replaces=replaces,
        held=held,
        group=group,
        notes=[*setup.notes, *start.notes, *more_notes],
    )


def _write_run_folder(folder: Path, config: Config, tokenizer: Tokenizer, start: Start) -> dict[str, str]:
    """Write all that is beside the steps; returns the checksums of the tokenizer's files by name."""
    make_folder(folder)
    for debris in folder.glob(f".*{INCOMPLETE}"):
        discard(debris)
    write_run_config(folder, _resolved(config, tokenizer))
    with publish_folder(folder / run_folder.TOKENIZER, overwrite=True) as hidden:
        tokenizer.save(hidden)
        checksums = {file.name: checksum(file) for file in sorted(hidden.iterdir())}
    trim_metrics(folder / run_folder.METRICS, start.step if start.state else -1)
    remove_old_steps(folder, config.run.keep_checkpoints)
    return checksums


def _resolved(config: Config, tokenizer: Tokenizer) -> Config:
    """The config with its tokenizer named, where it left the choice to the default."""
    if config.tokenizer.train or config.tokenizer.encoding or tokenizer.name != DEFAULT_ENCODING:
        return config
    return config.model_copy(update={"tokenizer": TokenizerConfig(encoding=DEFAULT_ENCODING)})
