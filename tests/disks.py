"""Disks that refuse, for tests: from the n-th change of a folder on, in this process, without a mount; and small ones.

A full disk is the system's own limit on the size of files, set to almost nothing at that moment; a read-only one is an
audit hook that raises what the system would; one that fails is an `os.fsync` that does.
"""

import errno
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

Kind = Literal["full", "read-only", "failing"]
ROOM = 7  # bytes of a file that still fit on a full disk: less than any file has
CHANGES = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.truncate")


@dataclass
class Disk:
    """How often a folder was changed, and whether it has refused by now. `number` None: it never does."""

    folder: Path
    kind: Kind
    number: int | None
    changes: int = 0

    @property
    def refuses(self) -> bool:
        return self.number is not None and self.changes >= self.number

    def heard(self, event: str, arguments: tuple) -> None:
        if event == "open":
            path, _, flags = arguments
            if flags & (os.O_WRONLY | os.O_RDWR) and self._is_here(path):
                self._change(path)
        elif event in CHANGES and self.kind == "read-only":
            path, in_folder = arguments[0], arguments[-1]
            if in_folder not in (-1, None) or self._is_here(path):
                self._change(path)

    def synced(self) -> None:
        if self.kind == "failing":
            self.changes += 1
            if self.refuses:
                raise OSError(errno.EIO, os.strerror(errno.EIO))

    def _is_here(self, path: object) -> bool:
        return isinstance(path, str | bytes | os.PathLike) and Path(os.fsdecode(path)).absolute().is_relative_to(
            self.folder
        )

    def _change(self, path: object) -> None:
        if self.kind == "failing":
            return
        self.changes += 1
        if self.refuses and self.kind == "full":
            _limit_files(ROOM)
        elif self.refuses:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)


_disk: Disk | None = None
_hooks: list[object] = []


def _hook(event: str, arguments: tuple) -> None:
    if _disk is not None:
        _disk.heard(event, arguments)


def _limit_files(size: int) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


@contextmanager
def refusing(folder: Path, kind: Kind, number: int | None = None) -> Iterator[Disk]:
    """A disk that refuses from the `number`-th change under `folder` on (None: that only counts)."""
    global _disk
    if not _hooks:  # there is no way to take one away again
        sys.addaudithook(_hook)
        _hooks.append(_hook)
    sync, before = os.fsync, resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    disk = Disk(folder.absolute(), kind, number)

    def fsync(descriptor: int) -> None:
        disk.synced()
        sync(descriptor)

    _disk, os.fsync = disk, fsync
    try:
        yield disk
    finally:
        _disk, os.fsync = None, sync
        _limit_files(before)


@contextmanager
def mounted(folder: Path, *, size: str) -> Iterator[Path]:
    """A file system of its own at `folder`, in memory; skips where the tests may not mount one."""
    folder.mkdir()
    try:
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "sgns", folder], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("to mount a file system is not allowed here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)
