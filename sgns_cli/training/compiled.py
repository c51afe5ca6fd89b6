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
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import numba
import numpy as np
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numpy.typing import NDArray

from sgns_cli.errors import SgnsError
from sgns_cli.user_folders import cache_folder

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
        compiled = numba.njit(cache=True, **OPTIONS)(function)
    finally:
        numba.config.CACHE_DIR = before  # type: ignore[attr-defined]
    _keep_if_possible(compiled._cache)
    return cast("Callable[P, R]", compiled)


def _keep_if_possible(cache: Any) -> None:
    """Let a disk that refuses, or a file that is damaged, cost a compilation and no more: without its cache a function
    is compiled as the first time.
    """
    load, save = cache.load_overload, cache.save_overload

    def load_or_compile(signature: Any, context: Any) -> Any:
        try:
            return load(signature, context)
        except Exception:  # whatever unpickling a damaged file may raise
            with suppress(OSError):
                cache.flush()  # a damaged index would refuse what is saved next
            return None

    def save_if_possible(signature: Any, data: Any) -> None:
        with suppress(OSError):
            save(signature, data)

    cache.load_overload, cache.save_overload = load_or_compile, save_if_possible


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
    """Where compiled code is kept: the user's cache, or a folder of the user's own among the temporary files.

    Raises SgnsError where neither can be written to.
    """
    digest = hashlib.sha256()
    here = Path(__file__).parent
    for source in [
        *(here / f"{name}.py" for name in ("compiled", "unchecked", "draws")),
        *sorted(here.glob("kernels/*.py")),
    ]:
        digest.update(source.read_bytes())
    kept = cache_folder()
    if kept is not None:
        folder = kept / f"numba-{digest.hexdigest()[:16]}"
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                return folder
    try:  # no home, or one that may not be written to: compile anew in each process
        folder = Path(tempfile.mkdtemp(prefix=_FLEETING))
    except OSError as error:
        what = f"the compiled kernel has no place: {error.strerror}"
        raise SgnsError(what, "set XDG_CACHE_HOME or TMPDIR to a folder that you may write to") from error
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
