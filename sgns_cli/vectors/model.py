"""A trained model, opened for queries: a run folder or one of its steps, memory-mapped.

Rows are read only where a query needs them, and the tokenizer is loaded when text comes or tokens are shown.
Other files of vectors can join by building the same `Model`.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sgns_cli.corpus.tokenizer import Tokenizer, load_tokenizer
from sgns_cli.errors import SgnsError
from sgns_cli.run_folder import MODEL, STATE, TOKENIZER, TRAINING, read_state, resolve_step, run_folders, steps
from sgns_cli.tensors import map_tensors

Kind = Literal["input", "context", "sum"]


@dataclass(frozen=True)
class Model:
    """What queries need of a model. Row i of every matrix and entry i of `counts` is token id i."""

    path: Path
    embeddings: NDArray[np.float32]  # [n_vocab, dim]
    counts: NDArray[np.int64]  # [n_vocab]
    min_count: int
    positions: Literal["none", "learned", "sinusoidal"]
    context_length: int
    position_rows: NDArray[np.float32] | None  # [context_length, dim] if learned
    contexts: NDArray[np.float32] | None  # [n_vocab, dim]; None: a file that has none
    lowercase: bool  # whether texts were lower-cased for training, so that queries are too
    load_tokenizer: Callable[[], Tokenizer]

    @cached_property
    def tokenizer(self) -> Tokenizer:
        return self.load_tokenizer()

    @cached_property
    def trained(self) -> NDArray[np.bool_]:
        """[n_vocab]: which ids were trained, and so may be answers."""
        trained = np.asarray(self.counts >= self.min_count)
        special = [token for token in self.tokenizer.special_ids if token < len(trained)]
        trained[special] = False
        return trained

    @property
    def n_vocab(self) -> int:
        return int(self.embeddings.shape[0])

    @property
    def dim(self) -> int:
        return int(self.embeddings.shape[1])

    def rows(self, ids: NDArray[np.integer[Any]] | slice, kind: Kind) -> NDArray[np.float32]:
        """[len(ids), dim]: the vectors of `ids`; a slice of one matrix is a view, not a copy."""
        if kind == "input":
            return self.embeddings[ids]
        if self.contexts is None:
            raise SgnsError(f"{self.path} has no contexts", "leave out --vectors, or name a run of sgns")
        if kind == "context":
            return self.contexts[ids]
        return self.embeddings[ids] + self.contexts[ids]

    def encode(self, text: str) -> NDArray[np.uint32]:
        """The ids of a text, read as the texts of training were."""
        return self.tokenizer.encode(self._as_trained(text))

    def unknown(self, text: str) -> dict[int, str]:
        """What of a text has no id, by its place among the text's tokens; only whitespace words can have none."""
        return self.tokenizer.unknown(self._as_trained(text))

    def _as_trained(self, text: str) -> str:
        return text.lower() if self.lowercase else text


def resolve_model(
    path: Path | None, *, environment: Mapping[str, str] = os.environ, runs: Path = Path("runs")
) -> tuple[Path, str]:
    """The step to ask, and a note saying which ("" where `path` named it).

    `path`, else $SGNS_MODEL, else the run under `runs` whose newest complete step was written last.
    """
    if path is not None:
        return resolve_step(path), ""
    if named := environment.get("SGNS_MODEL"):
        step = resolve_step(Path(named))
        return step, f"using {step} ($SGNS_MODEL)"
    latest = [step for run in run_folders(runs) for step in steps(run)[-1:]]
    if not latest:
        raise SgnsError(
            f"no model is named and none is under {runs}",
            "train one with `sgns train CONFIG`, or give --model a run folder",
        )
    step = max(latest, key=lambda step: (_written(step), str(step)))
    return step, f"using {step}"


def open_model(path: Path) -> Model:
    """Open a run folder or one of its steps. Raises SgnsError if a file is missing or damaged."""
    step = resolve_step(path)
    state = read_state(step)
    tensors = map_tensors(step / MODEL)
    training = map_tensors(step / TRAINING)
    try:
        embeddings, counts, contexts = tensors["embeddings"], training["counts"], training["contexts"]
        positions, context_length = state["positions"], int(state["context_length"])
        rows = tensors["positions"] if positions == "learned" else None
        min_count = int(state["min_count"])
    except (KeyError, TypeError, ValueError) as error:
        raise _unfit(step, f"{error} is missing or wrong") from error
    if positions not in ("none", "learned", "sinusoidal") or context_length < 1:
        raise _unfit(step, f"positions {positions!r} with context_length {context_length}")
    if embeddings.ndim != 2 or embeddings.dtype != np.float32 or contexts.shape != embeddings.shape:
        raise _unfit(step, "embeddings and contexts are not two float32 matrices of one shape")
    if counts.shape != embeddings.shape[:1]:
        raise _unfit(step, "counts and embeddings have different numbers of rows")
    if rows is not None and rows.shape != (context_length, embeddings.shape[1]):
        raise _unfit(step, "positions is no [context_length, dim] matrix")
    return Model(
        path=step,
        embeddings=embeddings,
        counts=counts,
        min_count=min_count,
        positions=positions,
        context_length=context_length,
        position_rows=rows,
        contexts=contexts,
        lowercase=state.get("lowercase") is True,
        load_tokenizer=lambda: load_tokenizer(step.parent / TOKENIZER),
    )


def _written(step: Path) -> int:
    """When a step was written, in nanoseconds."""
    try:
        return (step / STATE).stat().st_mtime_ns
    except OSError:
        return 0


def _unfit(step: Path, why: str) -> SgnsError:
    return SgnsError(f"{step} is damaged: {why}", "use another step of the run, or train it again")
