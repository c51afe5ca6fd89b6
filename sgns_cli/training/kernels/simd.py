"""A vector of 16 float32 for Numba, and the few words a kernel needs to speak of it.

`F32x16` is the LLVM type <16 x float>: LLVM makes of it one AVX-512 register, two of AVX2, four of NEON. A kernel loads
from and stores to flat float32 arrays at an index, computes with + - * / and `muladd`, and so writes its register tiles
in plain Python. Nothing here reorders arithmetic: the same numbers go in, the same bits come out.

A 4 x 4 tile (4 centres by 4 output rows) is a vector too: lane 4*b + p belongs to centre b and output row p.
"""

# mypy: disable-error-code="no-untyped-def,misc,no-any-return,no-untyped-call"
# ruff: noqa: ANN001, ANN002, ANN201, ANN202, ANN204 - the types here are Numba's, not Python's
import operator

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typing.templates import ConcreteTemplate, infer_global
from numba.extending import intrinsic, lower_builtin, models, register_model

LANES = 16
WHOLE = 1.5 * 2**23  # a float32 from here to twice as much has no fraction: adding this rounds to a whole number


class F32x16(types.Type):
    def __init__(self):
        super().__init__(name="F32x16")


f32x16 = F32x16()
_F32, _I32 = ir.FloatType(), ir.IntType(32)
_VEC, _IVEC = ir.VectorType(_F32, LANES), ir.VectorType(_I32, LANES)


@register_model(F32x16)
class _F32x16Model(models.PrimitiveModel):
    def __init__(self, manager, front_end_type):
        super().__init__(manager, front_end_type, _VEC)


def _pointer(context, builder, base_type, base, index, to):
    """Where base[index] lies; the base is an array, or the address of one."""
    if isinstance(base_type, types.Integer):
        data = builder.inttoptr(base, ir.PointerType(_F32))
    else:
        data = context.make_array(base_type)(context, builder, base).data
    return builder.bitcast(builder.gep(data, [index]), ir.PointerType(to))


def _shuffle(builder, a, b, lanes):
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(_I32, len(lanes)), lanes))


def _constant(value):
    return ir.Constant(_VEC, [float(value)] * LANES)


def _call(builder, name, result, *arguments):
    function_type = ir.FunctionType(result, [argument.type for argument in arguments])
    return builder.call(cgutils.get_or_insert_function(builder.module, function_type, name), arguments)


# --- between memory and registers


@intrinsic
def address(typing_context, array, index):
    """The address of array[index], to load from and store to as if it were an array."""

    def generate(context, builder, signature, arguments):
        return builder.ptrtoint(_pointer(context, builder, signature.args[0], *arguments, _F32), ir.IntType(64))

    return types.int64(array, types.intp), generate


@intrinsic
def load(typing_context, array, index):
    """The 16 numbers from array[index] on."""

    def generate(context, builder, signature, arguments):
        value = builder.load(_pointer(context, builder, signature.args[0], *arguments, _VEC), typ=_VEC)
        value.align = 4
        return value

    return f32x16(array, types.intp), generate


@intrinsic
def store(typing_context, array, index, vector):
    """Write the 16 numbers to array[index] and on."""

    def generate(context, builder, signature, arguments):
        array, index, vector = arguments
        builder.store(vector, _pointer(context, builder, signature.args[0], array, index, _VEC)).align = 4
        return context.get_dummy_value()

    return types.void(array, types.intp, f32x16), generate


@intrinsic
def splat(typing_context, number):
    """The number in every lane."""

    def generate(context, builder, signature, arguments):
        lone = builder.insert_element(ir.Constant(_VEC, ir.Undefined), arguments[0], _I32(0))
        return _shuffle(builder, lone, lone, [0] * LANES)

    return f32x16(types.float32), generate


@intrinsic
def zeros(typing_context):
    def generate(context, builder, signature, arguments):
        return _constant(0.0)

    return f32x16(), generate


@intrinsic
def lane_columns(typing_context):
    """0 1 2 3, four times: the output row of each lane of a tile."""

    def generate(context, builder, signature, arguments):
        return ir.Constant(_VEC, [float(lane % 4) for lane in range(LANES)])

    return f32x16(), generate


def _load4(context, builder, signature, arguments, lanes):
    four = ir.VectorType(_F32, 4)
    value = builder.load(_pointer(context, builder, signature.args[0], *arguments, four), typ=four)
    value.align = 4
    return _shuffle(builder, value, value, lanes)


