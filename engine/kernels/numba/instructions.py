"""The product at the heart of everything, in the instructions of the processor at hand.

Another family of processors joins by a class of its own here, with the same vectors of eight rows.
"""

from __future__ import annotations

import os

from llvmlite import binding

from engine.kernels.numba.vectors import BYTES, INTS, SHORTS, Emitter, Value, constant

SETTING = "SIDELIGHT_INSTRUCTIONS"  # an environment variable: less than the processor has, by name


class Avx2(Emitter):
    """Bytes by bytes into shorts, and these into ints."""

    NAME = "avx2"
    ROWS = 3  # of activations at a time: more, and sixteen registers don't suffice

    def dot(self, weights: list[Value], x: Value, first: int, bits: int, start: Value) -> Value:
        """Eight ints: `start` plus vectors of unsigned weights by activations from byte `first` on.

        With 8 `bits`, `start` has to be what makes weights signed: -128 times the activations' sum.
        """
        if bits == 8:
            return self._signed(weights, x, first)
        builder, sums, total = self.builder, None, start
        most = 1 << (7 - bits)  # products that fit into a short
        for index, weight in enumerate(weights):
            pairs = self.multiply_pairs(weight, self.four_bytes(x, first + 4 * index))
            sums = pairs if sums is None else builder.add(sums, pairs)
            if (index + 1) % most == 0 or index + 1 == len(weights):
                total, sums = builder.add(total, self.add_pairs(sums)), None
        return total

    def _signed(self, weights: list[Value], x: Value, first: int) -> Value:
        """Unsigned bytes don't fit: two products of the greatest are too large for a short."""
        total = None
        for index, weight in enumerate(weights):
            signed = self.builder.xor(weight, constant(BYTES, 128))
            turned = self.signed_as(self.four_bytes(x, first + 4 * index), signed)
            ints = self.add_pairs(self.multiply_pairs(self.signed_as(signed, signed), turned))
            total = ints if total is None else self.builder.add(total, ints)
        return total

    def multiply_pairs(self, unsigned: Value, signed: Value) -> Value:
        """Bytes by bytes, neighbours added: 16 shorts, which must not overflow."""
        return self.call("llvm.x86.avx2.pmadd.ub.sw", SHORTS, unsigned, signed)

    def add_pairs(self, shorts: Value) -> Value:
        """Neighbours added: 8 ints."""
        return self.call("llvm.x86.avx2.pmadd.wd", INTS, shorts, constant(SHORTS, 1))

    def signed_as(self, value: Value, sign: Value) -> Value:
        """Bytes, negated where `sign` is negative, and 0 where that is 0."""
        return self.call("llvm.x86.avx2.psign.b", BYTES, value, sign)


class Vnni(Avx2):
    """Four bytes by four bytes onto an int, in one instruction."""

    NAME = "vnni"
    ROWS = 6  # there are thirty-two registers

    def dot(self, weights: list[Value], x: Value, first: int, bits: int, start: Value) -> Value:
        """As above; the same numbers come out."""
        total = start
        for index, weight in enumerate(weights):
            four = self.builder.bitcast(self.four_bytes(x, first + 4 * index), INTS)
            total = self.call(
                "llvm.x86.avx512.vpdpbusd.256", INTS, total, self.builder.bitcast(weight, INTS), four
            )
        return total


def _best() -> type[Avx2]:
    features = binding.get_host_cpu_features()
    has_vnni = all(features.get(name, False) for name in ("avx512vl", "avx512vnni"))
    return Vnni if has_vnni and os.environ.get(SETTING) != Avx2.NAME else Avx2


BEST = _best()
