"""A run of sgns, opened for queries: its latest step, or one of its steps, memory-mapped.

What an answer is made of is checked first, against the checksums in state.json: a tensor when it is first needed, so
that nobody waits for one that is not asked for.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sgns_cli.corpus.tokenizer import load_tokenizer
from sgns_cli.errors import SgnsError
from sgns_cli.files import own_path
from sgns_cli.run_folder import MODEL, TOKENIZER, TRAINING, of_latest, read_state, step_file, tensor_sums
from sgns_cli.tensors import check_tensor, map_tensors
from sgns_cli.vectors.model import Model


def open_run(path: Path) -> Model:
    """Open a run folder or one of its steps. Raises SgnsError if a file is missing or damaged."""
    return of_latest(path, _open_step)


def _open_step(step: Path) -> Model:
    state = read_state(step)
    sums = tensor_sums(step, state)
    files = {name: step_file(step, name) for name in (MODEL, TRAINING)}
    model, training = map_tensors(files[MODEL]), map_tensors(files[TRAINING])
    try:
        embeddings, counts, contexts = model["embeddings"], training["counts"], training["contexts"]
        positions, context_length = state["positions"], int(state["context_length"])
        rows = model["positions"] if positions == "learned" else None
        min_count = int(state["min_count"])
        tokenizer_files = dict(state.get("tokenizer", {}))
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise _unfit(step, f"{error} is missing or wrong") from error
    if positions not in ("none", "learned", "sinusoidal") or not 1 <= context_length < 2**63:
        raise _unfit(step, "positions or context_length is not as it should be")
    if embeddings.ndim != 2 or embeddings.dtype != np.float32 or contexts.shape != embeddings.shape:
        raise _unfit(step, "embeddings and contexts are not two float32 matrices of one shape")
    if contexts.dtype != np.float32:
        raise _unfit(step, "contexts is no float32 matrix")
    if counts.shape != embeddings.shape[:1] or counts.dtype != np.int64:
        raise _unfit(step, "counts is not an int64 number for each row of embeddings")
    if rows is not None and (rows.shape != (context_length, embeddings.shape[1]) or rows.dtype != np.float32):
        raise _unfit(step, "positions is no float32 [context_length, dim] matrix")

    def checked(file: str, name: str, tensor: NDArray[Any]) -> NDArray[Any]:
        if name in sums:
            check_tensor(files[file], name, tensor, sums[name])
        return tensor

    return Model(
        path=step,
        embeddings=checked(MODEL, "embeddings", embeddings),
        counts=checked(TRAINING, "counts", counts),
        min_count=min_count,
        positions=positions,
        context_length=context_length,
        position_rows=None if rows is None else checked(MODEL, "positions", rows),
        load_contexts=lambda: checked(TRAINING, "contexts", contexts),
        lowercase=state.get("lowercase") is True,
        load_tokenizer=lambda: load_tokenizer(own_path(step.parent, TOKENIZER), checksums=tokenizer_files),
    )


def _unfit(step: Path, why: str) -> SgnsError:
    return SgnsError(f"{step} is damaged: {why}", "use another step of the run, or train it again")
