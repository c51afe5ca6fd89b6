"""Steps of a run on disk: written row by row from the training rows, read back into them.

The names and the layout are run_folder.py's. Rows on disk are token ids; ids that are not trained have zero rows.
"""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sgns_cli import run_folder
from sgns_cli.errors import SgnsError
from sgns_cli.files import changed_file, checksum, sealed, write_json
from sgns_cli.folders import fsync, publish_file, publish_folder, remove_folder, writing
from sgns_cli.tensors import TensorStream, map_tensors, whole, write_tensors
from sgns_cli.training.engine import PIECE, Matrices, empty_matrices, initial_matrices
from sgns_cli.training.problem import Problem
from sgns_cli.training.trainer import diverged


def save_step(
    run: Path,
    step: int,
    problem: Problem,
    matrices: Matrices,
    *,
    facts: dict[str, Any],
    metrics: dict[str, Any],
) -> Path:
    """Write step `step` of a run, complete or not at all; returns its folder.

    `facts` are what else a reader of state.json must know: fingerprints, lowercase, checksums of what is beside steps.

    Raises SgnsError if the disk refuses, or if a matrix holds a number that is not finite.
    """
    folder = run / run_folder.step_name(step)
    epoch, rounds = divmod(step, problem.epoch_rounds)
    model = {"embeddings": _by_id(problem, matrices["vectors"])}
    if problem.positions_learned:
        model["positions"] = whole(np.ascontiguousarray(matrices["positions"][:, : problem.model.dim]))
    for name, matrix in matrices.items():
        if not all(np.isfinite(matrix[start : start + PIECE]).all() for start in range(0, len(matrix), PIECE)):
            rate = problem.learning_rate(step)
            raise diverged(f"{name} hold a number that is not finite at step {step} (learning rate {rate:g})")
    with publish_folder(folder, overwrite=True) as hidden:
        training = {"contexts": _by_id(problem, matrices["contexts"]), "counts": whole(problem.vocabulary.counts)}
        sums = write_tensors(hidden / run_folder.MODEL, model) | write_tensors(hidden / run_folder.TRAINING, training)
        state = {
            "format_version": run_folder.FORMAT_VERSION,
            "step": step,
            "epoch": epoch,
            "position": rounds * problem.span,
            "round_tokens": problem.span,
            "tokens_seen": problem.tokens_seen(step),
            "tokens_total": problem.total_tokens,
            "seed": problem.train.seed,
            "n_vocab": len(problem.vocabulary.counts),
            "dim": problem.model.dim,
            "min_count": problem.model.min_count,
            "positions": problem.model.positions,
            "context_length": problem.model.context_length,
            **facts,
            "checksums": {name: checksum(hidden / name) for name in (run_folder.MODEL, run_folder.TRAINING)},
            "tensors": sums,
            "metrics": metrics,
        }
        write_json(hidden / run_folder.STATE, sealed(state))
    return folder


def load_step(folder: Path, problem: Problem) -> Matrices:
    """The matrices of a step, in training rows. Raises SgnsError if a file is damaged or does not fit the problem."""
    tensors = _whole_tensors(folder, run_folder.read_state(folder))
    ids, dim = problem.vocabulary.ids, problem.model.dim
    matrices = empty_matrices(problem)
    for name, saved in (("vectors", "embeddings"), ("contexts", "contexts")):
        tensor = _matrix(folder, tensors, saved, (len(problem.vocabulary.counts), dim))
        for start in range(0, len(ids), PIECE):
            matrices[name][start : start + PIECE, :dim] = tensor[ids[start : start + PIECE]]
    if problem.positions_learned:
        shape = (problem.model.context_length, dim)
        matrices["positions"][:, :dim] = _matrix(folder, tensors, "positions", shape)
    return matrices


def _whole_tensors(folder: Path, state: dict[str, Any]) -> dict[str, NDArray[Any]]:
    """All tensors of a step, mapped, once its files were found to be those that were written."""
    checksums = state.get("checksums")
    names = (run_folder.MODEL, run_folder.TRAINING)
    told = {name: checksums.get(name) if isinstance(checksums, dict) else None for name in names}
    tensors = {
        name: tensor for file in names for name, tensor in map_tensors(run_folder.step_file(folder, file)).items()
    }
    if changed := changed_file(folder, told):
        raise SgnsError(
            f"{folder / changed} is damaged: it is not the file that state.json tells of",
            f"remove {folder} and resume from the step before it",
        )
    return tensors


