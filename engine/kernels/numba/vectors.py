"""Vector instructions as LLVM has them, for functions that numba compiles (AVX2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils

I8, I16, I32, I64 = (ir.IntType(bits) for bits in (8, 16, 32, 64))
F16, F32 = ir.HalfType(), ir.FloatType()
BYTES, SMALL_BYTES = ir.VectorType(I8, 32), ir.VectorType(I8, 8)
SHORTS, INTS = ir.VectorType(I16, 16), ir.VectorType(I32, 8)
FLOATS, HALVES = ir.VectorType(F32, 8), ir.VectorType(F16, 8)
Value = Any  # llvmlite has no types for what it builds


def constant(kind: Value, value: float) -> Value:
    """A vector of one value."""
    return ir.Constant(kind, [value] * kind.count)


def i64(value: int) -> Value:
    """A whole number."""
    return ir.Constant(I64, value)


class Emitter:
    """Writes instructions where `builder` stands. Pointers are to bytes, offsets are bytes."""

    def __init__(self, builder: Value) -> None:
        self.builder = builder

    def pointer(self, address: Value) -> Value:
        """A pointer to an address."""
        return self.builder.inttoptr(address, I8.as_pointer())

    def at(self, base: Value, offset: Value | int) -> Value:
        """A pointer so many bytes on."""
        return self.builder.gep(base, [i64(offset) if isinstance(offset, int) else offset])

    def load(self, base: Value, offset: Value | int, kind: Value) -> Value:
        """What is stored there; it may lie anywhere."""
        found = self.builder.load(self.builder.bitcast(self.at(base, offset), kind.as_pointer()))
        found.align = 1
        return found

    def store(self, value: Value, base: Value, offset: Value | int) -> None:
        """Store it there."""
        where = self.builder.bitcast(self.at(base, offset), value.type.as_pointer())
        self.builder.store(value, where).align = 1

    def times(self, value: Value, factor: int) -> Value:
        """A whole number by a constant."""
        return self.builder.mul(value, i64(factor))

    def call(self, name: str, out: Value, *arguments: Value) -> Value:
        """One of LLVM's own functions."""
        kind = ir.FunctionType(out, [argument.type for argument in arguments])
        return self.builder.call(
            cgutils.get_or_insert_function(self.builder.module, kind, name), list(arguments)
        )

    def spread(self, value: Value, count: int = 8) -> Value:
        """A vector of one value."""
        kind = ir.VectorType(value.type, count)
        first = self.builder.insert_element(ir.Constant(kind, ir.Undefined), value, ir.Constant(I32, 0))
        zeros = ir.Constant(ir.VectorType(I32, count), [0] * count)
        return self.builder.shuffle_vector(first, ir.Constant(kind, ir.Undefined), zeros)

    def four_bytes(self, base: Value, offset: int) -> Value:
        """Four bytes, eight times."""
        return self.builder.bitcast(self.spread(self.load(base, offset, I32)), BYTES)

    def float(self, base: Value, offset: Value | int) -> Value:
        """One float, eight times."""
        return self.spread(self.load(base, offset, F32))

    def halves(self, base: Value, offset: Value | int) -> Value:
        """Eight half floats, as floats."""
        return self.builder.fpext(self.load(base, offset, HALVES), FLOATS)

    def low(self, value: Value) -> Value:
        """The low four bits of each byte."""
        return self.builder.and_(value, constant(BYTES, 15))

    def high(self, value: Value) -> Value:
        """The high four bits of each byte."""
        shifted = self.builder.lshr(self.builder.bitcast(value, SHORTS), constant(SHORTS, 4))
        return self.low(self.builder.bitcast(shifted, BYTES))

    def fma(self, one: Value, other: Value, added: Value) -> Value:
        """One times other, plus added, rounded once."""
        return self.call("llvm.fma.v8f32", FLOATS, one, other, added)

    def prefetch(self, base: Value, offset: int) -> None:
        """Have it brought near; past the end of the memory nothing happens."""
        read, near, data = (ir.Constant(I32, value) for value in (0, 1, 1))
        self.call("llvm.prefetch.p0", ir.VoidType(), self.at(base, offset), read, near, data)

    def loop(
        self, count: Value, carried: list[Value], body: Callable[[Value, list[Value]], list[Value]]
    ) -> list[Value]:
        """`body(index, carried) -> carried` at least once, `count` times."""
        builder = self.builder
        before, start, after = builder.block, builder.append_basic_block(), builder.append_basic_block()
        builder.branch(start)
        builder.position_at_end(start)
        index = builder.phi(I64)
        index.add_incoming(i64(0), before)
        inside = [builder.phi(value.type) for value in carried]
        for phi, value in zip(inside, carried, strict=True):
            phi.add_incoming(value, before)
        out = body(index, inside)
        following, end = builder.add(index, i64(1)), builder.block
        builder.cbranch(builder.icmp_unsigned("<", following, count), start, after)
        index.add_incoming(following, end)
        for phi, value in zip(inside, out, strict=True):
            phi.add_incoming(value, end)
        builder.position_at_end(after)
        return out

    def widest(self, value: Value) -> Value:
        """The greatest of eight floats."""
        return self._folded(value, lambda one, other: self.call("llvm.maxnum.v8f32", FLOATS, one, other))

    def total(self, value: Value) -> Value:
        """The sum of eight ints."""
        return self._folded(value, self.builder.add)

    def sum(self, value: Value) -> Value:
        """The sum of eight floats."""
        return self._folded(value, self.builder.fadd)

    def _folded(self, value: Value, join: Callable[[Value, Value], Value]) -> Value:
        for step in (4, 2, 1):
            order = ir.Constant(ir.VectorType(I32, 8), [lane ^ step for lane in range(8)])
            value = join(
                value, self.builder.shuffle_vector(value, ir.Constant(value.type, ir.Undefined), order)
            )
        return self.builder.extract_element(value, ir.Constant(I32, 0))
