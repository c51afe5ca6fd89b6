"""Which vectors are meant, and what kind of file they lie in."""

import os
from collections.abc import Mapping
from pathlib import Path

from sgns_cli.errors import SgnsError, UsageError
from sgns_cli.run_folder import STATE, resolve_step, run_folders, step_number, steps
from sgns_cli.vectors.model import Model
from sgns_cli.vectors.run import open_run
from sgns_cli.vectors.tensor_file import open_tensor_file
from sgns_cli.vectors.word_vectors import open_word_vectors

SAFETENSORS = ".safetensors"


def resolve_model(
    path: Path | None, *, environment: Mapping[str, str] = os.environ, runs: Path = Path("runs")
) -> tuple[Path, str]:
    """The step or file to ask, and a note saying which ("" where `path` named it).

    `path`, else $SGNS_MODEL, else the run under `runs` whose newest complete step was written last.
    """
    if path is not None:
        return _step_or_file(path), ""
    if named := environment.get("SGNS_MODEL"):
        found = _step_or_file(Path(named))
        return found, f"using {found} ($SGNS_MODEL)"
    latest = [step for run in run_folders(runs) for step in steps(run)[-1:]]
    if not latest:
        raise SgnsError(
            f"no model is named and none is under {runs}",
            "train one with `sgns train CONFIG`, or give --model a run folder",
        )
    step = max(latest, key=lambda step: (_written(step), str(step)))
    return step, f"using {step}"


def open_model(path: Path, *, tensor: str | None = None, encoding: str | None = None) -> Model:
    """Open a run of sgns or one of its steps, a word2vec file (text or binary), a GloVe file, or a .safetensors file.

    `tensor` names the matrix of a .safetensors file, `encoding` what its rows are: an encoding, a rank file, or a list
    of tokens. Raises SgnsError if a file is missing or damaged, UsageError for options that do not go with it.
    """
    if path.is_file() and path.suffix == SAFETENSORS:
        return open_tensor_file(path, tensor=tensor, encoding=encoding)
    if tensor is not None or encoding is not None:
        raise UsageError(f"--tensor and --encoding go with a {SAFETENSORS} file, and {path} is none", "leave them out")
    return open_word_vectors(path) if path.is_file() else open_run(path)


def _step_or_file(path: Path) -> Path:
    if path.is_file():
        return path
    if path.exists() and not path.is_dir():
        raise SgnsError(f"{path} is a pipe or a device", "write its vectors to a file first")
    if matrices := sorted(path.glob(f"*{SAFETENSORS}")) if step_number(path) is None else []:
        hint = f"for its matrix: --model {matrices[0]} --tensor NAME --encoding NAME|FILE"
        raise SgnsError(f"{path} is no run folder", hint)
    if run_folders(path) and not steps(path) and any(steps(run) for run in run_folders(path)):
        raise SgnsError(f"{path} is no run folder but has some in it", "name one of them; `sgns info` lists them")
    return resolve_step(path)


def _written(step: Path) -> int:
    """When a step was written, in nanoseconds."""
    try:
        return (step / STATE).stat().st_mtime_ns
    except OSError:
        return 0
