"""How many processors this process may use: what the default of --threads is. Standard library only."""

import math
import os
from pathlib import Path


def available_threads(*, cgroup: Path = Path("/sys/fs/cgroup")) -> int:
    """Processors by affinity, and by the container's quota where that is less; at least 1."""
    affinity = getattr(os, "sched_getaffinity", None)  # not on every system
    processors = len(affinity(0)) if affinity else os.cpu_count() or 1
    quota = _quota(cgroup)
    return max(1, processors if quota is None else min(processors, math.ceil(quota)))


def _quota(cgroup: Path) -> float | None:
    """Processors that the control group allows (cpu.max of version 2, cfs files of version 1), or None."""
    try:
        text = (cgroup / "cpu.max").read_text(encoding="ascii")
    except (OSError, ValueError):
        folder = cgroup / "cpu"
        try:
            quota = (folder / "cpu.cfs_quota_us").read_text(encoding="ascii")
            text = f"{quota} {(folder / 'cpu.cfs_period_us').read_text(encoding='ascii')}"
        except (OSError, ValueError):
            return None
    try:
        allowed, period = (float(part) for part in text.split())
    except ValueError:  # "max 100000": no limit
        return None
    return allowed / period if allowed > 0 and period > 0 else None
