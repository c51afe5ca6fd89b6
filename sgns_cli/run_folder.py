"""The layout of a run folder: what lies where, which step is the latest. The one place that knows its names.

    runs/kjv/config.yaml                       resolved
             tokenizer/                        builds the tokenizer without the corpus
             metrics.jsonl                     a line a report
             step-00001000/model.safetensors   embeddings [n_vocab, dim], positions [context_length, dim] if learned
                           training.safetensors    contexts [n_vocab, dim], counts [n_vocab]
                           state.json

Training writes it (training/checkpoint.py), queries read it (vectors/run.py). Standard library only.
"""

import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from sgns_cli.errors import SgnsError, UsageError
from sgns_cli.files import own_file, read_json, read_whole, unsealed
from sgns_cli.folders import is_incomplete

FORMAT_VERSION = 1
MOST_METRICS = 2**30  # bytes: a line a second for a month
CONFIG = "config.yaml"
TOKENIZER = "tokenizer"
METRICS = "metrics.jsonl"
MODEL = "model.safetensors"
TRAINING = "training.safetensors"
STATE = "state.json"
_STEP = re.compile("step-([0-9]{8,})")
T = TypeVar("T")


def step_name(step: int) -> str:
    """step-00001000 for 1000; wider numbers keep all their digits."""
    return f"step-{step:08d}"


def step_number(folder: Path) -> int | None:
    """The number in a step folder's name, or None if it is no step folder."""
    match = _STEP.fullmatch(folder.name)
    return int(match[1]) if match and folder.is_dir() else None


def steps(run: Path) -> list[Path]:
    """The complete steps of a run, oldest first, compared as numbers."""
    try:
        numbered = [(step_number(entry), entry) for entry in run.iterdir()]
    except OSError:
        return []
    return [entry for _, entry in sorted((number, entry) for number, entry in numbered if number is not None)]


def run_folders(runs: Path) -> list[Path]:
    """The folders under `runs` that may be runs, by name; hidden ones are none."""
    try:
        return sorted(entry for entry in runs.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    except OSError:
        return []


def is_unused(folder: Path) -> bool:
    """Whether there is no such folder, or nothing in it but what a writer left that was killed."""
    return not folder.exists() or all(map(is_incomplete, folder.iterdir()))


def is_run_folder(folder: Path) -> bool:
    """Whether a folder holds a run and nothing else: a config, and no name that is not one of a run's."""
    names = {CONFIG, TOKENIZER, METRICS}
    try:
        entries = list(folder.iterdir())
    except OSError:
        return False
    return any(entry.name == CONFIG for entry in entries) and all(
        entry.name in names or step_number(entry) is not None or is_incomplete(entry) for entry in entries
    )


def refuse_inside(path: Path) -> None:
    """Raise UsageError if a file written to `path` would lie in a run or a step of one, or replace what is there."""
    folder = path.absolute().parent
    if step_number(folder) is not None or steps(folder) or is_run_folder(folder):
        raise UsageError(f"{path} lies in the run folder {folder}", "write it somewhere else")


def resolve_step(path: Path) -> Path:
    """The step folder that `path` means: itself, or the latest of a run. Raises SgnsError if there is none."""
    if not path.exists():
        raise SgnsError(
            f"there is no run at {path}",
            "give a run, one of its steps, or a file of vectors; `sgns info` lists the runs",
        )
    if step_number(path) is not None:
        return path
    found = steps(path)
    if not found:
        raise SgnsError(f"{path} is no run folder: it has no complete step", "train one with `sgns train CONFIG`")
    return found[-1]


def of_latest(path: Path, read: Callable[[Path], T]) -> T:
    """What `read` finds in the step that `path` means: again, where a training has removed that one meanwhile."""
    while True:
        step = resolve_step(path)
        try:
            return read(step)
        except SgnsError:
            if step.exists():
                raise
            if step == path:
                raise SgnsError(f"{path} is no longer there", "name a step that is, or the run") from None


def step_file(step: Path, name: str) -> Path:
    """The path of a file of a step. Raises SgnsError if it leads out of the run."""
    return own_file(step.parent, f"{step.name}/{name}")


def read_state(step: Path) -> dict[str, Any]:
    """state.json of a step. Raises SgnsError if it is damaged or of a newer format."""
    state = read_json(step_file(step, STATE))
    if state.get("format_version") != FORMAT_VERSION:
        found = str(state.get("format_version"))[:20]
        raise SgnsError(
            f"{step / STATE} has format_version {found}, this sgns reads {FORMAT_VERSION}",
            "use the version of sgns that wrote it",
        )
    return unsealed(step / STATE, state)


def read_metrics(run: Path, step: Path | None) -> str:
    """The text of metrics.jsonl; what was in it when `step` was written is checked.

    Raises SgnsError if it cannot be read or is not what was written.
    """
    path = own_file(run, METRICS)
    try:
        data = read_whole(path, at_most=MOST_METRICS)
    except OSError as error:
        raise SgnsError(f"cannot read {path}: {error.strerror}", "check its rights") from error
    log = read_state(step).get("log") if step is not None else None
    if isinstance(log, dict) and isinstance(length := log.get("bytes"), int):
        whole = hashlib.sha256(data[:length]).hexdigest() == log.get("sha256")
    else:
        whole = log is None  # as in a run that was made elsewhere
    if not whole:
        raise SgnsError(f"{path} is damaged: it is not what was written", "remove it to go on without its lines")
    return data.decode(errors="replace")


def tensor_sums(step: Path, state: dict[str, Any]) -> dict[str, int]:
    """The CRC-32 of each tensor of a step, by name, as its state has them; none of a run that was made elsewhere.

    Raises SgnsError if they are damaged.
    """
    sums = state.get("tensors", {})
    if not isinstance(sums, dict) or not all(isinstance(crc, int) for crc in sums.values()):
        raise SgnsError(f"{step / STATE} is damaged: `tensors` are no checksums", "use another step of the run")
    return sums
