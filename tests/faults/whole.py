"""Whether all that can be seen in a folder is whole: read fully, by the project's own readers, with every checksum.

What is hidden (a name that begins with a dot) is not looked into; `hidden` tells which of it there is.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from sgns_cli import run_folder
from sgns_cli.config_file import load_config
from sgns_cli.corpus.token_store import open_token_store
from sgns_cli.corpus.tokenizer import load_tokenizer
from sgns_cli.files import checksum, read_json
from sgns_cli.folders import INCOMPLETE
from sgns_cli.tensors import map_tensors
from sgns_cli.token_folder import CACHE, META
from sgns_cli.vectors.export.static_model import FILES as STATIC_MODEL
from sgns_cli.vectors.run import open_run

Files = dict[str, bytes]
STEP_FILES = {run_folder.MODEL, run_folder.TRAINING, run_folder.STATE}


def faults(folder: Path) -> list[str]:
    """What is not whole among all that is visible under `folder`, a line each: none if nothing was lost."""
    return list(_faults(folder))


def hidden(folder: Path) -> list[str]:
    """What a writer leaves that was killed: hidden names, anywhere under `folder`."""
    left = [path for path in folder.rglob(".*") if path.name.endswith((INCOMPLETE, ".lock"))]
    return sorted(str(path.relative_to(folder)) for path in left)


def files(path: Path) -> Files:
    """What a result consists of, by its path in it; hidden files are not looked at."""
    if path.is_file():
        return {path.name: path.read_bytes()}
    names = {str(file.relative_to(path)): file for file in path.rglob("*") if file.is_file()}
    return {name: file.read_bytes() for name, file in names.items() if f"/{name}".count("/.") == 0}


def step_bytes(step: Path) -> Files:
    """The two files of a step that equal training makes equal."""
    return {name: (step / name).read_bytes() for name in (run_folder.MODEL, run_folder.TRAINING)}


def _faults(folder: Path) -> Iterator[str]:
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith(".") and entry.name != CACHE:
            continue
        try:
            if entry.is_file():
                _read_file(entry)
            elif (entry / META).exists() or entry.parent.name == CACHE:
                _read_token_folder(entry)
            elif (entry / "modules.json").exists():
                _read_static_model(entry)
            elif entry.parent.name == "runs" and entry.name != CACHE:
                _read_run(entry)
            else:
                yield from _faults(entry)
        except Exception as error:  # whatever a reader stumbles over
            yield f"{entry}: {type(error).__name__}: {error}"


def _read_file(path: Path) -> None:
    """A file by itself, by what its name says it is; the texts of a corpus are whatever they are."""
    if path.suffix == ".safetensors":
        assert all(np.asarray(tensor).nbytes >= 0 for tensor in map_tensors(path).values())
    elif path.suffix == ".npy":
        np.load(path)
    elif path.suffix == ".yaml":
        load_config(path, [])
    elif path.suffix == ".json":
        read_json(path)


def _read_token_folder(folder: Path) -> None:
    store = open_token_store(folder, verify=True)
    assert store.tokenizer().fingerprint == store.meta["tokenizer"]["fingerprint"], "the tokenizer is another"
    names = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert names == {META, *store.meta["checksums"]}, names


def _read_static_model(folder: Path) -> None:
    assert {path.name for path in folder.iterdir()} == set(STATIC_MODEL)
    for path in folder.iterdir():
        if path.name != "modules.json":  # a list
            _read_file(path)
    json.loads((folder / "modules.json").read_text())


def _read_run(run: Path) -> None:
    """A run may have no step yet; but what is there of it must be whole."""
    load_config(run / run_folder.CONFIG, [])
    tokenizer = load_tokenizer(run / run_folder.TOKENIZER)
    reported = _read_metrics(run / run_folder.METRICS)
    steps = run_folder.steps(run)
    for step in steps:
        _read_step(step, tokenizer.fingerprint)
    names = {path.name for path in run.iterdir() if not path.name.startswith(".")}
    assert names - {step.name for step in steps} <= {run_folder.CONFIG, run_folder.TOKENIZER, run_folder.METRICS}, names
    last = run_folder.step_number(steps[-1]) if steps else 0
    before = [step for step in reported if step < last]
    assert before == sorted(set(before)), f"metrics repeat a step: {before}"


def _read_metrics(path: Path) -> list[int]:
    """The steps reported. Only the last line may be cut short: it was being written."""
    if not path.exists():
        return []
    *lines, _cut_short = path.read_text(encoding="utf-8").split("\n")
    return [json.loads(line)["step"] for line in lines]


def _read_step(step: Path, fingerprint: str) -> None:
    assert {path.name for path in step.iterdir()} == STEP_FILES, f"{step} holds other files"
    state = run_folder.read_state(step)
    assert state["step"] == run_folder.step_number(step)
    assert state["fingerprints"]["tokenizer"] == fingerprint, "the run's tokenizer is another"
    assert state["checksums"] == {name: checksum(step / name) for name in state["checksums"]}, f"{step}: checksums"
    model = open_run(step)
    assert np.isfinite(model.embeddings).all()
    assert np.isfinite(model.contexts).all()
