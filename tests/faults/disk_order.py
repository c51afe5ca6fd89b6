"""What a command did to the disk, in which order: is all of it there when the power goes?

An audit hook sees files opened to write, names made, changed and removed; `os.fsync` and the exchange of two names are
replaced by functions that tell of it. Before a hidden name becomes a visible one, everything under it has to be on the
disk, since its last change; after it the parent, and only then may the old one go. What is hidden to be removed has to
be hidden on the disk first.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from sgns_cli import folders
from sgns_cli.folders import INCOMPLETE
from sgns_cli.token_folder import CACHE

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
State = tuple[int, int]  # size and time of the last change


class DiskOrder:
    """Follows the changes under a folder; `faults` says what was out of order."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self.faults: list[str] = []
        self.published: list[str] = []
        self.at = 0  # the number of the present event
        self.changed: dict[Path, int] = {}
        self.synced: dict[int, tuple[int, State]] = {}  # by inode
        self.waiting: dict[Path, str] = {}  # folders in which a name is not on the disk yet, and which

    def open(self, path: Path) -> None:
        self.changed[path] = self.at
        if not path.exists():
            self.changed[path.parent] = self.at

    def make(self, path: Path) -> None:
        self.changed[path] = self.changed[path.parent] = self.at
        if self._visible(path) and not path.exists():
            self.waiting[path.parent] = path.name

    def rename(self, old: Path, new: Path) -> None:
        self.faults += self.unsynced(old, new)
        self.renamed(old, new)

    def renamed(self, old: Path, new: Path) -> None:
        if _publishes(old, new):
            self.published.append(self._name(new))
        if self._visible(old) != self._visible(new):
            self.waiting[new.parent] = f"{old.name} -> {new.name}"
        for path in [path for path in self.changed if path == old or old in path.parents]:
            self.changed[new / path.relative_to(old)] = self.changed.pop(path)
        self.changed[old.parent] = self.changed[new.parent] = self.at

    def unsynced(self, old: Path, new: Path) -> list[str]:
        """What is not on the disk of something that is to have a name; nothing if it is to have none."""
        if not _publishes(old, new):
            return []
        return [fault for path in [old, *old.rglob("*")] for fault in self._check(path)]

    def remove(self, path: Path) -> None:
        if not os.path.lexists(path):  # or it is relative to another folder, as in rmtree
            return
        if path.parent in self.waiting and path.name.endswith(INCOMPLETE):
            self.faults.append(f"{self._name(path)} goes before this is on the disk: {self.waiting[path.parent]}")
        self.changed.pop(path, None)
        self.changed[path.parent] = self.at

    def fsync(self, descriptor: int) -> None:
        status = os.fstat(descriptor)
        self.synced[status.st_ino] = (self.at, (status.st_size, status.st_mtime_ns))
        for folder in [folder for folder in self.waiting if folder.stat().st_ino == status.st_ino]:
            del self.waiting[folder]

    def end(self) -> None:
        """The command has ended: nothing may be waiting."""
        self.faults += [
            f"{name} is not on the disk: {self._name(to)} was not synced" for to, name in self.waiting.items()
        ]
        for path in self.changed:
            if path.is_file() and self._visible(path):
                self.faults += self._check(path)

    def _check(self, path: Path) -> Iterator[str]:
        status = path.stat()
        at, state = self.synced.get(status.st_ino, (-1, (0, 0)))
        written = path.is_file() and state != (status.st_size, status.st_mtime_ns)
        if at < self.changed.get(path, 0) or written:
            yield f"{self._name(path)} is not on the disk as it is"

    def _visible(self, path: Path) -> bool:
        return not any(part.startswith(".") and part != CACHE for part in path.relative_to(self.root).parts)

    def _name(self, path: Path) -> str:
        return str(path.relative_to(self.root))


def _publishes(old: Path, new: Path) -> bool:
    return old.name.endswith(INCOMPLETE) and not new.name.endswith(INCOMPLETE)


_followed: list[DiskOrder] = []  # by the hook, which cannot be taken away again


def _hook(event: str, arguments: tuple[object, ...]) -> None:
    for order in _followed:
        _tell(order, event, [Path.cwd() / one if isinstance(one, str) else one for one in arguments])


def _tell(order: DiskOrder, event: str, arguments: list[object]) -> None:
    paths = [one for one in arguments if isinstance(one, Path) and order.root in one.parents]
    if not paths or paths[0].name.endswith(".lock"):
        return
    order.at += 1
    if event == "open" and isinstance(arguments[2], int) and arguments[2] & WRITING and not paths[0].is_dir():
        order.open(paths[0])
    elif event == "os.mkdir":
        order.make(paths[0])
    elif event == "os.rename":
        order.rename(paths[0], paths[1])
    elif event in ("os.remove", "os.rmdir", "shutil.rmtree"):
        order.remove(paths[0])


@contextmanager
def following(root: Path) -> Iterator[DiskOrder]:
    """Follow what this process does under `root` until the body ends; then `faults` is complete."""
    order = DiskOrder(root)
    fsync, exchange = os.fsync, folders._exchange

    def fsync_told(descriptor: int) -> None:
        fsync(descriptor)
        order.at += 1
        order.fsync(descriptor)

    def exchange_told(one: Path, other: Path) -> bool:
        order.at += 1
        new, old = Path.cwd() / one, Path.cwd() / other
        faults = order.unsynced(new, old)
        done = exchange(one, other)
        if done:
            order.faults += faults
            order.renamed(new, old)
        return done

    _listen()
    os.fsync, folders._exchange = fsync_told, exchange_told
    _followed.append(order)
    try:
        yield order
    finally:
        _followed.remove(order)
        os.fsync, folders._exchange = fsync, exchange
    order.end()


@cache
def _listen() -> None:
    """Add the hook, once in the life of a process."""
    sys.addaudithook(_hook)
