"""What a run may start from: nothing, its own last step, the vectors of another run. And whether it may at all.

`check_start` refuses what can be refused before a corpus is read, `find_start` what can be before anything large is
allocated; `load_matrices` comes last.
"""

import hashlib
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sgns_cli import run_folder
from sgns_cli.config import Config
from sgns_cli.corpus.tokenizer import Tokenizer, load_tokenizer
from sgns_cli.errors import SgnsError
from sgns_cli.files import own_file, own_path
from sgns_cli.locks import locked
from sgns_cli.run_config import load_run_config
from sgns_cli.training.checkpoint import adopt_matrices, load_step
from sgns_cli.training.engine import Matrices, initial_matrices
from sgns_cli.training.problem import Problem


@dataclass(frozen=True)
class Request:
    """How a run is to start. `resume` goes with neither of the others."""

    resume: bool = False
    overwrite: bool = False
    init_from: Path | None = None


@dataclass(frozen=True)
class Start:
    """Where a run starts: at a step that it goes on from, which has a `state`, or at random but for what a step of
    another run has.
    """

    notes: list[str]
    resumes: Path | None = None
    state: dict[str, Any] | None = None
    complete: bool = False  # nothing is left to train
    adopts: Path | None = None

    @property
    def step(self) -> int:
        return int(self.state["step"]) if self.state else 0

    def problem(self, problem: Problem) -> Problem:
        """The problem with rounds of the length that they were begun with: on another device they may be longer."""
        return _with_rounds_of(problem, self.state) if self.state else problem


def run_directory(config: Config) -> Path:
    """run.directory, which the loader has filled in, as a path that has a name, and is no link: what it leads to may be
    replaced.
    """
    directory = Path(config.run.directory or "")
    return directory.resolve() if directory.name in ("", "..") or directory.is_symlink() else directory


def config_fingerprint(config: Config) -> str:
    """SHA-256 of what a config says of training, but for what may change when a run is resumed."""
    told = [config.model.model_dump(), config.train.model_dump(exclude={"epochs", "deterministic"})]
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def check_start(config: Config, request: Request) -> None:
    """Refuse a run directory that may not be used so, and a config that is not the one to resume. Raises SgnsError."""
    folder = run_directory(config)
    if request.init_from is not None:
        run_folder.resolve_step(request.init_from)
    if folder.exists() and not folder.is_dir():
        raise SgnsError(f"{folder} is a file, not a run folder", "choose another run.directory")
    if run_folder.is_unused(folder):
        return
    if not run_folder.is_run_folder(folder):
        raise SgnsError(
            f"{folder} is not empty and is no run folder", "choose another run.directory, or empty it yourself"
        )
    for entry in folder.iterdir():
        own_path(folder, entry.name)  # what is written through a link goes elsewhere
    for name in (run_folder.CONFIG, run_folder.METRICS):
        own_file(folder, name)
    if request.resume:
        _check_same_config(folder, config)
    elif not request.overwrite:
        raise SgnsError(
            f"the run folder {folder} is not empty",
            "add --resume to go on with it, --overwrite to replace it, or -o DIR to train elsewhere",
        )


def check_free(config: Config) -> None:
    """Refuse a run directory that another process is writing at this moment. Raises SgnsError."""
    folder = run_directory(config)
    if folder.parent.is_dir():  # else nobody is, and a refusal should leave nothing
        with locked(folder):
            pass


def find_start(
    config: Config, problem: Problem, fingerprints: dict[str, str], request: Request, *, processes: int = 1
) -> Start:
    """Where the run starts, and what people should know about it. Raises SgnsError as checks fail."""
    folder = run_directory(config)
    notes = []
    if request.resume:
        steps = run_folder.steps(folder)
        if steps:
            return _resume(folder, steps[-1], config, problem, fingerprints, processes)
        notes.append(f"{folder} has no complete step to resume: starting from the beginning")
    if request.init_from is None:
        return Start(notes)
    adopts = run_folder.resolve_step(request.init_from)
    dim = run_folder.read_state(adopts).get("dim")
    if dim != problem.model.dim:
        raise SgnsError(
            f"--init-from {adopts} has dim {dim}, this run has model.dim {problem.model.dim}", f"set model.dim to {dim}"
        )
    return Start(notes, adopts=adopts)


