"""A run of sgns, opened for queries: its latest step, or one of its steps, memory-mapped."""

from pathlib import Path

import numpy as np

from sgns_cli.corpus.tokenizer import load_tokenizer
from sgns_cli.errors import SgnsError
from sgns_cli.run_folder import MODEL, TOKENIZER, TRAINING, read_state, resolve_step
from sgns_cli.tensors import map_tensors
from sgns_cli.vectors.model import Model


def open_run(path: Path) -> Model:
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


def _unfit(step: Path, why: str) -> SgnsError:
    return SgnsError(f"{step} is damaged: {why}", "use another step of the run, or train it again")