def adopt_matrices(problem: Problem, tokenizer: Any, run: Path, old_tokenizer: Any) -> tuple[Matrices, int]:  # noqa: ANN401
    """Initial matrices, with the rows of the tokens (by bytes) that `run` has trained too taken from its latest step.

    The tokenizers need `token_bytes` and `id_of`; the dims are equal. Returns the matrices and how many rows were
    taken.
    """
    folder = run_folder.resolve_step(run)
    state = run_folder.read_state(folder)
    tensors = _whole_tensors(folder, state)
    trained = np.asarray(tensors["counts"]) >= state["min_count"]
    pairs = []
    for row, token_id in enumerate(problem.vocabulary.ids):
        token = tokenizer.token_bytes(int(token_id))
        old = old_tokenizer.id_of(token) if token is not None else None
        if old is not None and trained[old]:
            pairs.append((row, old))
    matrices, dim = initial_matrices(problem), problem.model.dim
    if pairs:
        rows, old_ids = np.array(pairs).T
        matrices["vectors"][rows, :dim] = tensors["embeddings"][old_ids]
        matrices["contexts"][rows, :dim] = tensors["contexts"][old_ids]
    if problem.positions_learned and "positions" in tensors:
        shared = min(len(matrices["positions"]), len(tensors["positions"]))
        matrices["positions"][:shared, :dim] = tensors["positions"][:shared]
    return matrices, len(pairs)


def append_metrics(path: Path, record: dict[str, Any]) -> None:
    """Add a line to metrics.jsonl. Raises SgnsError if the disk refuses."""
    with writing(path), path.open("a", encoding="utf-8") as metrics:
        metrics.write(json.dumps(record) + "\n")


def seal_metrics(path: Path) -> dict[str, Any]:
    """Make metrics.jsonl durable; returns its length and SHA-256, by which run_folder.read_metrics knows it again.

    Raises SgnsError if the disk refuses.
    """
    with writing(path):
        fsync(path)
        return {"bytes": path.stat().st_size, "sha256": checksum(path)}


def trim_metrics(run: Path, step: Path | None) -> None:
    """Drop the lines of metrics.jsonl after a step, all without one, so that a resumed run repeats none.

    Raises SgnsError if those up to the step are not what was written.
    """
    path = run / run_folder.METRICS
    if not path.exists():
        return
    last = -1 if step is None else run_folder.step_number(step) or 0
    kept = [f"{line}\n" for line in run_folder.read_metrics(run, step).split("\n") if _step_of(line) <= last]
    with publish_file(path) as hidden:
        hidden.write_text("".join(kept), encoding="utf-8")


def remove_old_steps(run: Path, keep: int) -> None:
    """Remove all but the newest `keep` steps. A step is hidden before its files go, so a visible one is whole."""
    for folder in run_folder.steps(run)[:-keep]:
        with writing(run):
            remove_folder(folder)


def _by_id(problem: Problem, matrix: NDArray[np.float32]) -> TensorStream:
    """Training rows [R, D] as a stream of rows by token id [n_vocab, dim], zeros where an id is not trained."""
    rows, dim = problem.vocabulary.chances.rows, problem.model.dim

    def pieces() -> Iterator[NDArray[np.float32]]:
        for start in range(0, len(rows), PIECE):
            part = rows[start : start + PIECE]
            piece = np.zeros((len(part), dim), np.float32)
            piece[part >= 0] = matrix[part[part >= 0], :dim]
            yield piece

    return TensorStream(np.dtype("<f4"), (len(rows), dim), pieces())


def _matrix(folder: Path, tensors: dict[str, NDArray[Any]], name: str, shape: tuple[int, ...]) -> NDArray[np.float32]:
    tensor = tensors.get(name)
    if tensor is None or tensor.shape != shape or tensor.dtype != np.float32:
        found = "missing" if tensor is None else f"{tensor.dtype} {list(tensor.shape)}"
        raise SgnsError(
            f"{folder}: {name} is {found}, this run needs float32 {list(shape)}",
            "resume with the config and corpus that the run was started with",
        )
    return tensor


def _step_of(line: str) -> float:
    """The step of a report; that of a line that is none, or was cut short, is behind every other."""
    try:
        step = json.loads(line)["step"]
    except (ValueError, TypeError, LookupError, RecursionError):
        return math.inf
    return step if isinstance(step, int) else math.inf
