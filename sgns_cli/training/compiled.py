"""How this project compiles with Numba: one decorator, one place for the compiled code.

Compiled code is kept in the user's cache folder under a name made from the sources compiled, so that it survives a
read-only install, and a change in any of them (Numba watches only the file of the function itself) compiles anew.
"""

# mypy: disable-error-code="no-untyped-call"
# ruff: noqa: ANN401 - Numba itself is not typed
import atexit
import hashlib
import itertools
import math
import os
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import numba
import numpy as np
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numpy.typing import NDArray

from sgns_cli.errors import SgnsError

_FLEETING = "sgns-compiled-"  # how the name of a cache folder begins that goes with the process
P = ParamSpec("P")
R = TypeVar("R")

# Without the interpreter lock; a division by zero gives infinity; arrays are borrowed, not counted, since counting
# references at every small function costs a kernel much of its speed. So compiled code allocates nothing.
OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "_nrt": False}
# Parts of compiled code are never called from Python, so they need no way in from there: it takes long to compile.
PART_OPTIONS: dict[str, Any] = {**OPTIONS, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def jit(function: Callable[P, R]) -> Callable[P, R]:
    """Compile, and keep the result on disk. See `OPTIONS`."""
    if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
        raise SgnsError("NUMBA_DISABLE_JIT is set, and the CPU kernel runs compiled only", "unset it")
    before = numba.config.CACHE_DIR  # type: ignore[attr-defined]
    numba.config.CACHE_DIR = before or str(_cache_folder())  # type: ignore[attr-defined]
    try:
        return cast("Callable[P, R]", numba.njit(cache=True, **OPTIONS)(function))
    finally:
        numba.config.CACHE_DIR = before  # type: ignore[attr-defined]


class _PartLibrary(JITCodeLibrary):
    """The code of a part: no module optimised, no machine code made. Both are done once more where it is inlined."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        return 0

    @property
    def codegen(self) -> "_PartLibrary":
        return self

    def set_env(self, name: str, environment: Any) -> None:
        pass


class _PartCompiler(Compiler):
    def __init__(self, typing_context: Any, target_context: Any, library: Any, *arguments: Any) -> None:
        library = _PartLibrary(target_context.codegen(), f"part{next(_numbers)}")
        super().__init__(typing_context, target_context, library, *arguments)


_numbers = itertools.count()


def inline(function: Callable[P, R]) -> Callable[P, R]:
    """Compile as a part of its callers (LLVM inlines it); nothing is kept on disk for it alone."""
    return cast("Callable[P, R]", numba.njit(forceinline=True, pipeline_class=_PartCompiler, **PART_OPTIONS)(function))


def is_compiled(function: Callable[..., Any]) -> bool:
    """Whether the code of a `jit` function is kept on disk already, for this installation."""
    kept = Path(cast(Any, function)._cache.cache_path)
    return any(kept.glob(f"*.{function.__name__}-*.nbi"))


def is_kept() -> bool:
    """Whether compiled code is kept from one run to the next."""
    return not _cache_folder().name.startswith(_FLEETING)


def aligned_zeros(*shape: int) -> NDArray[np.float32]:
    """Zero float32 numbers that begin at a cache line: a vector that straddles two costs twice."""
    size = math.prod(shape)
    room = np.zeros(size + 15, np.float32)
    start = -room.ctypes.data % 64 // 4
    return room[start : start + size].reshape(shape)


@cache
def _cache_folder() -> Path:
    """Where compiled code is kept: the user's cache, or a folder of the user's own among the temporary files."""
    digest = hashlib.sha256()
    here = Path(__file__).parent
    for source in [
        *(here / f"{name}.py" for name in ("compiled", "unchecked", "draws")),
        *sorted(here.glob("kernels/*.py")),
    ]:
        digest.update(source.read_bytes())
    name = f"sgns/numba-{digest.hexdigest()[:16]}"
    try:
        home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        folder = home / name
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except (OSError, RuntimeError):  # no home, or one that may not be written to: compile anew in each process
        folder = Path(tempfile.mkdtemp(prefix=_FLEETING))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        return folder
