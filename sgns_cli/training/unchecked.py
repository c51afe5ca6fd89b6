"""Items of an array in compiled code, without Python's look at whether an index is negative: it costs as much again.

It also keeps LLVM from seeing through loops: see bench/README.md. An index must lie in the array; nothing looks.
"""

# mypy: disable-error-code="no-untyped-def,misc,no-untyped-call"
# ruff: noqa: ANN001, ANN201, ANN202 - the types here are Numba's, not Python's
from numba import types
from numba.extending import intrinsic


def pointer(context, builder, signature, arguments):
    """Where an item lies, given an array and an index as the first arguments of an intrinsic."""
    array_type = signature.args[0]
    return builder.gep(context.make_array(array_type)(context, builder, arguments[0]).data, [arguments[1]])


@intrinsic
def item(typing_context, array, index):
    """array[index]."""

    def generate(context, builder, signature, arguments):
        return context.unpack_value(builder, signature.args[0].dtype, pointer(context, builder, signature, arguments))

    return array.dtype(array, types.intp), generate


@intrinsic
def put(typing_context, array, index, value):
    """array[index] = value."""

    def generate(context, builder, signature, arguments):
        array_type, _, value_type = signature.args
        number = context.cast(builder, arguments[2], value_type, array_type.dtype)
        context.pack_value(builder, array_type.dtype, number, pointer(context, builder, signature, arguments))
        return context.get_dummy_value()

    return types.void(array, types.intp, value), generate
