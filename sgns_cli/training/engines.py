"""Which engine trains on a device, and what follows from that before it is there.

Their modules load what their kernels need, numba or torch, so each is imported when its turn comes.
"""

import re
from importlib.util import find_spec

from sgns_cli.training.draws import BLOCK
from sgns_cli.training.engine import Engine, Matrices, matrix_bytes
from sgns_cli.training.problem import GPU_ROUND_CENTRES, ROUND_CENTRES, Problem

TRITON = (3, 5)  # before that, what an atomic exchange gave was not the same in all threads that hold it


def kernel_of(device: str) -> str:
    """Which kernel trains on a device: `cpu`, `gpu`, or `reference`, which runs on any and is many times slower."""
    if device == "cpu":
        return "cpu"
    return "gpu" if device.startswith("cuda") and _triton_version() >= TRITON else "reference"


def _triton_version() -> tuple[int, ...]:
    """Of what is installed, () if nothing is."""
    if find_spec("triton") is None:
        return ()
    import triton

    return tuple(int(number) for number in re.findall(r"\d+", triton.__version__)[:2])


def make_engine(problem: Problem, matrices: Matrices, device: str, threads: int) -> Engine:
    """The engine for a device; on the CPU with so many threads."""
    kernel = kernel_of(device)
    if kernel == "cpu":
        from sgns_cli.training.cpu_engine import CpuEngine

        return CpuEngine(problem, matrices, threads)
    if kernel == "gpu":
        from sgns_cli.training.gpu_engine import GpuEngine

        return GpuEngine(problem, matrices, device=device)
    from sgns_cli.training.reference_engine import ReferenceEngine

    return ReferenceEngine(problem, matrices, device=device)


def notes_of(device: str) -> list[str]:
    """What people should know before they train on a device."""
    notes = []
    if kernel_of(device) == "reference":
        cuda = device.startswith("cuda")
        why = "Triton 3.5 or newer is not there (pip install triton)" if cuda else "it has no kernel of its own"
        notes.append(f"on {device} plain PyTorch trains, many times slower than a kernel: {why}; --device cpu has one")
    if device.startswith("cuda"):
        notes.append("on CUDA the draws repeat and the rounding does not: the bytes may differ from run to run")
    return notes


def round_centres(device: str) -> int:
    """How many kept tokens a round has on average, in a run that begins on a device."""
    return GPU_ROUND_CENTRES if kernel_of(device) == "gpu" else ROUND_CENTRES


def device_bytes(problem: Problem, device: str) -> int:
    """What a device other than the CPU has to have room for, at most."""
    if kernel_of(device) != "gpu":
        return matrix_bytes(problem)
    from sgns_cli.training.gpu_engine import work_bytes

    return 2 * matrix_bytes(problem) + work_bytes(problem)


def useful_threads(device: str, threads: int) -> int:
    """How many of `threads` an engine has work for: on the CPU one for each block of a round, elsewhere one."""
    return min(threads, ROUND_CENTRES // BLOCK) if device == "cpu" else 1


def must_compile(device: str) -> bool:
    """Whether the engine for a device has to be compiled first, which takes a while."""
    if kernel_of(device) != "cpu":
        return False
    from sgns_cli.training.compiled import is_compiled
    from sgns_cli.training.kernels.cpu import run_rounds

    return not is_compiled(run_rounds)
