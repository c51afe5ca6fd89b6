"""Files read with care: they may be cut short, changed, or made by a stranger.

Sizes are looked at before anything is read, pipes and devices are not opened, links do not lead out of a folder, and
what was written here is known again by its checksum. Also the one way this project reads and writes JSON files, which
have a checksum of their own where it is asked for. Knows nothing of what files mean.
"""

import hashlib
import json
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sgns_cli.errors import SgnsError

MOST_TOKENIZER = 2**30  # bytes of a file that a tokenizer is built from; o200k_base has 4 MB
MOST_JSON = 2**28  # bytes: meta.json has a line for each source and skipped document
PIPE_BLOCK = 2**20
CHECKSUM = "checksum"  # of all else that a JSON object holds


def read_whole(path: Path, *, at_most: int, pipes: bool = False) -> bytes:
    """All bytes of a file. Raises OSError, and SgnsError if they are more than that or it is no regular file.

    `pipes` is for files that somebody names, who may have a program write them: <(zcat questions.gz).
    """
    status = path.stat()
    regular = stat.S_ISREG(status.st_mode)
    if not (regular or path.is_dir() or pipes):  # who opens a pipe waits for somebody to write
        raise SgnsError(f"{path} is a pipe or a device", "give a file")
    _check_size(path, status.st_size, at_most)
    with path.open("rb") as file:
        if regular:
            return file.read(status.st_size)  # asked for more, Python takes memory for it
        data = bytearray()
        while block := file.read(PIPE_BLOCK):
            data += block
            _check_size(path, len(data), at_most)
        return bytes(data)


def own_path(folder: Path, name: str) -> Path:
    """The path of something in a folder that a stranger may have made; whether it is there is for its reader to say.

    Raises SgnsError if it is a link that leads out of the folder, or behind one.
    """
    path = folder / name
    try:
        inside = path.resolve().is_relative_to(folder.resolve())
        path.exists()  # of a name that no file can have it is not False
    except (OSError, ValueError, RuntimeError) as error:
        raise SgnsError(
            f"{path} cannot be looked at: {error}", "put the file there, or make the folder again"
        ) from error
    if not inside:
        raise SgnsError(f"{path} is a link out of {folder}", "put there what it leads to, if you trust it")
    return path


def own_file(folder: Path, name: str) -> Path:
    """`own_path` of what is to be read as a file. Raises SgnsError also if it is a folder, a pipe or a device."""
    path = own_path(folder, name)
    if path.exists() and not path.is_file():
        raise SgnsError(f"{path} is no file", "put the file there, or make the folder again")
    return path


def checksum(path: Path) -> str:
    """SHA-256 of a file, as hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def changed_file(folder: Path, checksums: Mapping[str, object], *, at_most: int | None = None) -> str | None:
    """The first name in `checksums`, SHA-256s by name, whose file in `folder` is another or missing; None if none is.

    Raises SgnsError for links out of the folder, and for files of more than `at_most` bytes.
    """
    for name, expected in checksums.items():
        path = own_file(folder, name)
        if not path.is_file():
            return name
        if at_most is not None:
            _check_size(path, path.stat().st_size, at_most)
        if checksum(path) != expected:
            return name
    return None


def _check_size(path: Path, size: int, at_most: int) -> None:
    if size > at_most:
        raise SgnsError(f"{path} has {size:,} bytes, more than any such file", "look whether it is the right one")


def write_json(path: Path, value: object) -> None:
    """Write `value` as indented UTF-8 JSON."""
    text = json.dumps(value, ensure_ascii=False, indent=1) + "\n"
    path.write_bytes(text.encode("utf-8", "backslashreplace"))  # half a surrogate, as file names have, is JSON's \uD8FF


def sealed(value: Mapping[str, Any]) -> dict[str, Any]:
    """A JSON object with a `checksum` of all that it holds, which `unsealed` holds it against."""
    return {**value, CHECKSUM: _seal(value)}


def unsealed(path: Path, value: dict[str, Any]) -> dict[str, Any]:
    """The object without its `checksum`, read from `path`; one that was made without a checksum is taken as it is.

    Raises SgnsError if it is not what was written.
    """
    held = {name: part for name, part in value.items() if name != CHECKSUM}
    try:
        whole = value.get(CHECKSUM, _seal(held)) == _seal(held)
    except RecursionError as error:
        raise _damaged(path, "it is nested too deeply") from error
    if not whole:
        raise _damaged(path, "it is not what was written")
    return held


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object. Raises SgnsError if it is missing, broken, or no object."""
    try:
        value = json.loads(read_whole(path, at_most=MOST_JSON).decode())
    except OSError as error:
        raise SgnsError(f"cannot read {path}: {error.strerror}", "check the path, or make the folder again") from error
    except (ValueError, RecursionError) as error:
        raise _damaged(path, "it is not valid JSON") from error
    if not isinstance(value, dict):
        raise _damaged(path, "expected a JSON object")
    return value


def _seal(value: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _damaged(path: Path, why: str) -> SgnsError:
    return SgnsError(f"{path} is damaged: {why}", "make the folder again")
