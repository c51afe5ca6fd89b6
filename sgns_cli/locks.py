"""One writer at a time: a folder is held by a process while it makes it, and free again when that process ends,
however it ends.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sgns_cli.errors import SgnsError


class Held(SgnsError):
    """Another process holds what was to be held."""


@contextmanager
def locked(path: Path, *, wait: bool = False) -> Iterator[None]:
    """Hold `path`, by a hidden file beside it that goes again. Where there is none of its parents nobody can hold it,
    and where its parent takes no file or no locks it is not held: what is written there first will say more.

    Raises Held if another process holds it, or waits until it is free.
    """
    if not path.parent.is_dir():
        yield
        return
    from filelock import FileLock, Timeout

    file = path.with_name(f".{path.name}.lock")
    lock = FileLock(file)
    try:
        file.touch()  # the lock itself takes a refusal for somebody else's hold
        lock.acquire(timeout=-1 if wait else 0)
    except Timeout as error:
        raise Held(
            f"another process is writing {path} at this moment", "wait for it to end, or write elsewhere with -o DIR"
        ) from error
    except OSError:
        yield
        return
    try:
        yield
    finally:
        with suppress(OSError):  # first, so that nobody's new file goes
            file.unlink()
        lock.release()
