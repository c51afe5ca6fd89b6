"""What this process may use of the machine: processors, and memory. Also where a container allows less of them.

Control groups of Linux are read from their files, those of version 2 and those of version 1.
"""

import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CGROUP = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")
_MEMORY_FILES = (  # limit, usage, and the names in memory.stat of what the kernel gives up when asked
    ("memory.max", "memory.current", ("inactive_file", "active_file")),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", ("total_inactive_file", "total_active_file")),
)


def available_threads(*, cgroup: Path = CGROUP, membership: Path = MEMBERSHIP) -> int:
    """Processors by affinity, and by the container's quota where that is less; at least 1."""
    affinity = getattr(os, "sched_getaffinity", None)  # not on every system
    processors = len(affinity(0)) if affinity else os.cpu_count() or 1
    quotas = filter(None, map(_quota, _control_groups("cpu", cgroup, membership)))
    return max(1, min([processors, *map(math.ceil, quotas)]))


def available_memory(*, cgroup: Path = CGROUP, membership: Path = MEMBERSHIP) -> int:
    """Bytes of memory that this process may come to hold, with what it holds already.

    What is free on the machine, or left to the container or by `ulimit` where that is less; caches of files count as
    free.
    """
    import psutil  # type: ignore[import-untyped]

    held = psutil.Process().memory_info()
    own = held.rss - getattr(held, "shared", 0)  # where the system tells pages of files apart
    groups = (_memory_left(group) for group in _control_groups("memory", cgroup, membership))
    left = [psutil.virtual_memory().available, *(bytes_ for bytes_ in groups if bytes_ is not None)]
    return max(0, int(min([*left, *_limits_left(held)]) + own))


def _control_groups(controller: str, cgroup: Path, membership: Path) -> Iterator[Path]:
    """The folders of the groups that this process is in, and of all above them: every one's limit holds.

    In a container its own group may be the top of the tree, whatever name the membership has for it.
    """
    yield from (cgroup, cgroup / controller)
    try:
        lines = membership.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers or controller in controllers.split(","):
            folder = cgroup / controller if controllers else cgroup
            for name in path.strip("/").split("/"):
                folder /= name
                yield folder


def _limits_left(held: Any) -> Iterator[int]:  # noqa: ANN401 - psutil has no types
    """Bytes that this process may still take under its own limits, as `ulimit -v` and `ulimit -d` set them."""
    if not hasattr(held, "data"):  # not on every system
        return
    import resource

    for limit, taken in ((resource.RLIMIT_AS, held.vms), (resource.RLIMIT_DATA, held.data)):
        allowed = resource.getrlimit(limit)[0]
        if allowed != resource.RLIM_INFINITY:
            yield allowed - taken


def _quota(group: Path) -> float | None:
    """Processors that a control group allows (cpu.max of version 2, cfs files of version 1), or None."""
    try:
        text = (group / "cpu.max").read_text(encoding="ascii")
    except (OSError, ValueError):
        try:
            quota = (group / "cpu.cfs_quota_us").read_text(encoding="ascii")
            text = f"{quota} {(group / 'cpu.cfs_period_us').read_text(encoding='ascii')}"
        except (OSError, ValueError):
            return None
    try:
        allowed, period = (float(part) for part in text.split())
    except ValueError:  # "max 100000": no limit
        return None
    return allowed / period if allowed > 0 and period > 0 else None


def _memory_left(group: Path) -> int | None:
    """Bytes that a control group has left under its limit, or None if it has none."""
    for limit, usage, caches in _MEMORY_FILES:
        try:
            allowed, used = (int((group / name).read_text(encoding="ascii")) for name in (limit, usage))
            stat = dict(line.split() for line in (group / "memory.stat").read_text(encoding="ascii").splitlines())
            return max(0, allowed - used + sum(int(stat.get(name, 0)) for name in caches))
        except (OSError, ValueError):  # other files, or "max"
            continue
    return None
