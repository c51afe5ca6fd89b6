"""The kernel from the same source for other processors than this one: older ones, which this one can play."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

PROCESSORS = {
    "sse2, no fused multiply-add": {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""},
    "avx2": {"NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": "+avx2,+fma"},
}


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="the processors to play are x86")
@pytest.mark.parametrize("name", PROCESSORS)
def test_the_kernel_is_the_reference_on_other_processors(name):
    if name == "avx2" and "avx2" not in host_features():
        pytest.skip("this processor has no AVX2")
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "test_kernels.py", "-k", "computes_the_deltas and (17 or 3000)"],
        cwd=Path(__file__).parent,
        env={**os.environ, **PROCESSORS[name]},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout[-3000:]


def host_features():
    import llvmlite.binding

    return [name for name, there in llvmlite.binding.get_host_cpu_features().items() if there]
