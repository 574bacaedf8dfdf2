"""Eight rows of a matrix by a few rows of activations: the innermost products, one per layout.

A tile is eight rows of a matrix. Its bytes lie in the order in which they are needed: of each four columns
the eight rows' values, 32 bytes, so that a lane of a vector is a row and nothing is summed across lanes. Of
32 columns, the first 16 lie in the low halves of 128 bytes and the others in the high halves; bits above the
fourth follow, for each byte from the lowest on in the order of these vectors. All weights are unsigned; what
makes them signed is the activations' sum, times what they are too large by.

Each row of activations comes out the same, to the bit, however many are computed together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from numba import types
from numba.extending import intrinsic

from engine.kernels.numba.instructions import BEST, Avx2
from engine.kernels.numba.vectors import BYTES, FLOATS, INTS, SHORTS, SMALL_BYTES, Value, constant, i64

AHEAD = 4_096  # bytes that the memory is asked for beforehand
GROUP = 3  # rows of activations that lie together
SCALES_32, SCALES_256 = 8, 128  # bytes of a row's block of activations: see `activations`
SUMS_32, SUMS_16 = 32, 64  # in those of 256: where the sums stand


@dataclass(frozen=True, slots=True)
class Layout:
    """How a tile lies in memory: `block` columns of it are `bytes`, and `multiply` does that."""

    block: int
    bytes: int
    multiply: Callable[[Avx2, Value, Rows, Value], list[Value]]


@dataclass(frozen=True, slots=True)
class Rows:
    """Some rows of activations, in groups of `GROUP` but for the last: where each group's bytes lie, and
    its scales. `record` are the bytes of a row's scales of a block."""

    count: int
    x: tuple[Value, ...]
    s: tuple[Value, ...]
    record: int

    def group(self, row: int) -> int:
        """How many rows lie together with this one."""
        return min(GROUP, self.count - row // GROUP * GROUP)

    def at(self, emitter: Avx2, index: Value, columns: int) -> Rows:
        """The same from a block on."""
        sizes = [self.group(row) for row in range(0, self.count, GROUP)]
        x = [
            emitter.at(base, emitter.times(index, columns * size))
            for base, size in zip(self.x, sizes, strict=True)
        ]
        s = [
            emitter.at(base, emitter.times(index, self.record * size))
            for base, size in zip(self.s, sizes, strict=True)
        ]
        return Rows(self.count, tuple(x), tuple(s), self.record)

    def part(self, emitter: Avx2, index: Value, columns: int, scales: int) -> Rows:
        """The same from a part of a block on, of so many columns and bytes of scales."""
        x = [
            emitter.at(base, emitter.times(index, columns * self.group(GROUP * number)))
            for number, base in enumerate(self.x)
        ]
        s = [emitter.at(base, emitter.times(index, scales)) for base in self.s]
        return Rows(self.count, tuple(x), tuple(s), self.record)

    def bytes(self, row: int) -> tuple[Value, int]:
        """Where a row's 32 bytes lie: an address, and bytes on from it."""
        return self.x[row // GROUP], 32 * (row % GROUP)

    def scales(self, row: int) -> tuple[Value, int]:
        """And its scales."""
        return self.s[row // GROUP], self.record * (row % GROUP)


def _fetch(emitter: Avx2, base: Value, size: int) -> None:
    for offset in range(0, size, 64):
        emitter.prefetch(base, AHEAD + offset)


def stored_bytes(bits: int) -> int:
    """Bytes of 32 columns of a tile."""
    return 32 * bits


def _values(emitter: Avx2, base: Value, offset: int, bits: int) -> list[Value]:
    """32 columns of so many bits: eight vectors of bytes."""
    builder = emitter.builder
    if bits == 8:
        return [emitter.load(base, offset + 32 * index, BYTES) for index in range(8)]
    halves = [emitter.load(base, offset + 32 * index, BYTES) for index in range(4)]
    low = [emitter.low(half) for half in halves] + [emitter.high(half) for half in halves]
    more = bits - 4
    if more == 0:
        return low
    per = 8 // more  # vectors whose further bits lie in one byte
    above = [emitter.load(base, offset + 128 + 32 * index, SHORTS) for index in range(8 // per)]
    mask, out = constant(BYTES, ((1 << more) - 1) << 4), []
    for index, value in enumerate(low):
        left = 4 - more * (index % per)  # what brings them above the four
        moved = above[index // per]
        if left > 0:
            moved = builder.shl(moved, constant(SHORTS, left))
        elif left < 0:
            moved = builder.lshr(moved, constant(SHORTS, -left))
        out.append(builder.or_(value, builder.and_(builder.bitcast(moved, BYTES), mask)))
    return out


def _ints(emitter: Avx2, base: Value, offset: int) -> Value:
    """One int, eight times."""
    return emitter.builder.bitcast(emitter.float(base, offset), INTS)


def _blocks_of_32(bits: int, has_minima: bool) -> Layout:
    """8 half scales, 8 half minima if there are any, and the values; else these are centred."""
    first = 32 if has_minima else 16
    size = first + stored_bytes(bits)

    def multiply(emitter: Avx2, w: Value, rows: Rows, blocks: Value) -> list[Value]:
        builder = emitter.builder

        def body(index: Value, sums: list[Value]) -> list[Value]:
            block, here = emitter.at(w, emitter.times(index, size)), rows.at(emitter, index, 32)
            _fetch(emitter, block, size)
            values, scale = _values(emitter, block, first, bits), emitter.halves(block, 0)
            least, out = emitter.halves(block, 16) if has_minima else None, []
            for row in range(rows.count):
                (x, offset), (s, at) = here.bytes(row), here.scales(row)
                start = constant(INTS, 0)
                if not has_minima:
                    start = builder.shl(_ints(emitter, s, at + 4), constant(INTS, bits - 1))
                dot = builder.sitofp(emitter.dot(values, x, offset, bits, start), FLOATS)
                added = emitter.fma(dot, builder.fmul(scale, emitter.float(s, at)), sums[row])
                if has_minima:
                    added = emitter.fma(least, emitter.float(s, at + 4), added)
                out.append(added)
            return out

        return emitter.loop(blocks, [constant(FLOATS, 0)] * rows.count, body)

    return Layout(32, size, multiply)


def _blocks_of_256(
    size: int,
    first: int,
    part: int,
    parts: Callable[[Avx2, Value, Value, Rows, Value, list[Value]], list[Value]],
) -> Layout:
    """Blocks of eight parts of 32 columns, `part` bytes each from byte `first` on, after 8 half scales.

    `parts(emitter, block, here, rows, number, sums)` adds one to what the block comes to.
    """

    def multiply(emitter: Avx2, w: Value, rows: Rows, blocks: Value) -> list[Value]:
        builder = emitter.builder

        def body(index: Value, sums: list[Value]) -> list[Value]:
            block, active = emitter.at(w, emitter.times(index, size)), rows.at(emitter, index, 256)

            def sub(number: Value, carried: list[Value]) -> list[Value]:
                here = emitter.at(block, builder.add(emitter.times(number, part), i64(first)))
                return parts(emitter, block, here, active, number, carried)

            inner = emitter.loop(i64(8), [constant(FLOATS, 0)] * rows.count, sub)
            out = []
            for row, value in enumerate(inner):
                s, at = active.scales(row)
                out.append(emitter.fma(value, emitter.float(s, at), sums[row]))
            return out

        return emitter.loop(blocks, [constant(FLOATS, 0)] * rows.count, body)

    return Layout(256, size, multiply)


def _with_minima(bits: int) -> Layout:
    """8 half scales, 8 half minima; of each 32 columns: 8 scales, 8 minima, the values."""
    part = 16 + stored_bytes(bits)

    def parts(
        emitter: Avx2, block: Value, here: Value, rows: Rows, number: Value, sums: list[Value]
    ) -> list[Value]:
        builder = emitter.builder
        _fetch(emitter, here, part)
        active = rows.part(emitter, number, 32, 4)
        values = _values(emitter, here, 16, bits)
        scale, least = (
            builder.fmul(
                builder.uitofp(builder.zext(emitter.load(here, 8 * which, SMALL_BYTES), INTS), FLOATS),
                emitter.halves(block, 16 * which),
            )
            for which in (0, 1)
        )
        below, out = builder.fneg(least), []
        for row in range(rows.count):
            (x, offset), (s, at) = active.bytes(row), active.scales(row)
            dot = builder.sitofp(emitter.dot(values, x, offset, bits, constant(INTS, 0)), FLOATS)
            added = emitter.fma(below, emitter.float(s, at + SUMS_32), sums[row])
            out.append(emitter.fma(dot, scale, added))
        return out

    return _blocks_of_256(32 + 8 * part, 32, part, parts)


def _sixteens(bits: int) -> Layout:
    """8 half scales; of each 32 columns: two times 8 signed scales, for 16 columns each, and the values."""
    part = 16 + stored_bytes(bits)

    def parts(
        emitter: Avx2, block: Value, here: Value, rows: Rows, number: Value, sums: list[Value]
    ) -> list[Value]:
        builder, out = emitter.builder, list(sums)
        _fetch(emitter, here, part)
        active = rows.part(emitter, number, 32, 8)
        values, whole = _values(emitter, here, 16, bits), emitter.halves(block, 0)
        for half in range(2):
            stored = builder.sext(emitter.load(here, 8 * half, SMALL_BYTES), INTS)
            scale = builder.fmul(builder.sitofp(stored, FLOATS), whole)
            for row in range(rows.count):
                (x, offset), (s, at) = active.bytes(row), active.scales(row)
                less = builder.shl(_ints(emitter, s, at + SUMS_16 + 4 * half), constant(INTS, bits - 1))
                chosen = values[4 * half : 4 * half + 4]
                dot = emitter.dot(chosen, x, offset + 16 * half, bits, less)
                out[row] = emitter.fma(builder.sitofp(dot, FLOATS), scale, out[row])
        return out

    return _blocks_of_256(16 + 8 * part, 16, part, parts)


FOURS_32, FOURS_MINIMA_32, FIVES_32, FIVES_MINIMA_32, BYTES_32, FOURS_256, FIVES_256, SIXES_256 = range(8)
LAYOUTS = (
    _blocks_of_32(4, has_minima=False),
    _blocks_of_32(4, has_minima=True),
    _blocks_of_32(5, has_minima=False),
    _blocks_of_32(5, has_minima=True),
    _blocks_of_32(8, has_minima=False),
    _with_minima(4),
    _with_minima(5),
    _sixteens(6),
)


MOST = BEST.ROWS  # rows of activations at a time
COUNTS = tuple(sorted({1, 2, GROUP, MOST}))


@intrinsic
def tile(
    context: Any, layout: Any, count: Any, w: Any, x: Any, s: Any, out: Any, stride: Any, blocks: Any
) -> Any:
    """A tile, blocks of a layout, by a `count` of rows that is one of `COUNTS`.

    Addresses of the tile, the activations, their scales and the output, whose rows are `stride` bytes apart.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        end = builder.append_basic_block()
        chosen = builder.switch(builder.add(builder.shl(arguments[0], i64(3)), arguments[1]), end)
        for number, layout in enumerate(LAYOUTS):
            for count in COUNTS:
                block = builder.append_basic_block()
                chosen.add_case(i64(8 * number + count), block)
                builder.position_at_end(block)
                _emit(BEST(builder), layout, count, *arguments[2:])
                builder.branch(end)
        builder.position_at_end(end)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 8), generate


def _emit(
    emitter: Avx2,
    layout: Layout,
    count: int,
    w: Value,
    x: Value,
    s: Value,
    out: Value,
    stride: Value,
    blocks: Value,
) -> None:
    record = SCALES_32 if layout.block == 32 else SCALES_256
    w, x, s, out = (emitter.pointer(address) for address in (w, x, s, out))
    groups = range(-(-count // GROUP))
    xs = [emitter.at(x, emitter.times(blocks, layout.block * GROUP * group)) for group in groups]
    ss = [emitter.at(s, emitter.times(blocks, record * GROUP * group)) for group in groups]
    sums = layout.multiply(emitter, w, Rows(count, tuple(xs), tuple(ss), record), blocks)
    for row, value in enumerate(sums):
        emitter.store(value, out, emitter.times(stride, row))
