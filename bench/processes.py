"""How the benches measure: every measurement is a process of its own, and knows nothing of the others.

The process that imports this imports nothing heavy: Linux counts the memory of a parent as the first peak of its child.
"""

import datetime
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
KJV = HERE.parent / "data" / "kjv.txt"
ELTEC = HERE / "eltec-eng.txt.xz"  # 99 English novels of the ELTeC, a paragraph a line: not in the repository
Record = dict[str, Any]


@dataclass(frozen=True)
class Process:
    """What a process printed last, how long it took, and its peak memory."""

    record: Record
    seconds: float
    peak_mb: float
    anonymous_mb: float  # 0 where nobody watched


def run(command: Sequence[str | Path], *, watch: bool = False) -> Process:
    """Run a command to its end; `watch` samples its anonymous memory (Linux). Its last line is JSON, or nothing is."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        began = time.perf_counter()
        process = subprocess.Popen([str(part) for part in command], stdout=out, stderr=errors)
        anonymous = 0
        try:
            pid = 0
            while not pid:
                pid, status, usage = os.wait4(process.pid, os.WNOHANG if watch else 0)
                if not pid:
                    anonymous = max(anonymous, _anonymous_kb(process.pid))
                    time.sleep(0.005)
            seconds = time.perf_counter() - began
            process.returncode = os.waitstatus_to_exitcode(status)
        finally:
            if process.returncode is None:
                process.kill()
                process.wait()
        out.seek(0)
        errors.seek(0)
        if process.returncode:
            raise SystemExit(f"{' '.join(map(str, command))}\nfailed:\n{errors.read().decode()[-2000:]}")
        printed = out.read().decode().splitlines()
    peak = usage.ru_maxrss / (1024**2 if sys.platform == "darwin" else 1024)
    record = json.loads(printed[-1]) if printed and printed[-1].startswith("{") else {}
    return Process(record, seconds, peak, anonymous / 1024)


def _anonymous_kb(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except OSError:
        return 0
    return int(status.split("RssAnon:")[1].split()[0]) if "RssAnon:" in status else 0


def worker(name: str, *, file: str = "peers.py", **options: object) -> list[str]:
    """The command of a worker."""
    return [sys.executable, str(HERE / file), name, json.dumps(options, default=str)]


def sgns(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "sgns_cli", *map(str, arguments)]


def environment(threads: Sequence[int]) -> Record:
    """Versions and machine."""
    names = ("sgns-cli", "numpy", "numba", "llvmlite", "gensim", "fasttext-wheel", "fasttext", "scipy")
    names += ("tiktoken", "rustbpe", "tokenizers", "model2vec")
    versions = {"python": platform.python_version()}
    for name in names:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = cpuinfo.read_text(encoding="utf-8").splitlines()
        model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), model)
    now = datetime.datetime.now().astimezone().isoformat(timespec="seconds")
    return {
        "date": now,
        "processor": model,
        "cores": os.cpu_count(),
        "load": os.getloadavg(),
        "threads": list(threads),
        "system": platform.platform(),
        "versions": versions,
    }