@intrinsic
def load_centres(typing_context, array, index):
    """Four numbers, one for each centre of a tile: a a a a b b b b c c c c d d d d."""

    def generate(context, builder, signature, arguments):
        return _load4(context, builder, signature, arguments, [lane // 4 for lane in range(LANES)])

    return f32x16(array, types.intp), generate


@intrinsic
def load_outputs(typing_context, array, index):
    """Four numbers, one for each output row of a tile: a b c d a b c d a b c d a b c d."""

    def generate(context, builder, signature, arguments):
        return _load4(context, builder, signature, arguments, [lane % 4 for lane in range(LANES)])

    return f32x16(array, types.intp), generate


@intrinsic
def prefetch(typing_context, array, index):
    """Ask for the cache line of array[index] into the second-level cache, to be read soon."""

    def generate(context, builder, signature, arguments):
        pointer = _pointer(context, builder, signature.args[0], *arguments, ir.IntType(8))
        function_type = ir.FunctionType(ir.VoidType(), [pointer.type, _I32, _I32, _I32])
        function = cgutils.get_or_insert_function(builder.module, function_type, "llvm.prefetch.p0")
        builder.call(function, [pointer, _I32(0), _I32(2), _I32(1)])
        return context.get_dummy_value()

    return types.void(array, types.intp), generate


# --- arithmetic, lane by lane


def _register_operator(symbol, instruction):
    """Teach Numba an operator between two vectors."""

    @infer_global(symbol)
    class _Operator(ConcreteTemplate):
        cases = (f32x16(f32x16, f32x16),)

    @lower_builtin(symbol, f32x16, f32x16)
    def lower(context, builder, signature, arguments):
        return getattr(builder, instruction)(*arguments)


for _symbol, _instruction in (
    (operator.add, "fadd"),
    (operator.sub, "fsub"),
    (operator.mul, "fmul"),
    (operator.truediv, "fdiv"),
):
    _register_operator(_symbol, _instruction)


@intrinsic
def muladd(typing_context, a, b, c):
    """a * b + c, fused where the processor fuses (llvm.fma would call a function where it does not)."""

    def generate(context, builder, signature, arguments):
        return _call(builder, "llvm.fmuladd.v16f32", _VEC, *arguments)

    return f32x16(f32x16, f32x16, f32x16), generate


@intrinsic
def absolute(typing_context, a):
    def generate(context, builder, signature, arguments):
        return _call(builder, "llvm.fabs.v16f32", _VEC, *arguments)

    return f32x16(f32x16), generate


@intrinsic
def power_of_two(typing_context, a):
    """2**n, where a is n + WHOLE for a whole n in -126..127: its lowest bits are n, and become the exponent."""

    def generate(context, builder, signature, arguments):
        exponent = builder.shl(builder.bitcast(arguments[0], _IVEC), ir.Constant(_IVEC, [23] * LANES))
        return builder.bitcast(builder.add(exponent, ir.Constant(_IVEC, [127 << 23] * LANES)), _VEC)

    return f32x16(f32x16), generate


@intrinsic
def where_less(typing_context, a, b, yes, no):
    """yes where a < b, else no (a NaN in a or b gives no)."""

    def generate(context, builder, signature, arguments):
        a, b, yes, no = arguments
        return builder.select(builder.fcmp_ordered("<", a, b), yes, no)

    return f32x16(f32x16, f32x16, f32x16, f32x16), generate


# --- across lanes


@intrinsic
def total(typing_context, a):
    """The sum of the 16 lanes, in a fixed order."""

    def generate(context, builder, signature, arguments):
        (vector,) = arguments
        for half in (8, 4, 2, 1):
            vector = builder.fadd(vector, _shuffle(builder, vector, vector, [(lane + half) % 16 for lane in range(16)]))
        return builder.extract_element(vector, _I32(0))

    return types.float32(f32x16), generate


@intrinsic
def totals(typing_context, vectors):
    """Of a tuple of 16 vectors: lane k of the result is the sum of the lanes of vector k."""

    def generate(context, builder, signature, arguments):
        level = cgutils.unpack_tuple(builder, arguments[0])
        unit = 1  # after each level, runs of `unit` lanes hold partial sums of `unit` different vectors
        while len(level) > 1:
            low = [16 * (lane // unit % 2) + lane // (2 * unit) * 2 * unit + lane % unit for lane in range(LANES)]
            high = [lane + unit for lane in low]
            level = [
                builder.fadd(_shuffle(builder, a, b, low), _shuffle(builder, a, b, high))
                for a, b in zip(level[::2], level[1::2], strict=True)
            ]
            unit *= 2
        return level[0]

    return f32x16(vectors), generate


def _store4(context, builder, signature, arguments, folds, lanes):
    array, index, vector = arguments
    for distance in folds:
        rotated = _shuffle(builder, vector, vector, [(lane + distance) % 16 for lane in range(16)])
        vector = builder.fadd(vector, rotated)
    pointer = _pointer(context, builder, signature.args[0], array, index, ir.VectorType(_F32, 4))
    builder.store(_shuffle(builder, vector, vector, lanes), pointer).align = 4
    return context.get_dummy_value()


@intrinsic
def store_centre_sums(typing_context, array, index, tile):
    """Write four numbers: for each centre of a tile the sum over its output rows."""

    def generate(context, builder, signature, arguments):
        return _store4(context, builder, signature, arguments, (2, 1), [0, 4, 8, 12])

    return types.void(array, types.intp, f32x16), generate


@intrinsic
def store_output_sums(typing_context, array, index, tile):
    """Write four numbers: for each output row of a tile the sum over its centres."""

    def generate(context, builder, signature, arguments):
        return _store4(context, builder, signature, arguments, (8, 4), [0, 1, 2, 3])

    return types.void(array, types.intp, f32x16), generate


@intrinsic
def matches(typing_context, array, index, number):
    """Bit k is set where array[index + k] == number, for k in 0..15 of an int32 array."""

    def generate(context, builder, signature, arguments):
        array, index, number = arguments
        ids = builder.load(_pointer(context, builder, signature.args[0], array, index, _IVEC), typ=_IVEC)
        ids.align = 4
        lone = builder.insert_element(ir.Constant(_IVEC, ir.Undefined), number, _I32(0))
        same = builder.icmp_signed("==", ids, _shuffle(builder, lone, lone, [0] * LANES))
        return builder.zext(builder.bitcast(same, ir.IntType(16)), _I32)

    return types.int32(array, types.intp, types.int32), generate


@intrinsic
def lowest_bit(typing_context, number):
    """The number of the lowest bit that is set; there must be one."""

    def generate(context, builder, signature, arguments):
        return builder.zext(builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1)), ir.IntType(64))

    return types.int64(types.int32), generate
