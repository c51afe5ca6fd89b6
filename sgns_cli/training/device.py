"""Which device trains. Looks for a CUDA driver without importing torch, which costs seconds."""

import ctypes
import sys

from sgns_cli.errors import SgnsError, UsageError


def choose_device(wanted: str) -> str:
    """Resolve auto|cpu|cuda[:N]|mps to a device that is there. Raises UsageError, or SgnsError if it is not there."""
    name, _, number = wanted.partition(":")
    if name not in ("auto", "cpu", "cuda", "mps") or (number and (name != "cuda" or not number.isdecimal())):
        raise UsageError(f"--device {wanted} is no device", "choose one of auto, cpu, cuda, cuda:N, mps")
    if name == "auto":
        return "cuda" if cuda_driver_devices() and _torch_devices("cuda") else "cpu"
    if name == "cpu":
        return "cpu"
    there = _torch_devices(name) if name == "mps" or cuda_driver_devices() else 0
    if int(number or 0) >= there:
        found = f"{there} found" if there else "none found"
        raise SgnsError(f"there is no device {wanted} here ({found})", "use --device cpu, or leave --device out")
    return wanted


def cuda_driver_devices() -> int:
    """How many devices the CUDA driver reports; 0 where there is no driver."""
    library = {"win32": "nvcuda.dll"}.get(sys.platform, "libcuda.so.1")
    try:
        driver = ctypes.CDLL(library)
        count = ctypes.c_int(0)
        if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0:
            return 0
        return count.value
    except (OSError, AttributeError):
        return 0


def _torch_devices(name: str) -> int:
    """How many devices of that name this build of torch can use."""
    import torch

    if name == "cuda":
        return torch.cuda.device_count()
    return int(torch.backends.mps.is_available())
