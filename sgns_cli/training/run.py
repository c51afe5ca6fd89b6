"""A run from its config and a token folder to its steps on disk: `prepare_run`, then loop over `Training.progress()`.

Decides what a run folder may be (new, resumed, replaced), writes config.yaml, tokenizer and metrics.jsonl, and hands
the loop (trainer.py) its engine and its way to save (checkpoint.py).
"""

import json
import shlex
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from sgns_cli import run_folder
from sgns_cli.config import DEFAULT_ENCODING, Config, TokenizerConfig
from sgns_cli.config_file import dump_config, load_config
from sgns_cli.corpus.token_store import TokenStore
from sgns_cli.corpus.tokenizer import Tokenizer, load_tokenizer
from sgns_cli.errors import SgnsError
from sgns_cli.folders import incomplete_name, replace_folder, writing
from sgns_cli.training.checkpoint import adopt_matrices, load_step, remove_old_steps, save_step, trim_metrics
from sgns_cli.training.device import choose_device
from sgns_cli.training.engine import CpuEngine, Engine, Matrices, ReferenceEngine, initial_matrices, matrix_bytes
from sgns_cli.training.problem import Problem, make_problem
from sgns_cli.training.trainer import Pace, Progress, train


@dataclass
class Training:
    """A run that is ready to go. `notes` are for people; `folder` is where its steps appear."""

    config: Config
    problem: Problem
    engine: Engine
    folder: Path
    fingerprints: dict[str, str]
    first_step: int
    replaces: Path | None  # the run whose place `folder` takes when its first step is complete
    compile_seconds: float
    notes: list[str] = field(default_factory=list)
    checkpoint: Path | None = None
    last: Progress | None = None

    def progress(self, stopped: Callable[[], bool] = lambda: False) -> Iterator[Progress]:
        """Train; yields each report once it is in metrics.jsonl, and checkpoints on the way and at the end."""
        pace = Pace(self.config.run.log_seconds, self.config.run.checkpoint_minutes)
        steps = train(self.problem, self.engine, step=self.first_step, pace=pace, save=self._save, stopped=stopped)
        for record in steps:
            self.last = record
            with writing(self.folder), (self.folder / run_folder.METRICS).open("a", encoding="utf-8") as metrics:
                metrics.write(json.dumps(asdict(record)) + "\n")
            yield record

    @property
    def complete(self) -> bool:
        """Whether every round of the run is done."""
        return self.last is not None and self.last.step >= self.problem.total_rounds

    def summary(self, *, tokenize_seconds: float, total_seconds: float) -> dict[str, object]:
        """The last record of `train --json`."""
        last = self._last()
        return {
            "run": str(self.folder),
            "checkpoint": str(self.checkpoint),
            "loss": last.loss,
            "held_out_loss": last.held_out_loss,
            "tokens_per_second": last.tokens_per_second,
            "train_seconds": last.seconds,
            "tokenize_seconds": tokenize_seconds,
            "compile_seconds": self.compile_seconds,
            "total_seconds": total_seconds,
            "device": last.device,
            "threads": last.threads,
        }

    def closing_words(self, *, tokenize_seconds: float, total_seconds: float) -> str:
        """For people: what was reached, in what time, and how to ask it or go on."""
        last = self._last()
        if not self.complete:
            return f"interrupted and saved at step {last.step:,} of {self.problem.total_rounds:,}: --resume goes on"
        held_out = "" if last.held_out_loss is None else f", held-out loss {last.held_out_loss:.4f}"
        return (
            f"{self.checkpoint} complete{held_out}; {total_seconds:.1f} s, of them tokenizing {tokenize_seconds:.1f}, "
            f"compiling {self.compile_seconds:.1f}, training {last.seconds:.1f} at "
            f"{last.tokens_per_second:,.0f} tokens/s"
        )

    def query_command(self) -> str:
        """A query that finds this run: without --model where the run is one of ./runs, as its newest step then is."""
        here = self.folder.resolve().parent == Path("runs").resolve()
        return f"sgns neighbors {self._example()}" + ("" if here else f" --model {shlex.quote(str(self.folder))}")

    def _example(self) -> str:
        """A trained word to ask for: past the most frequent ones, and long enough to mean something."""
        ids = self.problem.vocabulary.ids
        tokenizer = load_tokenizer(self.folder / run_folder.TOKENIZER)
        for token_id in ids[len(ids) // 20 :]:
            token = (tokenizer.token_bytes(int(token_id)) or b"").strip(b" ")
            if token.isalpha() and len(token) > 4:
                return token.decode()
        return "QUERY"

    def _last(self) -> Progress:
        if self.last is None:
            raise ValueError("the run has not begun: loop over progress() first")
        return self.last

    def _save(self, record: Progress) -> None:
        self.checkpoint = save_step(
            self.folder,
            record.step,
            self.problem,
            self.engine.matrices(),
            facts={"fingerprints": self.fingerprints, "lowercase": self.config.data.lowercase},
            metrics={"loss": record.loss, "held_out_loss": record.held_out_loss},
        )
        if self.replaces is not None:
            replace_folder(self.folder, self.replaces)
            self.folder, self.replaces = self.replaces, None
            self.checkpoint = self.folder / self.checkpoint.name
        remove_old_steps(self.folder, self.config.run.keep_checkpoints)


def check_run_folder(folder: Path, *, resume: bool, overwrite: bool) -> None:
    """Refuse a run directory that holds something, unless it is to be resumed or replaced. Raises SgnsError."""
    if folder.exists() and not folder.is_dir():
        raise SgnsError(f"{folder} is a file, not a run folder", "choose another run.directory")
    if resume or not folder.exists() or not any(folder.iterdir()):
        return
    if overwrite and (folder / run_folder.CONFIG).exists():
        return
    if overwrite:
        raise SgnsError(
            f"{folder} is not empty and is no run folder: --overwrite would delete what is in it",
            "choose another run.directory, or empty it yourself",
        )
    raise SgnsError(
        f"the run folder {folder} is not empty",
        "add --resume to go on with it, --overwrite to replace it, or -o DIR to train elsewhere",
    )


def prepare_run(
    config: Config,
    store: TokenStore,
    *,
    resume: bool = False,
    overwrite: bool = False,
    init_from: Path | None = None,
    device: str = "auto",
) -> Training:
    """Make a run ready: problem, matrices, engine (compiled), and a run folder with config and tokenizer in it.

    Raises SgnsError for what cannot be trained, resumed or written.
    """
    folder = Path(config.run.directory or "")
    check_run_folder(folder, resume=resume, overwrite=overwrite)
    device = choose_device(device)
    tokenizer = store.tokenizer()
    problem = make_problem(store.tokens, store.documents, store.counts, config.model, config.train)
    fingerprints = {"corpus": store.fingerprint, "tokenizer": tokenizer.fingerprint}
    matrices, first_step, notes = _start(folder, problem, tokenizer, config, fingerprints, resume, init_from)
    engine, compile_seconds = _make_engine(problem, matrices, device)
    if device.startswith("cuda") and config.train.deterministic:
        notes.append("on CUDA the draws repeat and the rounding does not: the bytes may differ from run to run")
    replaces = folder if overwrite and folder.exists() and any(folder.iterdir()) else None
    if replaces:
        folder = incomplete_name(folder)
        shutil.rmtree(folder, ignore_errors=True)
    _write_run_folder(folder, config, tokenizer, first_step)
    return Training(config, problem, engine, folder, fingerprints, first_step, replaces, compile_seconds, notes)


def describe(config: Config, store: TokenStore) -> dict[str, object]:
    """What a run would train: sizes to know before it starts. `memory_bytes` is what the matrices take."""
    problem = make_problem(store.tokens, store.documents, store.counts, config.model, config.train)
    kept = problem.epoch_tokens * problem.vocabulary.kept_fraction
    return {
        "documents": len(store.documents) - 1,
        "tokens": len(store.tokens),
        "trained_rows": problem.vocabulary.rows,
        "n_vocab": len(store.counts),
        "rounds": problem.total_rounds,
        "pairs": round(kept * (config.model.window + 1) * config.train.epochs),
        "memory_bytes": matrix_bytes(problem),
    }


def _start(
    folder: Path,
    problem: Problem,
    tokenizer: Tokenizer,
    config: Config,
    fingerprints: dict[str, str],
    resume: bool,
    init_from: Path | None,
) -> tuple[Matrices, int, list[str]]:
    """The matrices and the step to start from, and what people should know about it."""
    steps = run_folder.steps(folder) if resume else []
    if steps:
        state = run_folder.read_state(steps[-1])
        notes = _check_same_experiment(folder, config, fingerprints, state)
        step = int(state["step"])
        note = f"resuming {folder} at step {step:,}"
        if step >= problem.total_rounds:
            note = f"{folder} is complete at step {step:,}: nothing is left to train (a larger train.epochs goes on)"
        return load_step(steps[-1], problem), step, [*notes, note]
    notes = [f"{folder} has no complete step to resume: starting from the beginning"] if resume else []
    if init_from is None:
        return initial_matrices(problem), 0, notes
    source = run_folder.resolve_step(init_from)
    old = load_tokenizer(source.parent / run_folder.TOKENIZER)
    matrices, taken = adopt_matrices(problem, tokenizer, source, old)
    note = f"{taken:,} of {problem.vocabulary.rows:,} trained rows start from {source}, the others at random"
    return matrices, 0, [*notes, note]


def _check_same_experiment(
    folder: Path, config: Config, fingerprints: dict[str, str], state: dict[str, Any]
) -> list[str]:
    """Refuse to resume under a config or corpus that makes another experiment. Returns notes."""
    old = load_config(folder / run_folder.CONFIG, [])
    for section in ("model", "train"):
        now, then = getattr(config, section).model_dump(), getattr(old, section).model_dump()
        for key, value in then.items():
            grown = (section, key) == ("train", "epochs") and now[key] > value
            if now[key] != value and not grown:
                raise SgnsError(
                    f"cannot resume {folder}: {section}.{key} is {now[key]} now and was {value} when it was started",
                    f"set {section}.{key} back, or train a new run with -o DIR (--init-from {folder} starts from it)",
                )
    for name, fingerprint in fingerprints.items():
        if state.get("fingerprints", {}).get(name) != fingerprint:
            raise SgnsError(
                f"cannot resume {folder}: the {name} is not the one it was started with",
                f"restore it, or train a new run with -o DIR (--init-from {folder} starts from it)",
            )
    if config.train.epochs > old.train.epochs:
        return [
            f"train.epochs grew from {old.train.epochs} to {config.train.epochs}: the learning rate goes on along the "
            "longer schedule, so it rises at this point"
        ]
    return []


def _make_engine(problem: Problem, matrices: Matrices, device: str) -> tuple[Engine, float]:
    """The engine for a device, compiled, and the seconds that compiling (or loading the compiled code) took."""
    began = time.perf_counter()
    engine: Engine = (
        CpuEngine(problem, matrices) if device == "cpu" else ReferenceEngine(problem, matrices, device=device)
    )
    engine.train(0, 0, 0)
    return engine, time.perf_counter() - began


def _resolved(config: Config, tokenizer: Tokenizer) -> Config:
    """The config with its tokenizer named, where it left the choice to the default."""
    if config.tokenizer.train or config.tokenizer.encoding or tokenizer.name != DEFAULT_ENCODING:
        return config
    return config.model_copy(update={"tokenizer": TokenizerConfig(encoding=DEFAULT_ENCODING)})


def _write_run_folder(folder: Path, config: Config, tokenizer: Tokenizer, first_step: int) -> None:
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for debris in folder.glob(".*.incomplete"):
            shutil.rmtree(debris, ignore_errors=True)
        (folder / run_folder.CONFIG).write_text(dump_config(_resolved(config, tokenizer)), encoding="utf-8")
        tokenizer_folder = folder / run_folder.TOKENIZER
        tokenizer_folder.mkdir(exist_ok=True)
        tokenizer.save(tokenizer_folder)
        trim_metrics(folder / run_folder.METRICS, first_step)
