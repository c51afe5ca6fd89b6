"""One writer at a time: a folder is held by a process while it makes it, and free again when that process ends,
however it ends.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile

from sgns_cli.errors import SgnsError
from sgns_cli.folders import make_folder, writing

LOCK = ".lock"


class Held(SgnsError):
    """Another process holds what was to be held."""


@contextmanager
def locked(path: Path, *, wait: bool = False) -> Iterator[bool]:
    """Hold `path`, by a hidden file beside it that goes again; the folder that it is to lie in is made.

    Yields whether it is held: it is not where its parent takes no file or no locks, and what is written there first
    will say more. Raises Held if another process holds it, or waits until it is free; SgnsError if the parent cannot
    be made.
    """
    path = path if path.name not in ("", "..") else path.resolve()
    if not path.parent.is_dir():
        with writing(path):
            make_folder(path.parent)
    if not path.name or not os.access(path.parent, os.W_OK):  # a lock would take this for somebody else's hold
        yield False
        return
    from filelock import FileLock, Timeout

    file = path.with_name(f".{path.name}{LOCK}")
    lock = FileLock(file)
    try:
        lock.acquire(timeout=-1 if wait else 0)
    except (Timeout, OSError, NotImplementedError) as error:
        if isinstance(error, Timeout) and _takes_files(path.parent):
            raise Held(
                f"another process is writing {path} at this moment",
                "wait for it to end, or write elsewhere with -o DIR",
            ) from error
        yield False
        return
    try:
        yield True
    finally:
        with suppress(OSError):  # first, so that nobody's new file goes
            file.unlink()
        lock.release()


def remove_stale_locks(parent: Path) -> None:
    """Remove what processes that were killed held in `parent`; what a living one holds stays."""
    for file in sorted(parent.glob(f".*{LOCK}")):
        with suppress(Held), locked(parent / file.name.removeprefix(".").removesuffix(LOCK)):
            pass


def _takes_files(folder: Path) -> bool:
    """Whether a file may be made there: in /proc nobody can, whatever its rights say."""
    try:
        with TemporaryFile(dir=folder):
            return True
    except OSError as error:
        return error.errno not in (errno.ENOENT, errno.EPERM, errno.EACCES, errno.EROFS)  # it may be full, say
