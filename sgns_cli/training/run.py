"""A run from its config and a token folder to its steps on disk: `prepare_run`, then loop over `Training.progress()`.

Writes config.yaml, tokenizer and metrics.jsonl, and hands the loop (trainer.py) its engine and its way to save
(checkpoint.py). What is decided before anything is written is setup.py's business, with start.py and room.py.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from sgns_cli import run_folder
from sgns_cli.config import DEFAULT_ENCODING, Config, TokenizerConfig
from sgns_cli.corpus.token_store import TokenStore
from sgns_cli.corpus.tokenizer import Tokenizer
from sgns_cli.errors import SgnsError
from sgns_cli.files import MOST_TOKENIZER, changed_file, checksum
from sgns_cli.folders import (
    AGAIN,
    discard,
    incomplete_name,
    is_incomplete,
    make_folder,
    publish_folder,
    put_back,
    replace_folder,
    writing,
)
from sgns_cli.locks import locked
from sgns_cli.run_config import write_run_config
from sgns_cli.training.checkpoint import append_metrics, remove_old_steps, save_step, seal_metrics, trim_metrics
from sgns_cli.training.engine import Engine, Matrices
from sgns_cli.training.joint import Work, lead
from sgns_cli.training.problem import Problem
from sgns_cli.training.ranks import ALONE, Group
from sgns_cli.training.setup import set_up, start_engine
from sgns_cli.training.shares import share_of
from sgns_cli.training.start import Request, Start, check_start, config_fingerprint, load_matrices, run_directory
from sgns_cli.training.trainer import Pace, Progress, Saved, train

RESUME = "go on with --resume"
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
    tokens: TokenStore
    facts: dict[str, Any]  # for state.json
    folder: Path
    new: bool  # whether the folder was made for this run
    replaces: Path | None  # whose place `folder` takes when its first step is complete
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
                if self.replaces or (self.new and not run_folder.steps(self.folder)):
                    discard(self.folder)
                if (failure := self._failure(error)) is None:
                    raise
                raise failure from error

    def _failure(self, error: BaseException) -> SgnsError | None:
        """What failed, with the checkpoint that is left and how to go on; None where that is not known."""
        if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":  # torch's, of a GPU
            smaller = "lower model.dim, raise model.min_count, or use a larger machine"
            larger = "free some memory, or go to a larger machine, then go on with --resume"
            error = SgnsError("not enough memory", larger if self.checkpoint else smaller)
        if not isinstance(error, SgnsError):
            return None
        if self.replaces:
            old = f"; {self.replaces} is as it was" if self.replaces.exists() else ""
            return type(error)(error.message + old, error.hint)
        left = f"; the last good checkpoint is {self.checkpoint}" if self.checkpoint else ""
        there = run_folder.is_run_folder(self.folder)
        return type(error)(error.message + left, error.hint.replace(AGAIN, RESUME) if there else error.hint)

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
        work = Work(
            self.config, self.tokens.folder.resolve(), self.facts["fingerprints"]["corpus"], problem.span, self.device
        )
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
        self.tokens.check_unchanged()
        metrics = {name: getattr(record, name) for name in METRICS_OF_STEP}
        facts = {**self.facts, "log": seal_metrics(self.folder / run_folder.METRICS)}
        save_step(self.folder, record.step, self.problem, matrices, facts=facts, metrics=metrics)
        if self.replaces is not None:
            with writing(self.replaces):
                replace_folder(self.folder, self.replaces)
            self.folder, self.replaces = self.replaces, None
        self.checkpoint = self.folder / run_folder.step_name(record.step)
        remove_old_steps(self.folder, self.config.run.keep_checkpoints)


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
    fingerprints = {**setup.fingerprints, "config": config_fingerprint(config)}
    facts = {"fingerprints": fingerprints, "lowercase": store.meta["options"]["lowercase"]}
    facts |= {"processes": setup.place.processes} if group else {}
    with ExitStack() as holding:
        holding.enter_context(locked(folder))
        with writing(folder):
            put_back(folder)
        check_start(config, request)
        start, _, problem = setup.find_start(request)
        matrices, more_notes = load_matrices(start, problem, tokenizer)
        new = run_folder.is_unused(folder)
        # One that begins with vectors of another run is not seen without a step either: --resume would begin without.
        replaces = folder if start.adopts or (request.overwrite and not new) else None
        place = incomplete_name(folder) if replaces else folder
        if start.complete:
            _tidy(folder, config)
        else:
            facts["tokenizer"] = _make_run_folder(place, config, tokenizer, start)
        held = holding.pop_all()
    return Training(
        config,
        problem,
        tokenizer,
        start,
        matrices,
        setup.device,
        setup.threads,
        store,
        facts,
        folder=place,
        new=new or replaces is not None,
        replaces=replaces,
        held=held,
        group=group,
        notes=[*setup.notes, *start.notes, *more_notes],
    )


def _make_run_folder(folder: Path, config: Config, tokenizer: Tokenizer, start: Start) -> dict[str, str]:
    """Make the folder of a run, or go on with one, as far as it is written before the first step.

    Returns the SHA-256s of the tokenizer's files by name. Raises SgnsError if the disk refuses.
    """
    with writing(folder):
        if is_incomplete(folder):  # which is to take the place of another
            discard(folder)
            try:
                return _write_run_folder(folder, config, tokenizer, start)
            except BaseException:
                discard(folder)
                raise
        discard(incomplete_name(folder))
        if folder.exists():  # it may be where we stand
            return _write_run_folder(folder, config, tokenizer, start)
        with publish_folder(folder) as hidden:
            return _write_run_folder(hidden, config, tokenizer, start)


def _write_run_folder(folder: Path, config: Config, tokenizer: Tokenizer, start: Start) -> dict[str, str]:
    make_folder(folder)
    _tidy(folder, config)
    write_run_config(folder, _resolved(config, tokenizer))
    told: dict[str, str] = start.state.get("tokenizer", {}) if start.state else {}
    checked = told and changed_file(folder / run_folder.TOKENIZER, told, at_most=MOST_TOKENIZER) is None
    if not checked:  # else it stays: the steps that are there know it by these checksums
        with publish_folder(folder / run_folder.TOKENIZER, overwrite=True) as hidden:
            tokenizer.save(hidden)
            told = {file.name: checksum(file) for file in sorted(hidden.iterdir())}
    trim_metrics(folder, start.resumes)
    return told


def _tidy(folder: Path, config: Config) -> None:
    """Remove what a process left that was killed: hidden names, and steps that are too many."""
    for debris in filter(is_incomplete, folder.iterdir()):
        discard(debris)
    remove_old_steps(folder, config.run.keep_checkpoints)


def _resolved(config: Config, tokenizer: Tokenizer) -> Config:
    """The config with its tokenizer named, where it left the choice to the default."""
    if config.tokenizer.train or config.tokenizer.encoding or tokenizer.name != DEFAULT_ENCODING:
        return config
    return config.model_copy(update={"tokenizer": TokenizerConfig(encoding=DEFAULT_ENCODING)})
