"""Folders that are complete or not there: how token folders, steps and arrays reach the disk.

A folder is written under a hidden name ending in `.incomplete`, each file is fsynced, and only then is it renamed to
the name that others look for; so a name that can be seen is whole, whatever happened to the writer. Also the one way
this project reads and writes JSON files. Knows nothing of what the folders mean.
"""

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sgns_cli.errors import SgnsError

INCOMPLETE = ".incomplete"
OLD = f".old{INCOMPLETE}"  # of a folder that is being replaced


def incomplete_name(path: Path) -> Path:
    """The hidden name under which `path` is written: runs/kjv -> runs/.kjv.incomplete."""
    return path.with_name(f".{path.name}{INCOMPLETE}")


def unfinished(parent: Path) -> Iterator[tuple[Path, Path]]:
    """The hidden folders in `parent`, and the folder that each was to become: a writer is at it or was killed."""
    for hidden in sorted(parent.glob(f".*{INCOMPLETE}")):
        name = hidden.name.removeprefix(".").removesuffix(OLD).removesuffix(INCOMPLETE)
        yield hidden, parent / name


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
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(hidden, ignore_errors=True)
        hidden.mkdir()
        try:
            yield hidden
            for file in sorted(hidden.rglob("*")):
                _fsync(file)
            _fsync(hidden)
            replace_folder(hidden, path)
        except BaseException:
            shutil.rmtree(hidden, ignore_errors=True)
            raise


def exists_already(path: Path) -> SgnsError:
    """What to say where a new folder would take the place of something."""
    return SgnsError(f"{path} exists already", "choose another folder, or remove it first")


def replace_folder(hidden: Path, path: Path) -> None:
    """Rename a complete hidden folder to `path`; an older folder there survives until the new one is in place."""
    old = path.with_name(f".{path.name}{OLD}")
    shutil.rmtree(old, ignore_errors=True)
    if path.exists():
        path.rename(old)
    hidden.rename(path)
    _fsync(path.parent)
    shutil.rmtree(old, ignore_errors=True)


@contextmanager
def publish_file(path: Path) -> Iterator[Path]:
    """Yield a hidden file name to write to; on success make it durable and rename it over `path`."""
    hidden = incomplete_name(path)
    with writing(path):
        try:
            yield hidden
            _fsync(hidden)
            hidden.replace(path)
            _fsync(path.parent)
        except BaseException:
            hidden.unlink(missing_ok=True)
            raise


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn the disk's refusals (no space, no right, a file in the way) into an SgnsError that names `path`."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        hint = "free some space" if error.errno == errno.ENOSPC else "choose a folder that you may write to"
        raise SgnsError(f"cannot write {path}: {reason}", f"{hint}, then run the same command again") from error


def write_json(path: Path, value: object) -> None:
    """Write `value` as indented UTF-8 JSON."""
    text = json.dumps(value, ensure_ascii=False, indent=1) + "\n"
    path.write_bytes(text.encode("utf-8", "backslashreplace"))  # half a surrogate, as file names have, is JSON's \uD8FF


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object; raises SgnsError if it is missing, broken, or no object."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SgnsError(f"cannot read {path}: {error.strerror}", "check the path, or make the folder again") from error
    except (ValueError, RecursionError) as error:
        raise SgnsError(f"{path} is damaged: it is not valid JSON", "make the folder again") from error
    if not isinstance(value, dict):
        raise SgnsError(f"{path} is damaged: expected a JSON object", "make the folder again")
    return value


def checksum(path: Path) -> str:
    """SHA-256 of a file, as hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _fsync(path: Path) -> None:
    if os.name == "nt" and path.is_dir():
        return  # Windows has no such thing for a folder
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
