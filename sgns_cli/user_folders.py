"""The user's own folders: the home that `~` stands for, and where caches and histories are kept, as XDG has it."""

import os
from pathlib import Path


def user_folder(variable: str, below_home: str) -> Path | None:
    """The folder that an environment variable names, XDG_CACHE_HOME say, else one below the home folder.

    A relative path counts as none, as the XDG specification asks; so does a home that is empty or does not exist.
    None where there is no home.
    """
    named = Path(os.environ.get(variable, ""))
    if named.is_absolute():
        return named
    try:
        home = Path.home()
    except RuntimeError:
        return None
    there = os.environ.get("HOME") != "" and home.is_absolute() and home.is_dir()
    return home / below_home if there else None


def expand_home(name: str) -> Path:
    """The path that a name means: a `~` at its start is a home folder, unless there is none to be found."""
    try:
        return Path(name).expanduser()
    except RuntimeError:  # ~notes.txt, say: nobody's home
        return Path(name)


def cache_folder() -> Path | None:
    """Where this project keeps what can be made again; nothing says that it is there or may be written to."""
    folder = user_folder("XDG_CACHE_HOME", ".cache")
    return None if folder is None else folder / "sgns"
