"""A run from its config and a token folder to its steps on disk: `prepare_run`, then loop over `Training.progress()`.

Writes config.yaml, tokenizer and metrics.jsonl, and hands the loop (trainer.py) its engine and its way to save
(checkpoint.py). What a run may start from is start.py's business.
"""

import json
import os
import shlex
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path

from sgns_cli import run_folder
from sgns_cli.config import DEFAULT_ENCODING, Config, TokenizerConfig
from sgns_cli.config_file import dump_config
from sgns_cli.corpus.token_store import TokenStore
from sgns_cli.corpus.tokenizer import Tokenizer
from sgns_cli.folders import incomplete_name, replace_folder, writing
from sgns_cli.training.checkpoint import remove_old_steps, save_step, trim_metrics
from sgns_cli.training.device import choose_device
from sgns_cli.training.engine import Matrices, make_engine, matrix_bytes
from sgns_cli.training.problem import Problem, make_problem
from sgns_cli.training.start import Request, Start, check_start, lock_run, run_directory, start_from
from sgns_cli.training.trainer import Pace, Progress, Saved, train


@dataclass
class Training:
    """A run that is ready to go. `notes` are for people; `folder` is where its steps appear."""

    config: Config
    problem: Problem
    tokenizer: Tokenizer
    start: Start
    device: str
    facts: dict[str, object]  # for state.json
    folder: Path
    replaces: Path | None  # the run whose place `folder` takes when its first step is complete
    held: ExitStack  # the lock of the run folder
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
            if self.start.state and self.start.step >= self.problem.total_rounds:
                self._recall(self.start.state)
                return
            try:
                yield from self._train(stopped)
            except BaseException:
                if not run_folder.steps(self.folder):
                    shutil.rmtree(self.folder, ignore_errors=True)
                raise

    def _train(self, stopped: Callable[[], bool]) -> Iterator[Progress]:
        began = time.perf_counter()
        engine = make_engine(self.problem, self.start.matrices, self.device)
        engine.train(0, 0, 0)  # compiles
        self.compile_seconds = time.perf_counter() - began

        def save(record: Progress) -> None:
            self._save(record, engine.matrices())

        earlier = (self.start.state or {}).get("metrics") or {}
        reports = train(
            self.problem,
            engine,
            Saved(self.start.step, earlier.get("seconds") or 0.0),
            pace=Pace(self.config.run.log_seconds, self.config.run.checkpoint_minutes),
            save=save,
            stopped=stopped,
        )
        for record in reports:
            self.last = record
            self.trained_pairs |= record.loss is not None
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

    def closing_notes(self, *, tokenize_seconds: float, total_seconds: float) -> Iterator[str]:
        """For people: what was reached, in what time, and how to ask it or go on."""
        last = self._last()
        if not self.complete:
            yield f"interrupted and saved at step {last.step:,} of {self.problem.total_rounds:,}: --resume goes on"
            return
        held_out = "" if last.held_out_loss is None else f", held-out loss {last.held_out_loss:.4f}"
        yield (
            f"{self.checkpoint} complete{held_out}; {total_seconds:.1f} s, of them tokenizing {tokenize_seconds:.1f}, "
            f"compiling {self.compile_seconds:.1f}, training {last.seconds:.1f} at "
            f"{last.tokens_per_second:,.0f} tokens/s"
        )
        if self.problem.total_rounds and not self.trained_pairs and not self.start.state:
            yield (
                "no pair of tokens was trained, so the vectors are the random start: no token that was kept has "
                "another one in its document. Give more text, or set model.subsample_threshold to 0"
            )
        yield f"ask it: {self.query_command()}"

    def query_command(self) -> str:
        """A query that finds this run: --model is left out only where the run would be found without it."""
        latest_of_runs = self.folder.resolve().parent == Path("runs").resolve() and not os.environ.get("SGNS_MODEL")
        model = "" if latest_of_runs else f" --model {shlex.quote(str(self.folder))}"
        return f"sgns neighbors {self._example()}{model}"

    def _example(self) -> str:
        """A trained token to ask for: past the most frequent ones a word of five letters or more, else any."""
        ids = [int(token_id) for token_id in self.problem.vocabulary.ids]
        texts = {token_id: self._text_of(token_id) for token_id in ids[len(ids) // 20 :] + ids[: len(ids) // 20]}
        words = [text for text in texts.values() if text.isalpha() and len(text) > 4]
        others = [text for text in texts.values() if text.isprintable() and text and not text.startswith("-")]
        return shlex.quote([*words, *others][0]) if words or others else f"--id {ids[0]}"

    def _text_of(self, token_id: int) -> str:
        """A token as somebody would type it, empty if that is not possible."""
        token = (self.tokenizer.token_bytes(token_id) or b"").strip(b" ")
        try:
            return token.decode()
        except UnicodeDecodeError:
            return ""

    def _last(self) -> Progress:
        if self.last is None:
            raise ValueError("the run has not begun: loop over progress() first")
        return self.last

    def _recall(self, state: dict[str, object]) -> None:
        """Take what was reached from the last step of a run that is complete."""
        metrics = state.get("metrics")
        self.checkpoint = self.folder / run_folder.step_name(self.start.step)
        self.last = Progress(
            step=self.start.step,
            epoch=self.problem.train.epochs,
            tokens_seen=self.problem.total_tokens,
            tokens_total=self.problem.total_tokens,
            learning_rate=self.problem.learning_rate(self.start.step),
            device=self.device,
            threads=1,
            **(metrics if isinstance(metrics, dict) else {}),
        )

    def _save(self, record: Progress, matrices: Matrices) -> None:
        metrics = {name: getattr(record, name) for name in ("loss", "held_out_loss", "tokens_per_second", "seconds")}
        self.checkpoint = save_step(self.folder, record.step, self.problem, matrices, facts=self.facts, metrics=metrics)
        if self.replaces is not None:
            replace_folder(self.folder, self.replaces)
            self.folder, self.replaces = self.replaces, None
            self.checkpoint = self.folder / self.checkpoint.name
        remove_old_steps(self.folder, self.config.run.keep_checkpoints)


def prepare_run(config: Config, store: TokenStore, *, request: Request | None = None, device: str = "auto") -> Training:
    """Make a run ready: problem, matrices, and a run folder with config and tokenizer in it, held for this process.

    Raises SgnsError for what cannot be trained, resumed or written.
    """
    request = request or Request()
    check_start(config, request)
    device = choose_device(device)
    tokenizer = store.tokenizer()
    problem = make_problem(store.tokens, store.documents, store.counts, config.model, config.train)
    fingerprints = {"corpus": store.fingerprint, "tokenizer": tokenizer.fingerprint}
    facts = {"fingerprints": fingerprints, "lowercase": store.meta["options"]["lowercase"]}
    folder = run_directory(config)
    with ExitStack() as holding, writing(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        holding.enter_context(lock_run(folder))
        start = start_from(config, problem, tokenizer, fingerprints, request)
        notes = [*store.meta["notes"], *start.notes]
        if device.startswith("cuda") and config.train.deterministic:
            notes.append("on CUDA the draws repeat and the rounding does not: the bytes may differ from run to run")
        shutil.rmtree(incomplete_name(folder), ignore_errors=True)
        replaces = folder if request.overwrite and folder.exists() and any(folder.iterdir()) else None
        place = incomplete_name(folder) if replaces else folder
        _write_run_folder(place, config, tokenizer, start.step)
        return Training(config, problem, tokenizer, start, device, facts, place, replaces, holding.pop_all(), notes)


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


def _write_run_folder(folder: Path, config: Config, tokenizer: Tokenizer, first_step: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for debris in folder.glob(".*.incomplete"):
        shutil.rmtree(debris, ignore_errors=True)
    (folder / run_folder.CONFIG).write_text(dump_config(_resolved(config, tokenizer)), encoding="utf-8")
    tokenizer_folder = folder / run_folder.TOKENIZER
    tokenizer_folder.mkdir(exist_ok=True)
    tokenizer.save(tokenizer_folder)
    trim_metrics(folder / run_folder.METRICS, first_step)


def _resolved(config: Config, tokenizer: Tokenizer) -> Config:
    """The config with its tokenizer named, where it left the choice to the default."""
    if config.tokenizer.train or config.tokenizer.encoding or tokenizer.name != DEFAULT_ENCODING:
        return config
    return config.model_copy(update={"tokenizer": TokenizerConfig(encoding=DEFAULT_ENCODING)})
