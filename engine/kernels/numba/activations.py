"""Activations in 8 bits, a scale for each block, rounded as llama.cpp rounds them for the same weights.

A group of rows lies as [32 columns][row][32 bytes]; its scales as [block][row]. For blocks of 32 these are
the scale, a float, and either scale x sum, a float, or the negative sum, an int. For blocks of 256: the scale
in the room of eight floats, the sum of each 32, a float, and the negative sum of each 16, an int.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from engine.kernels.numba.tiles import SCALES_32, SCALES_256, SUMS_16, SUMS_32
from engine.kernels.numba.vectors import F16, F32, FLOATS, INTS, SMALL_BYTES, Emitter, Value, i64

LEAST = 1e-30  # smaller than any activation that matters: a block of zeros needs a scale too


def _rounded(emitter: Emitter, values: list[Value], factor: Value) -> list[Value]:
    """Times a factor, to the nearest whole numbers."""
    scaled = (emitter.builder.fmul(value, factor) for value in values)
    return [emitter.call("llvm.x86.avx.cvt.ps2dq.256", INTS, value) for value in scaled]


def _widest(emitter: Emitter, values: list[Value]) -> Value:
    """The greatest of all their sizes."""
    sizes = [emitter.call("llvm.fabs.v8f32", FLOATS, value) for value in values]
    while len(sizes) > 1:
        sizes = [
            emitter.call("llvm.maxnum.v8f32", FLOATS, one, other)
            for one, other in zip(sizes[::2], sizes[1::2], strict=True)
        ]
    return emitter.widest(sizes[0])


def _sum(emitter: Emitter, ints: list[Value]) -> Value:
    while len(ints) > 1:
        ints = [emitter.builder.add(one, other) for one, other in zip(ints[::2], ints[1::2], strict=True)]
    return emitter.total(ints[0])


def _halved(emitter: Emitter, value: Value) -> Value:
    """A float as precise as a half one."""
    return emitter.builder.fpext(emitter.builder.fptrunc(value, F16), F32)


def _scale(emitter: Emitter, values: list[Value]) -> tuple[Value, Value]:
    """The scale of a block, and its inverse, spread."""
    builder, widest = emitter.builder, _widest(emitter, values)
    least = ir.Constant(F32, LEAST)
    widest = builder.select(builder.fcmp_ordered("<", widest, least), least, widest)
    scale = builder.fdiv(widest, ir.Constant(F32, 127.0))
    return scale, emitter.spread(builder.fdiv(ir.Constant(F32, 127.0), widest))


def _round_32(with_products: bool) -> Any:
    """Blocks of 32; the scale is as precise as a half float, and so is scale x sum where that is kept."""

    @intrinsic
    def round_32(context: Any, source: Any, x: Any, s: Any, rows: Any, blocks: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            emitter = Emitter(builder)
            source, x, s = (emitter.pointer(address) for address in arguments[:3])

            def body(index: Value, carried: list[Value]) -> list[Value]:
                here = emitter.at(source, emitter.times(index, 128))
                values = [emitter.load(here, 32 * part, FLOATS) for part in range(4)]
                scale, inverse = _scale(emitter, values)
                ints = _rounded(emitter, values, inverse)
                place = builder.mul(index, arguments[3])
                out, scales = (
                    emitter.at(x, emitter.times(place, 32)),
                    emitter.at(s, emitter.times(place, SCALES_32)),
                )
                for part, value in enumerate(ints):
                    emitter.store(builder.trunc(value, SMALL_BYTES), out, 8 * part)
                total = _sum(emitter, ints)
                emitter.store(_halved(emitter, scale), scales, 0)
                if with_products:
                    product = builder.fmul(scale, builder.sitofp(total, F32))
                    emitter.store(_halved(emitter, product), scales, 4)
                else:
                    emitter.store(builder.neg(total), scales, 4)
                return []

            emitter.loop(arguments[4], [], body)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 5), generate

    return round_32


@intrinsic
def round_256(context: Any, source: Any, x: Any, s: Any, rows: Any, blocks: Any) -> Any:
    """Blocks of 256. `source`, `x`, `s` are addresses; `rows` are in the group, of which this is one."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        emitter = Emitter(builder)
        source, x, s = (emitter.pointer(address) for address in arguments[:3])

        def body(index: Value, carried: list[Value]) -> list[Value]:
            here = emitter.at(source, emitter.times(index, 1_024))
            values = [emitter.load(here, 32 * part, FLOATS) for part in range(32)]
            scale, inverse = _scale(emitter, values)
            ints = _rounded(emitter, values, inverse)
            place = builder.mul(index, arguments[3])
            scales = emitter.at(s, emitter.times(place, SCALES_256))
            for part in range(8):
                lane = builder.mul(builder.add(emitter.times(index, 8), i64(part)), arguments[3])
                out, here = emitter.at(x, emitter.times(lane, 32)), ints[4 * part : 4 * part + 4]
                for quarter, value in enumerate(here):
                    emitter.store(builder.trunc(value, SMALL_BYTES), out, 8 * quarter)
                sums = [_sum(emitter, here[:2]), _sum(emitter, here[2:])]
                for half, value in enumerate(sums):
                    emitter.store(builder.neg(value), scales, SUMS_16 + 8 * part + 4 * half)
                total = builder.sitofp(builder.add(*sums), F32)
                emitter.store(total, scales, SUMS_32 + 4 * part)
            emitter.store(scale, scales, 0)
            return []

        emitter.loop(arguments[4], [], body)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 5), generate


round_32 = _round_32(with_products=False)
round_32_with_products = _round_32(with_products=True)
