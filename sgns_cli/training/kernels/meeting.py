"""How threads meet inside compiled code: atomic numbers in an int64 array, and two ways to wait.

Atomics are sequentially consistent: what a thread wrote before it changed such a number is there for whoever read the
change.
"""

# mypy: disable-error-code="no-untyped-def,misc,no-any-return,no-untyped-call"
# ruff: noqa: ANN001, ANN201, ANN202 - the types here are Numba's, not Python's
import platform
import sys

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from sgns_cli.training.unchecked import pointer

CACHE_LINE = 8  # int64 numbers; those that different threads change should lie so far apart
_ORDER = "seq_cst"
_NAP_MICROSECONDS = 50
_PAUSES = {"x86_64": "llvm.x86.sse2.pause", "AMD64": "llvm.x86.sse2.pause"}


@intrinsic
def read(typing_context, array, index):
    """array[index]."""

    def generate(context, builder, signature, arguments):
        return builder.load_atomic(pointer(context, builder, signature, arguments), _ORDER, 8, typ=ir.IntType(64))

    return types.int64(array, types.intp), generate


@intrinsic
def write(typing_context, array, index, value):
    """array[index] = value."""

    def generate(context, builder, signature, arguments):
        builder.store_atomic(arguments[2], pointer(context, builder, signature, arguments), _ORDER, 8)
        return context.get_dummy_value()

    return types.void(array, types.intp, types.int64), generate


@intrinsic
def increase(typing_context, array, index):
    """array[index] += 1; returns the new number."""

    def generate(context, builder, signature, arguments):
        one = ir.Constant(ir.IntType(64), 1)
        before = builder.atomic_rmw("add", pointer(context, builder, signature, arguments), one, _ORDER)
        return builder.add(before, one)

    return types.int64(array, types.intp), generate


@intrinsic
def replace(typing_context, array, index, old, new):
    """array[index] = new if it is `old`; returns whether it was."""

    def generate(context, builder, signature, arguments):
        number = pointer(context, builder, signature, arguments)
        return builder.extract_value(builder.cmpxchg(number, arguments[2], arguments[3], _ORDER, _ORDER), 1)

    return types.boolean(array, types.intp, types.int64, types.int64), generate


@intrinsic
def pause(typing_context):
    """Wait for a moment without giving the processor away."""

    def generate(context, builder, signature, arguments):
        name = _PAUSES.get(platform.machine())
        if name is not None:
            function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(ir.VoidType(), []), name)
            builder.call(function, [])
        return context.get_dummy_value()

    return types.void(), generate


@intrinsic
def nap(typing_context):
    """Give the processor away: for some tens of microseconds, on Windows to whoever is ready."""

    def generate(context, builder, signature, arguments):
        name, time = ("Sleep", 0) if sys.platform == "win32" else ("usleep", _NAP_MICROSECONDS)
        function_type = ir.FunctionType(ir.IntType(32), [ir.IntType(32)])
        function = cgutils.get_or_insert_function(builder.module, function_type, name)
        builder.call(function, [ir.Constant(ir.IntType(32), time)])
        return context.get_dummy_value()

    return types.void(), generate
