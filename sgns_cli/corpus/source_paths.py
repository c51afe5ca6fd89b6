"""From the names in `data.sources` to the files, streams and data sets that are to be read, in a stable
order.

Looks at paths and never into a file. What is read from them is sources.py's business.
"""

import glob
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sgns_cli.corpus.unpack import COMPRESSED
from sgns_cli.errors import SgnsError, UsageError
from sgns_cli.files import own_path
from sgns_cli.user_folders import expand_home

TEXT = (".txt", ".md")
RECORDS = (".jsonl", ".csv", ".tsv", ".parquet")
STDIN = "-"
HUB = "hf:"


@dataclass(frozen=True)
class Source:
    """One thing to read: `name` is a path, `-`, or hf:NAME[:CONFIG[:SPLIT]]."""

    kind: Literal["text", "records", "stdin", "hub"]
    name: str

    @property
    def origin(self) -> str:
        """Its name for people."""
        return "standard input" if self.kind == "stdin" else self.name

    @property
    def size(self) -> int | None:
        """Bytes on disk, where that says how much there is to read."""
        known = self.kind == "text" or (self.kind == "records" and inner_suffix(Path(self.name)) != ".parquet")
        return Path(self.name).stat().st_size if known else None

    @property
    def is_pipe(self) -> bool:
        """Whether it is a named pipe or the like, which can be read only once."""
        return self.kind in ("text", "records") and not Path(self.name).is_file()


def find_sources(names: Iterable[str]) -> list[Source]:
    """Resolve paths, folders and globs into what there is to read, in a stable order.

    Raises SgnsError for a path that is not there, an empty file, a folder or a glob with nothing to read.
    """
    sources: list[Source] = []
    for name in names:
        sources.extend(_resolve(name))
    if sum(source.kind == "stdin" for source in sources) > 1:
        raise UsageError("standard input is given twice as a source", "give `-` once")
    return sources


def _resolve(name: str) -> list[Source]:
    if name == STDIN:
        return [Source("stdin", name)]
    if name.startswith(HUB):
        split_hub_name(name)
        return [Source("hub", name)]
    if not name:
        raise UsageError("a source has no name", "give a path in data.sources")
    try:
        return _resolve_path(name, expand_home(name))
    except (OSError, ValueError) as error:  # too long, not allowed, a NUL in it
        reason = getattr(error, "strerror", None) or str(error)
        raise SgnsError(f"cannot look at {name!r}: {reason}", "check data.sources") from error


def _resolve_path(name: str, path: Path) -> list[Source]:
    if path.is_dir():
        return _of_many(_files_below(path), f"{name} has no text in it", f"known: {' '.join([*TEXT, *RECORDS])}")
    if path.exists():
        if path.is_file() and path.stat().st_size == 0:
            raise SgnsError(f"{name} is empty", "give a file with text in it")
        return [_file_source(path)]
    if glob.has_magic(name):
        return _of_many(_matches(path), f"no file matches {name}", "check the pattern")
    raise SgnsError(f"{name} does not exist", "check the path; it is relative to the working directory")


def _matches(pattern: Path) -> Iterator[Path]:
    """The paths that match, hidden ones only where the pattern says so; `**` goes into no link to a folder."""
    base = Path(pattern.anchor)
    for path in base.glob(str(pattern.relative_to(base))):
        hidden = {part for part in path.parts if part.startswith(".") and part != ".."}
        if hidden <= {part for part in pattern.parts if part.startswith(".")}:
            yield path


def _of_many(paths: Iterable[Path], message: str, hint: str) -> list[Source]:
    """Files in the order of their paths; empty ones are passed over."""
    files = sorted(path for path in paths if path.is_file())
    if not files:
        raise SgnsError(message, hint)
    sources = [_file_source(path) for path in files if path.stat().st_size > 0]
    if not sources:
        raise SgnsError(f"{message}: every file is empty", hint)
    return sources


def _files_below(folder: Path) -> Iterator[Path]:
    """The files of a folder, also of those in it. Raises SgnsError for a link that leads out of it."""

    def refuse(error: OSError) -> None:
        raise SgnsError(f"cannot read {error.filename}: {error.strerror}", "check the rights") from error

    for parent, folders, files in os.walk(folder, onerror=refuse):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in files:
            if not name.startswith(".") and _is_known(Path(name)):
                path = Path(parent, name)
                yield own_path(folder, str(path.relative_to(folder))) if path.is_symlink() else path


def inner_suffix(path: Path) -> str:
    """The suffix under the compression: kjv.txt.gz -> .txt, dump.gz -> nothing."""
    suffix = path.suffix.lower()
    return Path(path.stem).suffix.lower() if suffix in COMPRESSED else suffix


def _is_known(path: Path) -> bool:
    inner = inner_suffix(path)
    return inner in TEXT or inner in RECORDS or (path.suffix.lower() in COMPRESSED and not inner)


def _file_source(path: Path) -> Source:
    return Source("records" if inner_suffix(path) in RECORDS else "text", str(path))


def check_regular(sources: Iterable[Source]) -> None:
    """Raise SgnsError for a pipe among sources that have to be read more than once."""
    for source in sources:
        if source.is_pipe:
            raise SgnsError(
                f"{source.name} is a pipe, and this has to read it more than once",
                "put it into a file, or send it to standard input and give `-`",
            )


def split_hub_name(name: str) -> tuple[str, str | None, str]:
    """hf:NAME[:CONFIG[:SPLIT]] in its parts; the split is `train` unless named."""
    parts = name.removeprefix(HUB).split(":")
    if len(parts) > 3 or not parts[0]:
        raise UsageError(f"{name} names no data set", "write hf:NAME, hf:NAME:CONFIG or hf:NAME:CONFIG:SPLIT")
    name, config, split = [*parts, "", ""][:3]
    return name, config or None, split or "train"
