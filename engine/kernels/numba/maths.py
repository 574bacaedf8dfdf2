"""Exponentials and what is made of them, eight floats at a time, each the same wherever it stands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from engine.kernels.numba.vectors import FLOATS, INTS, Emitter, Value, constant

GREATEST = 87.0  # e to more than this, or less than its negative, is cut to it: floats end there
LOG2_E, LN_2_HIGH, LN_2_LOW = 1.44269504088896341, 0.693359375, -2.12194440e-4
# Of (e^x - 1 - x) / x^2 between plus and minus ln(2) / 2, from the highest power on (Cephes' expf).
POWERS = (
    1.9875691500e-4,
    1.3981999507e-3,
    8.3334519073e-3,
    4.1665795894e-2,
    1.6666665459e-1,
    5.0000001201e-1,
)


def exponential(emitter: Emitter, x: Value) -> Value:
    """e to the x; exactly 1 of 0, and 0 of what is below -`GREATEST`."""
    builder = emitter.builder
    least, most = constant(FLOATS, -GREATEST), constant(FLOATS, GREATEST)
    held = emitter.call(
        "llvm.maxnum.v8f32", FLOATS, emitter.call("llvm.minnum.v8f32", FLOATS, x, most), least
    )
    whole = emitter.call("llvm.nearbyint.v8f32", FLOATS, builder.fmul(held, constant(FLOATS, LOG2_E)))
    rest = emitter.fma(whole, constant(FLOATS, -LN_2_HIGH), held)
    rest = emitter.fma(whole, constant(FLOATS, -LN_2_LOW), rest)
    sum_ = constant(FLOATS, POWERS[0])
    for power in POWERS[1:]:
        sum_ = emitter.fma(sum_, rest, constant(FLOATS, power))
    near = builder.fadd(emitter.fma(sum_, builder.fmul(rest, rest), rest), constant(FLOATS, 1))
    exponent = builder.add(builder.fptosi(whole, INTS), constant(INTS, 127))
    scale = builder.bitcast(builder.shl(exponent, constant(INTS, 23)), FLOATS)
    return builder.select(builder.fcmp_ordered("<", x, least), constant(FLOATS, 0), builder.fmul(near, scale))


def sigmoid(emitter: Emitter, x: Value) -> Value:
    """1 / (1 + e^-x)."""
    builder, one = emitter.builder, constant(FLOATS, 1)
    return builder.fdiv(one, builder.fadd(exponential(emitter, builder.fneg(x)), one))


def silu(emitter: Emitter, x: Value) -> Value:
    """The gate of SwiGLU."""
    return emitter.builder.fmul(x, sigmoid(emitter, x))


def gelu_tanh(emitter: Emitter, x: Value) -> Value:
    """The gate of GeGLU in its tanh approximation, by tanh(y) = 2 sigmoid(2 y) - 1."""
    builder = emitter.builder
    cube = builder.fmul(builder.fmul(x, x), x)
    inner = builder.fadd(x, builder.fmul(cube, constant(FLOATS, 0.044715)))
    return builder.fmul(x, sigmoid(emitter, builder.fmul(inner, constant(FLOATS, 2 * 0.7978845608028654))))


def _gating(gate: Callable[[Emitter, Value], Value]) -> Any:
    """`gated(gates, values, out, blocks)`: addresses of blocks of eight; `out` may be one of them."""

    @intrinsic
    def gated(context: Any, gates: Any, values: Any, out: Any, blocks: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            emitter = Emitter(builder)
            gates, values, out = (emitter.pointer(address) for address in arguments[:3])

            def body(index: Value, carried: list[Value]) -> list[Value]:
                at = emitter.times(index, 32)
                opened = gate(emitter, emitter.load(gates, at, FLOATS))
                emitter.store(builder.fmul(opened, emitter.load(values, at, FLOATS)), out, at)
                return []

            emitter.loop(arguments[3], [], body)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 4), generate

    return gated


by_sigmoid, by_silu, by_gelu_tanh = _gating(sigmoid), _gating(silu), _gating(gelu_tanh)


@intrinsic
def sum_of_squares(context: Any, source: Any, blocks: Any) -> Any:
    """Of blocks of eight floats at an address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        emitter = Emitter(builder)
        source = emitter.pointer(arguments[0])

        def body(index: Value, sums: list[Value]) -> list[Value]:
            x = emitter.load(source, emitter.times(index, 32), FLOATS)
            return [emitter.fma(x, x, sums[0])]

        (sums,) = emitter.loop(arguments[1], [constant(FLOATS, 0)], body)
        return emitter.sum(sums)

    return types.float32(types.int64, types.int64), generate


@intrinsic
def bits_as_float(context: Any, bits: Any) -> Any:
    """A double, of its bits."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(types.int64), generate