def load_matrices(start: Start, problem: Problem, tokenizer: Tokenizer) -> tuple[Matrices, list[str]]:
    """The matrices to start with, none for a complete run, and notes. Raises SgnsError for steps that do not fit."""
    if start.complete:
        return {}, []
    if start.resumes is not None:
        return load_step(start.resumes, problem), []
    if start.adopts is None:
        return initial_matrices(problem), []
    told = run_folder.read_state(start.adopts).get("tokenizer", {})
    old = load_tokenizer(own_path(start.adopts.parent, run_folder.TOKENIZER), checksums=told)
    matrices, taken = adopt_matrices(problem, tokenizer, start.adopts, old)
    rows = problem.vocabulary.rows
    return matrices, [f"{taken:,} of {rows:,} trained rows start from {start.adopts}, the others at random"]


def _resume(
    folder: Path, step: Path, config: Config, problem: Problem, fingerprints: dict[str, str], processes: int
) -> Start:
    state = run_folder.read_state(step)
    for name, fingerprint in fingerprints.items():
        if state.get("fingerprints", {}).get(name) != fingerprint:
            raise _cannot_resume(folder, f"the {name} is not the one it was started with", "restore it")
    if state.get("fingerprints", {}).get("config", config_fingerprint(config)) != config_fingerprint(config):
        raise _cannot_resume(folder, f"{step} is of a run with another config", f"remove {step}")
    problem = _with_rounds_of(problem, state)
    if state.get("tokens_seen") != problem.tokens_seen(int(state["step"])):
        raise _cannot_resume(
            folder, "its rounds have another length than this version of sgns gives them", "use that one"
        )
    if int(state["step"]) >= problem.total_rounds:
        note = (
            f"{folder} is complete at step {state['step']:,}: nothing is left to train (a larger train.epochs goes on)"
        )
        return Start([note], step, state, complete=True)
    before = state.get("processes", 1)
    if before != processes:
        raise _cannot_resume(
            folder,
            f"it was started with {_processes(before)} and this is {_processes(processes)}",
            f"start {before} with torchrun" if before != 1 else "start it without torchrun",
        )
    notes = []
    epochs = load_run_config(folder).train.epochs
    if config.train.epochs > epochs:
        notes.append(
            f"train.epochs grew from {epochs} to {config.train.epochs}: the learning rate goes on along the longer "
            "schedule, so it rises at this point"
        )
    notes.append(f"resuming {folder} at step {state['step']:,}")
    return Start(notes, step, state)


def _processes(number: int) -> str:
    return f"{number} processes" if number > 1 else "one process"


def _with_rounds_of(problem: Problem, state: dict[str, Any]) -> Problem:
    span = state.get("round_tokens")
    return replace(problem, span=span) if isinstance(span, int) and span > 0 else problem


def _check_same_config(folder: Path, config: Config) -> None:
    """Refuse a key that makes another experiment. Sources may move: the corpus itself is compared later."""
    old = load_run_config(folder)
    for section in ("data", "tokenizer", "model", "train"):
        now, then = getattr(config, section).model_dump(), getattr(old, section).model_dump()
        for key in then:
            if (
                key in ("sources", "deterministic")
                or now[key] == then[key]
                or (section == "tokenizer" and now[key] is None)
            ):
                continue
            if (section, key) == ("train", "epochs") and now[key] > then[key]:
                continue
            what = f"{section}.{key} is {now[key]} now and was {then[key]} when it was started"
            raise _cannot_resume(folder, what, f"set {section}.{key} back")


def _cannot_resume(folder: Path, what: str, way_out: str) -> SgnsError:
    return SgnsError(
        f"cannot resume {folder}: {what}",
        f"{way_out}, or train a new run with -o DIR (--init-from {folder} starts from it)",
    )
