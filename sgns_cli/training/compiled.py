"""How this project compiles with Numba: one decorator, one place for the compiled code.

Compiled code is kept in the user's cache folder under a name made from the kernels' sources, so that it survives a
read-only install, and a change in any of them (Numba watches only the file of the function itself) compiles anew.
"""

import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypeVar, cast

import numba

P = ParamSpec("P")
R = TypeVar("R")


def jit(function: Callable[P, R]) -> Callable[P, R]:
    """Compile without the interpreter lock, with IEEE division, and keep the result on disk."""
    return cast("Callable[P, R]", numba.njit(nogil=True, cache=True, error_model="numpy")(function))


def inline(function: Callable[P, R]) -> Callable[P, R]:
    """Compile as a part of its callers (LLVM inlines it); nothing is kept on disk for it alone."""
    return cast("Callable[P, R]", numba.njit(nogil=True, error_model="numpy", forceinline=True)(function))


def _cache_folder() -> Path:
    digest = hashlib.sha256()
    here = Path(__file__).parent
    for source in sorted([*here.glob("*.py"), *here.glob("kernels/*.py")]):
        digest.update(source.read_bytes())
    name = f"sgns/numba-{digest.hexdigest()[:16]}"
    try:
        home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        folder = home / name
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except (OSError, RuntimeError):  # no home, or one that may not be written to
        user = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")
        folder = Path(tempfile.gettempdir()) / f"sgns-{user}" / name
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder


if not os.environ.get("NUMBA_CACHE_DIR"):
    numba.config.CACHE_DIR = str(_cache_folder())  # type: ignore[attr-defined]
