"""Eight rows of a matrix by up to three rows of activations: the innermost products, one per layout.

A tile is eight rows of a matrix. Its bytes lie in the order in which they are needed: of each four columns
the eight rows' values, 32 bytes, so that a lane of a vector is a row and nothing is summed across lanes.
Each row of activations comes out the same, to the bit, however many are computed together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from numba import types
from numba.extending import intrinsic

from engine.kernels.numba.vectors import BYTES, FLOATS, INTS, SMALL_BYTES, Emitter, Value, constant, i64

AHEAD = 4_096  # bytes that the memory is asked for beforehand
MOST = 3  # rows of activations together: more, and the registers don't suffice
SCALES_32, SCALES_256 = 8, 64  # bytes of a row's block of activations: see `activations`


@dataclass(frozen=True, slots=True)
class Layout:
    """How a tile lies in memory: `block` columns of it are `bytes`, and `emit` multiplies them."""

    block: int
    bytes: int
    emit: Callable[[Emitter, Value, Value, Value, Value, int], list[Value]]


def _dot(emitter: Emitter, weights: list[Value], x: Value, first: int, most: int) -> Value:
    """Vectors of unsigned weights by activations from byte `first` on: eight ints.

    `most` products fit into a short.
    """
    builder, sums, total = emitter.builder, None, None
    for index, weight in enumerate(weights):
        pairs = emitter.multiply_pairs(weight, emitter.four_bytes(x, first + 4 * index))
        sums = pairs if sums is None else builder.add(sums, pairs)
        if (index + 1) % most == 0 or index + 1 == len(weights):
            ints = emitter.add_pairs(sums)
            total, sums = ints if total is None else builder.add(total, ints), None
    return total


def _signed_dot(emitter: Emitter, weights: list[Value], x: Value, first: int, most: int) -> Value:
    """The same with signed weights."""
    builder, sums, total = emitter.builder, None, None
    for index, weight in enumerate(weights):
        turned = emitter.signed_as(emitter.four_bytes(x, first + 4 * index), weight)
        pairs = emitter.multiply_pairs(emitter.signed_as(weight, weight), turned)
        sums = pairs if sums is None else builder.add(sums, pairs)
        if (index + 1) % most == 0 or index + 1 == len(weights):
            ints = emitter.add_pairs(sums)
            total, sums = ints if total is None else builder.add(total, ints), None
    return total


def _nibbles(emitter: Emitter, base: Value, offset: int) -> list[Value]:
    """128 bytes as eight vectors: the low halves first."""
    stored = [emitter.load(base, offset + 32 * part, BYTES) for part in range(4)]
    return [emitter.low(part) for part in stored] + [emitter.high(part) for part in stored]


def _bytes(emitter: Emitter, base: Value, offset: int, count: int) -> list[Value]:
    return [emitter.load(base, offset + 32 * part, BYTES) for part in range(count)]


def _fetch(emitter: Emitter, base: Value, size: int) -> None:
    for offset in range(0, size, 64):
        emitter.prefetch(base, AHEAD + offset)


def nibbles_32(emitter: Emitter, w: Value, x: Value, s: Value, blocks: Value, rows: int) -> list[Value]:
    """Of 32 columns: 8 half scales, 8 half minima, 128 bytes of nibbles."""
    builder = emitter.builder

    def body(index: Value, sums: list[Value]) -> list[Value]:
        block, active = (
            emitter.at(w, emitter.times(index, 160)),
            emitter.at(x, emitter.times(index, 32 * rows)),
        )
        scales = emitter.at(s, emitter.times(index, SCALES_32 * rows))
        _fetch(emitter, block, 128)
        values, scale, least = (
            _nibbles(emitter, block, 32),
            emitter.halves(block, 0),
            emitter.halves(block, 16),
        )
        out = []
        for row in range(rows):
            dot = builder.sitofp(_dot(emitter, values, active, 32 * row, 8), FLOATS)
            both = builder.fmul(scale, emitter.float(scales, SCALES_32 * row))
            added = emitter.fma(dot, both, sums[row])
            out.append(emitter.fma(least, emitter.float(scales, SCALES_32 * row + 4), added))
        return out

    return emitter.loop(blocks, [constant(FLOATS, 0)] * rows, body)


def bytes_32(emitter: Emitter, w: Value, x: Value, s: Value, blocks: Value, rows: int) -> list[Value]:
    """Of 32 columns: 8 half scales, 256 signed bytes."""
    builder = emitter.builder

    def body(index: Value, sums: list[Value]) -> list[Value]:
        block, active = (
            emitter.at(w, emitter.times(index, 272)),
            emitter.at(x, emitter.times(index, 32 * rows)),
        )
        scales = emitter.at(s, emitter.times(index, SCALES_32 * rows))
        _fetch(emitter, block, 256)
        values, scale = _bytes(emitter, block, 16, 8), emitter.halves(block, 0)
        out = []
        for row in range(rows):
            dot = builder.sitofp(_signed_dot(emitter, values, active, 32 * row, 1), FLOATS)
            both = builder.fmul(scale, emitter.float(scales, SCALES_32 * row))
            out.append(emitter.fma(dot, both, sums[row]))
        return out

    return emitter.loop(blocks, [constant(FLOATS, 0)] * rows, body)


def _with_minima(stored: int) -> Callable[..., list[Value]]:
    """Of 256 columns: 8 half scales, 8 half minima; of each 32: 8 scales, 8 minima, `stored` bytes."""
    part, whole = 16 + stored, 32 + 8 * (16 + stored)

    def emit(emitter: Emitter, w: Value, x: Value, s: Value, blocks: Value, rows: int) -> list[Value]:
        builder = emitter.builder

        def body(index: Value, sums: list[Value]) -> list[Value]:
            block = emitter.at(w, emitter.times(index, whole))
            active = emitter.at(x, emitter.times(index, 256 * rows))
            scales = emitter.at(s, emitter.times(index, SCALES_256 * rows))

            def sub(at: Value, ints: list[Value]) -> list[Value]:
                here = emitter.at(block, builder.add(emitter.times(at, part), i64(32)))
                x_here = emitter.at(active, emitter.times(at, 32 * rows))
                s_here = emitter.at(scales, emitter.times(at, 4))
                _fetch(emitter, here, stored)
                values = _nibbles(emitter, here, 16) if stored == 128 else _bytes(emitter, here, 16, 8)
                scale = builder.zext(emitter.load(here, 0, SMALL_BYTES), INTS)
                least = builder.zext(emitter.load(here, 8, SMALL_BYTES), INTS)
                most, out = (8 if stored == 128 else 4), []
                for row in range(rows):
                    dot = _dot(emitter, values, x_here, 32 * row, most)
                    out.append(builder.add(ints[2 * row], builder.mul(dot, scale)))
                    sum_32 = builder.bitcast(emitter.float(s_here, SCALES_256 * row + 32), INTS)
                    out.append(builder.add(ints[2 * row + 1], builder.mul(sum_32, least)))
                return out

            ints = emitter.loop(i64(8), [constant(INTS, 0)] * (2 * rows), sub)
            scale, least, out = emitter.halves(block, 0), emitter.halves(block, 16), []
            for row in range(rows):
                factor = emitter.float(scales, SCALES_256 * row)
                dot, low = (builder.sitofp(value, FLOATS) for value in ints[2 * row : 2 * row + 2])
                added = emitter.fma(dot, builder.fmul(scale, factor), sums[row])
                out.append(emitter.fma(low, builder.fneg(builder.fmul(least, factor)), added))
            return out

        return emitter.loop(blocks, [constant(FLOATS, 0)] * rows, body)

    return emit


def bytes_256(emitter: Emitter, w: Value, x: Value, s: Value, blocks: Value, rows: int) -> list[Value]:
    """Of 256 columns: 8 half scales; of each 16: 8 signed scales, 128 signed bytes of at most six bits."""
    builder = emitter.builder

    def body(index: Value, sums: list[Value]) -> list[Value]:
        block = emitter.at(w, emitter.times(index, 16 + 16 * 136))
        active = emitter.at(x, emitter.times(index, 256 * rows))
        scales = emitter.at(s, emitter.times(index, SCALES_256 * rows))

        def sub(at: Value, ints: list[Value]) -> list[Value]:  # two sixteens
            here = emitter.at(block, builder.add(emitter.times(at, 272), i64(16)))
            x_here = emitter.at(active, emitter.times(at, 32 * rows))
            _fetch(emitter, here, 256)
            out = list(ints)
            for half in range(2):
                values = _bytes(emitter, here, 136 * half + 8, 4)
                scale = builder.sext(emitter.load(here, 136 * half, SMALL_BYTES), INTS)
                for row in range(rows):
                    dot = _signed_dot(emitter, values, x_here, 32 * row + 16 * half, 4)
                    out[row] = builder.add(out[row], builder.mul(dot, scale))
            return out

        ints = emitter.loop(i64(8), [constant(INTS, 0)] * rows, sub)
        scale, out = emitter.halves(block, 0), []
        for row in range(rows):
            factor = builder.fmul(scale, emitter.float(scales, SCALES_256 * row))
            out.append(emitter.fma(builder.sitofp(ints[row], FLOATS), factor, sums[row]))
        return out

    return emitter.loop(blocks, [constant(FLOATS, 0)] * rows, body)


NIBBLES_32, BYTES_32, NIBBLES_256, FIVES_256, BYTES_256 = range(5)
LAYOUTS = (
    Layout(32, 160, nibbles_32),
    Layout(32, 272, bytes_32),
    Layout(256, 32 + 8 * 144, _with_minima(128)),
    Layout(256, 32 + 8 * 272, _with_minima(256)),
    Layout(256, 16 + 16 * 136, bytes_256),
)


def make(layout: Layout, rows: int) -> Any:
    """`tile(w, x, s, out, stride, blocks)`: addresses, bytes between rows of the output, blocks in a row."""

    @intrinsic
    def tile(context: Any, w: Any, x: Any, s: Any, out: Any, stride: Any, blocks: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            emitter = Emitter(builder)
            w, x, s, out = (emitter.pointer(address) for address in arguments[:4])
            sums = layout.emit(emitter, w, x, s, arguments[5], rows)
            for row, value in enumerate(sums):
                emitter.store(value, out, emitter.times(arguments[4], row))
            return context.get_dummy_value()

        return types.void(*[types.int64] * 6), generate

    return tile
