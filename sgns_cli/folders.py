"""Folders and files that are complete or not there: how token folders, steps and arrays reach the disk.

Each is written under a hidden name ending in `.incomplete`, every file is fsynced, and only then is it renamed to the
name that others look for; so a name that can be seen is whole, whatever happened to the writer, and stays when the
power goes. Knows nothing of what they mean; how files are read is files.py's business.
"""

import errno
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import takewhile
from pathlib import Path

from sgns_cli.errors import SgnsError

INCOMPLETE = ".incomplete"
OLD = f".old{INCOMPLETE}"  # of a folder that is being replaced
AGAIN = "run the same command again"
HINTS = {
    errno.ENOSPC: "free some space",
    errno.EDQUOT: "free some space",
    errno.EFBIG: "free some space, or let files be larger (ulimit -f)",
    errno.EIO: "look after the disk",
}
NOT_THERE = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP)  # what the system says of what it has not
AT_FDCWD, RENAME_EXCHANGE = -100, 2  # of linux/fcntl.h and linux/fs.h


def incomplete_name(path: Path) -> Path:
    """The hidden name under which `path` is written: runs/kjv -> runs/.kjv.incomplete."""
    return path.with_name(f".{path.name}{INCOMPLETE}")


def visible_name(path: Path) -> Path:
    """The path as others will know it: runs/.kjv.incomplete/config.yaml -> runs/kjv/config.yaml."""

    def visible(part: str) -> str:
        hidden = is_incomplete(Path(part))
        return part.removeprefix(".").removesuffix(OLD).removesuffix(INCOMPLETE) if hidden else part

    return Path(*map(visible, path.parts))


def unfinished(parent: Path) -> Iterator[tuple[Path, Path]]:
    """The hidden folders in `parent`, and the folder that each was to become: a writer is at it or was killed."""
    for hidden in sorted(filter(is_incomplete, parent.iterdir())):
        yield hidden, parent / visible_name(Path(hidden.name))


def is_incomplete(path: Path) -> bool:
    """Whether something has a hidden name, under which it is being written or removed."""
    return path.name.startswith(".") and path.name.endswith(INCOMPLETE)


@contextmanager
def publish_folder(path: Path, *, overwrite: bool = False) -> Iterator[Path]:
    """Yield a hidden folder to write into; on success make it durable and rename it to `path`.

    If the body raises, the hidden folder is removed and `path` is as it was. Debris of an earlier writer that was
    killed is replaced. Raises SgnsError if `path` exists and `overwrite` is false, or the disk refuses.
    """
    hidden = incomplete_name(path)
    if not overwrite and path.exists():
        raise exists_already(path)
    with writing(path):
        make_folder(path.parent)
        put_back(path)
        discard(hidden)
        hidden.mkdir()
        try:
            yield hidden
            for file in sorted(hidden.rglob("*")):
                fsync(file)
            fsync(hidden)
            replace_folder(hidden, path)
        except BaseException:
            discard(hidden)
            raise


def exists_already(path: Path) -> SgnsError:
    """What to say where a new folder would take the place of something."""
    return SgnsError(f"{path} exists already", "choose another folder, or remove it first")


def replace_folder(hidden: Path, path: Path) -> None:
    """Rename a complete hidden folder to `path`; an older one there goes once the new one is in its place.

    Where the system can exchange two names, there is one of them at every moment. Elsewhere there is none between two
    renames; whoever is killed there leaves the old one to `put_back`. Raises OSError; all is as it was then.
    """
    old = path.with_name(f".{path.name}{OLD}")
    if not path.exists():
        hidden.rename(path)
        with _undone(lambda: path.rename(hidden)):
            fsync(path.parent)
    elif _exchange(hidden, path):
        with _undone(lambda: _exchange(hidden, path)):
            fsync(path.parent)
        discard(hidden)
    else:
        discard(old)
        path.rename(old)
        with _undone(lambda: put_back(path)):
            hidden.rename(path)
            with _undone(lambda: path.rename(hidden)):
                fsync(path.parent)
        discard(old)


@contextmanager
def _undone(undo: Callable[[], object]) -> Iterator[None]:
    """Undo something if what comes after it fails."""
    try:
        yield
    except BaseException:
        undo()
        raise


def put_back(path: Path) -> None:
    """Give a folder its name again from which it was taken by a writer that was killed before the new one had it."""
    old = path.with_name(f".{path.name}{OLD}")
    if old.exists() and not path.exists():
        old.rename(path)


def remove_folder(path: Path) -> None:
    """Remove a folder, hidden first, so that its name never stands for a part of it. Raises OSError."""
    hidden = incomplete_name(path)
    discard(hidden)
    path.rename(hidden)
    fsync(path.parent)
    discard(hidden)


def discard(debris: Path) -> None:
    """Remove what nobody will look for: a folder, a file, or a link, which is not followed; if the disk lets us."""
    if debris.is_dir() and not debris.is_symlink():
        shutil.rmtree(debris, ignore_errors=True)
    else:
        with suppress(OSError):
            debris.unlink()


def make_folder(path: Path) -> None:
    """Make a folder and those above it that are missing, each of them durable. Raises OSError."""
    for folder in reversed(list(takewhile(lambda folder: not folder.exists(), (path, *path.parents)))):
        folder.mkdir(exist_ok=True)
        fsync(folder.parent)


@contextmanager
def publish_file(path: Path) -> Iterator[Path]:
    """Yield a hidden file name to write to; on success make it durable and rename it over `path`.

    Raises SgnsError if the disk refuses; `path` is as it was then, but where only its folder's fsync was refused.
    """
    with publish_files([path]) as (hidden,):
        yield hidden


@contextmanager
def publish_files(paths: Sequence[Path]) -> Iterator[list[Path]]:
    """`publish_file` for files that belong together: none gets its name before all are durable."""
    hidden = [incomplete_name(path) for path in paths]
    new = []  # names that were given here
    for file in hidden:
        discard(file)  # what is written through a link goes elsewhere
    try:
        with writing(paths[-1]):
            yield hidden
        for file, path in zip(hidden, paths, strict=True):
            with writing(path):
                fsync(file)
        for file, path in zip(hidden, paths, strict=True):
            with writing(path):
                there = path.exists()
                file.replace(path)
                if not there:
                    new.append(path)
        for path in paths:
            with writing(path):
                fsync(path.parent)
    except BaseException:
        for file in (*hidden, *new):
            discard(file)
        raise


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn the disk's refusals (no space, no right, a file in the way) into an SgnsError that names `path`."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        hint = HINTS.get(error.errno or 0, "choose a folder that you may write to")
        raise SgnsError(f"cannot write {visible_name(path)}: {reason}", f"{hint}, then {AGAIN}") from error


def fsync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk. Raises OSError."""
    if os.name == "nt" and path.is_dir():
        return  # Windows has no such thing for a folder
    descriptor = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in NOT_THERE or not path.is_dir():  # a file system that keeps names in its own way
            raise
    finally:
        os.close(descriptor)


def _exchange(one: Path, other: Path) -> bool:
    """Let two folders change names in one step; False where the system, or the file system, has no such step."""
    if sys.platform != "linux":
        return False
    import ctypes

    library = ctypes.CDLL(None, use_errno=True)
    if not hasattr(library, "renameat2"):  # of glibc before 2.28
        return False
    done = library.renameat2(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE)
    if done == 0:
        return True
    number = ctypes.get_errno()
    if number in NOT_THERE:
        return False
    raise OSError(number, os.strerror(number), str(other))
