"""What lies on disk, in a few facts: runs, their steps, token folders. What `sgns info` shows.

Reads the small files of a folder (state.json, config.yaml, the last of metrics.jsonl, meta.json) and the sizes of the
others. What a run's matrices and a corpus hold, vectors/report.py and corpus/report.py look at.
"""

import json
import math
import os
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sgns_cli.errors import SgnsError
from sgns_cli.run_folder import (
    CONFIG,
    METRICS,
    STATE,
    of_latest,
    read_metrics,
    read_state,
    run_folders,
    step_number,
    steps,
)
from sgns_cli.token_folder import CACHE, META, damaged, is_token_folder, read_meta

Facts = dict[str, Any]
TOLD = {  # what meta.json of a token folder says, and as what
    "tokens": int,
    "documents": int,
    "types": int,
    "dtype": str,
    "tokenizer": dict,
    "bytes": int,
    "sources": list,
    "skipped": list,
    "notes": list,
    "checksums": dict,
}
CONFIGURED = {  # what a run tells of its config, beside what state.json has, by section
    "data": ("sources", "document", "lowercase"),
    "model": ("window", "negatives", "noise_power", "subsample_threshold"),
    "train": ("epochs", "learning_rate"),
}


@dataclass(frozen=True)
class Report:
    """One record about the whole, and tables about its parts by name."""

    facts: Facts
    tables: dict[str, list[Facts]]


def describe(path: Path) -> Facts:
    """Facts about a token folder, a run, or a step of one. Raises SgnsError if `path` is none of them."""
    if not path.exists():
        raise SgnsError(f"there is nothing at {path}", "give a run, a step or a token folder; `sgns info` lists them")
    if is_token_folder(path):
        return describe_tokens(path)
    check_run(path)
    return of_latest(path, lambda step: describe_step(path, step))


def check_run(path: Path) -> None:
    """Raise SgnsError if `path` is neither a run nor one of its steps."""
    if not path.exists():
        raise SgnsError(f"there is nothing at {path}", "give a run, a step or a token folder; `sgns info` lists them")
    if not path.is_dir() or (step_number(path) is None and not steps(path)):
        raise SgnsError(
            f"{path} is no run, step or token folder", "`sgns info` lists those here; `sgns train CONFIG` makes a run"
        )


def describe_step(path: Path, step: Path) -> Facts:
    """Facts about a step, by the `path` that was named for it: a run, or itself."""
    state = read_state(step)
    metrics = state.get("metrics")
    metrics = metrics if isinstance(metrics, dict) else {}
    facts: Facts = {"kind": "step" if step_number(path) is not None else "run", "path": str(path), "step": step.name}
    if facts["kind"] == "run":
        facts["steps"] = len(steps(path))
    for name in ("epoch", "tokens_seen", "tokens_total"):
        facts[name] = state.get(name)
    facts |= {"loss": metrics.get("loss"), "held_out_loss": metrics.get("held_out_loss")}
    for name in ("n_vocab", "dim", "min_count", "positions", "context_length", "seed"):
        facts[name] = state.get(name)
    return _finite(facts) | {"disk_bytes": size(path)}


def describe_training(step: Path) -> Facts:
    """How a run was trained up to one of its steps: values of its config, of its report at that step, and when.

    None where the run has no config, or no report of that step. Raises SgnsError if one of them is damaged.
    """
    from sgns_cli.run_config import load_run_config  # pydantic takes a while to import, and a listing does without

    values = load_run_config(step.parent).model_dump() if (step.parent / CONFIG).exists() else {}
    facts = {name: values.get(section, {}).get(name) for section, names in CONFIGURED.items() for name in names}
    report = _report_at(step)
    facts["train_seconds"] = report.get("seconds")
    for name in ("tokens_per_second", "device", "threads"):
        facts[name] = report.get(name)
    written = datetime.fromtimestamp((step / STATE).stat().st_mtime, UTC)
    return _finite(facts) | {"written": written.isoformat(timespec="seconds")}


def _report_at(step: Path) -> Facts:
    """The last line of metrics.jsonl that is of this step; lines that are cut short or something else are passed by."""
    if not (step.parent / METRICS).exists():
        return {}
    for line in reversed(read_metrics(step.parent, step).splitlines()):
        with suppress(ValueError, RecursionError):
            record = json.loads(line)
            if isinstance(record, dict) and record.get("step") == step_number(step):
                return record
    return {}


def _finite(facts: Facts) -> Facts:
    """The same facts, with None for what is no number: JSON knows no NaN."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value for name, value in facts.items()
    }


def describe_tokens(path: Path) -> Facts:
    """Facts about a token folder, as its meta.json has them: corpus/report.py has those of the other files.

    Raises SgnsError if it is of another format, or a file of it is missing.
    """
    meta = read_meta(path)
    wrong = [name for name, kind in TOLD.items() if not isinstance(meta.get(name), kind)]
    wrong += [name for name, kind in TOLD.items() if kind is int and not wrong and abs(meta[name]) >= 2**63]
    if wrong:
        raise damaged(path, f"{META} says nothing proper of `{wrong[0]}`")
    missing = [name for name in meta["checksums"] if not (path / name).is_file()]
    if missing:
        raise damaged(path, f"{missing[0]} is missing")
    facts: Facts = {"kind": "tokens", "path": str(path), "sources": meta["sources"]}
    facts |= {"tokenizer": meta["tokenizer"].get("name"), "n_vocab": meta["tokenizer"].get("n_vocab")}
    for name in ("dtype", "documents", "tokens", "types"):
        facts[name] = meta[name]
    return facts | {"skipped": len(meta["skipped"]), "disk_bytes": size(path), "text_bytes": meta["bytes"]}


def list_here(runs: Path) -> tuple[list[Facts], list[SgnsError]]:
    """A line of facts for every run and cached token folder under `runs`, and what could not be read."""
    listed: list[Facts] = []
    failed: list[SgnsError] = []
    for path in [*run_folders(runs), *run_folders(runs / CACHE)]:
        if not is_token_folder(path) and not steps(path):
            continue
        try:
            facts = describe(path)
        except SgnsError as error:
            failed.append(error)
            continue
        names = ("kind", "path", "step", "tokens", "loss", "held_out_loss", "n_vocab", "dim", "disk_bytes")
        listed.append({name: facts.get(name) for name in names})
    return listed, failed


def size(path: Path) -> int:
    """Bytes of all files below `path`, which may go meanwhile."""
    total = 0
    for folder, _, files in os.walk(path):  # which passes over folders that go
        for name in files:
            with suppress(OSError):
                total += Path(folder, name).stat().st_size
    return total
