"""Addresses as arrays, and rows of floats in other types."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import carray, njit, types
from numba.extending import intrinsic

from engine.kernels.numba.vectors import FLOATS, HALVES, I8, Emitter, Value

OPTIONS = {"nogil": True, "cache": True, "fastmath": False, "boundscheck": False, "error_model": "numpy"}
IN_FLOATS, IN_HALVES = 0, 1  # how a cache keeps its numbers


@intrinsic
def _pointer(context: Any, address: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], I8.as_pointer())

    return types.voidptr(types.int64), generate


@njit(**OPTIONS)
def floats(address: int, count: int) -> np.ndarray:
    """So many floats at an address."""
    return carray(_pointer(address), (count,), np.float32)


@njit(**OPTIONS)
def whole(address: int, count: int) -> np.ndarray:
    """So many 64-bit whole numbers at an address."""
    return carray(_pointer(address), (count,), np.int64)


@intrinsic
def store_halves(context: Any, source: Any, out: Any, blocks: Any) -> Any:
    """Blocks of eight floats, as half ones."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        emitter = Emitter(builder)
        source, out = (emitter.pointer(address) for address in arguments[:2])

        def body(index: Value, carried: list[Value]) -> list[Value]:
            x = emitter.load(source, emitter.times(index, 32), FLOATS)
            emitter.store(builder.fptrunc(x, HALVES), out, emitter.times(index, 16))
            return []

        emitter.loop(arguments[2], [], body)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 3), generate
