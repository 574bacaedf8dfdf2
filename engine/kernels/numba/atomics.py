"""Whole numbers that several threads change, by address."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from engine.kernels.numba.vectors import I64


def _pointer(builder: Any, address: Any) -> Any:
    return builder.inttoptr(address, I64.as_pointer())


@intrinsic
def add(context: Any, address: Any, value: Any) -> Any:
    """Add to it; what it was before."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.atomic_rmw("add", _pointer(builder, arguments[0]), arguments[1], "seq_cst")

    return types.int64(types.int64, types.int64), generate


@intrinsic
def get(context: Any, address: Any) -> Any:
    """Read it, and see all that was written before it was."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load_atomic(_pointer(builder, arguments[0]), "acquire", 8)

    return types.int64(types.int64), generate


@intrinsic
def put(context: Any, address: Any, value: Any) -> Any:
    """Write it, after all that was written before."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store_atomic(arguments[1], _pointer(builder, arguments[0]), "seq_cst", 8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@intrinsic
def pause(context: Any) -> Any:
    """Tell the processor that this is a loop that waits."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(ir.VoidType(), [])
        builder.call(cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.sse2.pause"), [])
        return context.get_dummy_value()

    return types.void(), generate
