"""Compiles the GPU kernels for a compute capability, and prints the bytes of shared memory that each of them takes."""

import sys
from collections.abc import Callable
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from sgns_cli.training.kernels import gpu

TYPES = {
    gpu.Tables: ("*fp32", "*fp32", "*fp32"),
    gpu.Draws: ("*i32",) * 5,
    gpu.Parts: ("*i32", "*i32", "*i32", "*fp32", "*i32"),
    gpu.Sums: ("*fp32", "*i32"),
}


class Compiled:
    """A kernel that is compiled where it should be launched; arguments are names of types."""

    def __init__(self, kernel: Any, capability: int) -> None:
        self.kernel, self.capability = kernel, capability

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        def compile_it(*types: str, **constants: Any) -> None:
            options = {name: constants.pop(name) for name in ("num_warps",) if name in constants}
            signature = dict(zip(self.kernel.arg_names, types, strict=False))
            pointers = [(number,) for number, kind in enumerate(types) if kind.startswith("*")]
            source = ASTSource(
                self.kernel,
                {**signature, **dict.fromkeys(constants, "constexpr")},
                constants,
                {pointer: [["tt.divisibility", 16]] for pointer in pointers},
            )
            compiled = triton.compile(source, target=GPUTarget("cuda", self.capability, 32), options=options)
            sys.stdout.write(f"{self.kernel.fn.__name__} {compiled.metadata.shared}\n")

        return compile_it


capability = int(sys.argv[1])
gpu.add_deltas, gpu.move_rows = Compiled(gpu.add_deltas, capability), Compiled(gpu.move_rows, capability)
tables, draws, parts, sums = (kind(*names) for kind, names in TYPES.items())
shape = gpu.Shape(width=304, rows=50_000, context_length=1024, window=5, negatives=5, shared=32)
gpu.run_part("i32", tables, draws, parts, sums, shape, 256, moves=True)
gpu.run_part("i32", tables, draws, parts, sums, shape._replace(width=112, context_length=0), 256, moves=False)
