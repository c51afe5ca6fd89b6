"""What this process may use: processors and memory, as the system and its control groups say."""

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from sgns_cli.machine import available_memory, available_threads

MB = 10**6
FREE = 800 * MB  # on the machine
HELD = 30 * MB  # by this process, and libraries beside
V2 = {
    "memory.max": 500 * MB,
    "memory.current": 450 * MB,
    "memory.stat": "anon 9\nactive_file 5\ninactive_file 20000000",
}
V1 = {
    "memory.limit_in_bytes": 500 * MB,
    "memory.usage_in_bytes": 450 * MB,
    "memory.stat": "cache 7\ninactive_file 9\ntotal_inactive_file 15000000\ntotal_active_file 5000005",
}
LEFT = 70 * MB + 5  # under the limit, with what the caches of files would give


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Path]]:
    """Write files of control groups, and say that this process is in those of `membership`."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(6)), raising=False)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=FREE))
    held = SimpleNamespace(rss=HELD + 100 * MB, shared=100 * MB)
    monkeypatch.setattr(psutil, "Process", lambda: SimpleNamespace(memory_info=lambda: held))

    def write(files: dict[str, object], membership: str = "") -> dict[str, Path]:
        for name, content in files.items():
            path = tmp_path / "cgroup" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{content}\n")
        (tmp_path / "membership").write_text(membership)
        return {"cgroup": tmp_path / "cgroup", "membership": tmp_path / "membership"}

    return write


@pytest.mark.parametrize(
    ("files", "membership", "expected"),
    [
        ({}, "", 6),
        ({"cpu.max": "max 100000"}, "", 6),
        ({"cpu.max": "150000 100000"}, "", 2),
        ({"cpu.max": "5000 100000"}, "", 1),
        ({"cpu.max": "900000 100000"}, "", 6),
        ({"cpu.max": "nonsense"}, "", 6),
        ({"cpu/cpu.cfs_quota_us": "100000", "cpu/cpu.cfs_period_us": "100000"}, "", 1),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, "", 6),
        ({"a/cpu.max": "400000 100000", "a/b/cpu.max": "300000 100000"}, "0::/a/b", 3),
        ({"a/cpu.max": "200000 100000", "a/b/cpu.max": "max 100000"}, "0::/a/b", 2),
        ({"a/cpu.max": "200000 100000"}, "0::/elsewhere\n1:name=systemd:/a", 6),
        ({"cpu/j/cpu.cfs_quota_us": "200000", "cpu/j/cpu.cfs_period_us": "100000"}, "4:cpu,cpuacct:/j\n0::/", 2),
    ],
)
def test_threads_by_affinity_and_quota(
    groups: Callable[..., dict[str, Path]], files: dict[str, object], membership: str, expected: int
) -> None:
    assert available_threads(**groups(files, membership)) == expected


@pytest.mark.parametrize(
    ("files", "membership", "expected"),
    [
        ({}, "", FREE),
        (V2, "", LEFT),
        ({**V2, "memory.max": "max"}, "", FREE),
        ({**V2, "memory.max": 10**12}, "", FREE),
        ({**V2, "memory.current": 600 * MB}, "", 0),
        ({"memory.max": 500 * MB}, "", FREE),
        ({f"memory/{name}": content for name, content in V1.items()}, "", LEFT),
        (
            {f"memory/{name}": content for name, content in {**V1, "memory.limit_in_bytes": 2**63 - 4096}.items()},
            "",
            FREE,
        ),
        ({f"a/b/{name}": content for name, content in V2.items()}, "0::/a/b", LEFT),
        ({f"a/{name}": content for name, content in V2.items()}, "0::/a/b", LEFT),
        ({f"memory/job/{name}": content for name, content in V1.items()}, "7:memory:/job\n0::/", LEFT),
        ({f"a/{name}": content for name, content in V2.items()}, "0::/elsewhere", FREE),
        (V2, "0::/a/name/from/outside", LEFT),
    ],
)
def test_memory_that_is_free_and_allowed(
    groups: Callable[..., dict[str, Path]], files: dict[str, object], membership: str, expected: int
) -> None:
    assert available_memory(**groups(files, membership)) == expected + HELD


def test_memory_of_this_machine(tmp_path: Path) -> None:
    total = psutil.virtual_memory().total
    assert 0 < available_memory() <= total
    assert 0 < available_memory(cgroup=tmp_path, membership=tmp_path / "nowhere") <= total


@pytest.mark.skipif(not hasattr(psutil.Process().memory_info(), "data"), reason="the system has no such limits")
@pytest.mark.parametrize(("limit", "held"), [("RLIMIT_AS", "vms"), ("RLIMIT_DATA", "data")])
def test_limits_of_the_process_count_too(monkeypatch: pytest.MonkeyPatch, limit: str, held: str) -> None:
    import resource

    memory = SimpleNamespace(rss=HELD + 100 * MB, shared=100 * MB, vms=900 * MB, data=60 * MB)
    monkeypatch.setattr(psutil, "Process", lambda: SimpleNamespace(memory_info=lambda: memory))
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=FREE))
    allowed = {getattr(resource, limit): getattr(memory, held) + 70 * MB}
    monkeypatch.setattr(resource, "getrlimit", lambda number: (allowed.get(number, resource.RLIM_INFINITY), -1))
    assert available_memory(cgroup=Path("nowhere"), membership=Path("nowhere")) == 70 * MB + HELD
    allowed.clear()
    assert available_memory(cgroup=Path("nowhere"), membership=Path("nowhere")) == FREE + HELD
