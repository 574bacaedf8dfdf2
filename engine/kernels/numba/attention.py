"""What queries find among keys and values, in chunks of positions.

Chunks begin at multiples of `CHUNK`, and are joined one after the other. Of a chunk, a query's record is its
greatest score, the sum of the shares that follow from it, and the values in these shares: the same to the
bit, whichever other queries look at the same time, and however the chunks are given to threads.
"""

from __future__ import annotations

from math import exp
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from engine.kernels.numba.maths import exponential
from engine.kernels.numba.memory import IN_FLOATS, IN_HALVES, OPTIONS, floats
from engine.kernels.numba.vectors import FLOATS, I32, I64, Emitter, Value, constant, i64

CHUNK = 128
ROOM = CHUNK + 8  # floats for a chunk's scores: they are computed four at a time, some too many
HEAD = 8  # floats at the front of a record: the greatest score, the sum of shares, nothing
MOST = 3  # queries at a time
AHEAD = 8_192  # bytes of keys that the memory is asked for beforehand
WIDE, NARROW = 32, 16  # dimensions of values at a time


def _eight(emitter: Emitter, storage: int, base: Value, index: Value) -> Value:
    """The `index`th eight numbers of a row."""
    if storage == IN_HALVES:
        return emitter.halves(base, emitter.times(index, 16))
    return emitter.load(base, emitter.times(index, 32), FLOATS)


def _fours(emitter: Emitter, sums: list[Value]) -> Value:
    """Four vectors -> their four sums."""
    builder = emitter.builder
    name = "llvm.x86.avx.hadd.ps.256"
    one, other = emitter.call(name, FLOATS, *sums[:2]), emitter.call(name, FLOATS, *sums[2:])
    both = emitter.call(name, FLOATS, one, other)
    nothing = ir.Constant(FLOATS, ir.Undefined)
    halves = [
        builder.shuffle_vector(
            both, nothing, ir.Constant(ir.VectorType(I32, 4), [first + i for i in range(4)])
        )
        for first in (0, 4)
    ]
    return builder.fadd(*halves)


def _scoring(rows: int, storage: int) -> Any:
    """`score(q0, q1, q2, keys, values, step, fours, blocks, out)`: queries by four keys at a time.

    Addresses; `step` bytes between keys, `blocks` of eight dimensions, `ROOM` floats between rows of `out`.
    Keys to come are fetched from the memory meanwhile, and the values that belong to these.
    """

    @intrinsic
    def score(
        context: Any,
        q0: Any,
        q1: Any,
        q2: Any,
        keys: Any,
        values: Any,
        step: Any,
        fours: Any,
        blocks: Any,
        out: Any,
    ) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            emitter = Emitter(builder)
            queries = [emitter.pointer(address) for address in arguments[:rows]]
            keys, values, out = (emitter.pointer(arguments[place]) for place in (3, 4, 8))
            step = arguments[5]
            four_keys = builder.shl(step, i64(2))

            def four(index: Value, carried: list[Value]) -> list[Value]:
                offset = builder.mul(index, four_keys)
                first, beside = emitter.at(keys, offset), emitter.at(values, offset)

                def fetch(line: Value, carried: list[Value]) -> list[Value]:
                    at = emitter.times(line, 64)
                    emitter.prefetch(emitter.at(first, at), AHEAD)
                    emitter.prefetch(emitter.at(beside, at), 0)
                    return []

                emitter.loop(builder.lshr(four_keys, i64(6)), [], fetch)
                bases = [first]
                for _ in range(3):
                    bases.append(emitter.at(bases[-1], step))

                def block(at: Value, sums: list[Value]) -> list[Value]:
                    x = [emitter.load(query, emitter.times(at, 32), FLOATS) for query in queries]
                    added = list(sums)
                    for number, base in enumerate(bases):
                        key = _eight(emitter, storage, base, at)
                        for row in range(rows):
                            added[4 * row + number] = emitter.fma(x[row], key, added[4 * row + number])
                    return added

                sums = emitter.loop(arguments[7], [constant(FLOATS, 0)] * (4 * rows), block)
                for row in range(rows):
                    where = builder.add(emitter.times(index, 16), ir.Constant(I64, 4 * ROOM * row))
                    emitter.store(_fours(emitter, sums[4 * row : 4 * row + 4]), out, where)
                return []

            emitter.loop(arguments[6], [], four)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 9), generate

    return score


def _collecting(rows: int, storage: int, width: int) -> Any:
    """`collect(shares, values, value_bytes, count, out, out_bytes)`: the sum of values in shares.

    Addresses; rows of shares are `ROOM` floats apart, those of `out`, `width` dimensions, `out_bytes`.
    """

    @intrinsic
    def collect(
        context: Any, shares: Any, values: Any, value_bytes: Any, count: Any, out: Any, out_bytes: Any
    ) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            emitter, parts = Emitter(builder), width // 8
            shares, values, out = (emitter.pointer(arguments[place]) for place in (0, 1, 4))

            def position(index: Value, sums: list[Value]) -> list[Value]:
                base = emitter.at(values, builder.mul(index, arguments[2]))
                row_values = [_eight(emitter, storage, base, ir.Constant(I64, part)) for part in range(parts)]
                added = []
                for row in range(rows):
                    at = builder.add(emitter.times(index, 4), ir.Constant(I64, 4 * ROOM * row))
                    share = emitter.float(shares, at)
                    added += [
                        emitter.fma(share, value, sums[parts * row + part])
                        for part, value in enumerate(row_values)
                    ]
                return added

            sums = emitter.loop(arguments[3], [constant(FLOATS, 0)] * (rows * parts), position)
            for row in range(rows):
                to = emitter.at(out, emitter.times(arguments[5], row))
                for part in range(parts):
                    emitter.store(sums[parts * row + part], to, 32 * part)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 6), generate

    return collect


@intrinsic
def _soften(context: Any, scores: Any, record: Any) -> Any:
    """A chunk's scores, in place, to shares of the greatest's; that and their sum into the record."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        emitter = Emitter(builder)
        scores, record = (emitter.pointer(address) for address in arguments)
        parts = ir.Constant(I64, CHUNK // 8)

        def compare(index: Value, most: list[Value]) -> list[Value]:
            x = emitter.load(scores, emitter.times(index, 32), FLOATS)
            return [emitter.call("llvm.maxnum.v8f32", FLOATS, most[0], x)]

        (most,) = emitter.loop(parts, [constant(FLOATS, float("-inf"))], compare)
        widest = emitter.widest(most)
        greatest = emitter.spread(widest)

        def share(index: Value, sums: list[Value]) -> list[Value]:
            at = emitter.times(index, 32)
            out = exponential(emitter, builder.fsub(emitter.load(scores, at, FLOATS), greatest))
            emitter.store(out, scores, at)
            return [builder.fadd(sums[0], out)]

        (sums,) = emitter.loop(parts, [constant(FLOATS, 0)], share)
        emitter.store(widest, record, 0)
        emitter.store(emitter.sum(sums), record, 4)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


score_1f, score_2f, score_3f = (_scoring(rows, IN_FLOATS) for rows in (1, 2, 3))
score_1h, score_2h, score_3h = (_scoring(rows, IN_HALVES) for rows in (1, 2, 3))
wide_1f, wide_2f, wide_3f = (_collecting(rows, IN_FLOATS, WIDE) for rows in (1, 2, 3))
wide_1h, wide_2h, wide_3h = (_collecting(rows, IN_HALVES, WIDE) for rows in (1, 2, 3))
narrow_1f, narrow_2f, narrow_3f = (_collecting(rows, IN_FLOATS, NARROW) for rows in (1, 2, 3))
narrow_1h, narrow_2h, narrow_3h = (_collecting(rows, IN_HALVES, NARROW) for rows in (1, 2, 3))


@njit(**OPTIONS)
def _score(
    storage: int,
    rows: int,
    q0: int,
    q1: int,
    q2: int,
    keys: int,
    values: int,
    step: int,
    fours: int,
    dim: int,
    out: int,
) -> None:
    blocks = dim // 8
    if storage == IN_HALVES:
        if rows == 3:
            score_3h(q0, q1, q2, keys, values, step, fours, blocks, out)
        elif rows == 2:
            score_2h(q0, q1, q2, keys, values, step, fours, blocks, out)
        else:
            score_1h(q0, q1, q2, keys, values, step, fours, blocks, out)
    elif rows == 3:
        score_3f(q0, q1, q2, keys, values, step, fours, blocks, out)
    elif rows == 2:
        score_2f(q0, q1, q2, keys, values, step, fours, blocks, out)
    else:
        score_1f(q0, q1, q2, keys, values, step, fours, blocks, out)


@njit(**OPTIONS)
def _collect(
    storage: int, rows: int, shares: int, values: int, step: int, count: int, dim: int, out: int, stride: int
) -> None:
    at = 0
    size = 2 if storage == IN_HALVES else 4
    while at < dim:
        here, to = values + size * at, out + 4 * at
        if dim - at >= WIDE:
            if storage == IN_HALVES:
                if rows == 3:
                    wide_3h(shares, here, step, count, to, stride)
                elif rows == 2:
                    wide_2h(shares, here, step, count, to, stride)
                else:
                    wide_1h(shares, here, step, count, to, stride)
            elif rows == 3:
                wide_3f(shares, here, step, count, to, stride)
            elif rows == 2:
                wide_2f(shares, here, step, count, to, stride)
            else:
                wide_1f(shares, here, step, count, to, stride)
            at += WIDE
        else:
            if storage == IN_HALVES:
                if rows == 3:
                    narrow_3h(shares, here, step, count, to, stride)
                elif rows == 2:
                    narrow_2h(shares, here, step, count, to, stride)
                else:
                    narrow_1h(shares, here, step, count, to, stride)
            elif rows == 3:
                narrow_3f(shares, here, step, count, to, stride)
            elif rows == 2:
                narrow_2f(shares, here, step, count, to, stride)
            else:
                narrow_1f(shares, here, step, count, to, stride)
            at += NARROW


@njit(**OPTIONS)
def look_at_chunk(
    storage: int,
    rows: int,
    q0: int,
    q1: int,
    q2: int,
    position0: int,
    position1: int,
    position2: int,
    window: int,
    chunk: int,
    keys: int,
    values: int,
    step: int,
    low: int,
    dim: int,
    scores: int,
    out: int,
    stride: int,
) -> None:
    """Records of one to three queries at positions, of one chunk; of what a query doesn't see, an empty one.

    `keys` and `values` are those of position `low` and after, `step` bytes apart. `window` 0: all is seen.
    """
    begin = chunk * CHUNK
    first, end = begin + CHUNK, begin
    for row in range(rows):
        position = position0 if row == 0 else (position1 if row == 1 else position2)
        oldest = max(begin, position - window + 1) if window > 0 else begin
        after = min(begin + CHUNK, position + 1)
        if oldest < after:
            first, end = min(first, oldest), max(end, after)
    if first >= end:
        for row in range(rows):
            head = floats(out + row * stride, 2)
            head[0], head[1] = -np.inf, 0.0
        return
    offset = (first - low) * step
    _score(
        storage,
        rows,
        q0,
        q1,
        q2,
        keys + offset,
        values + offset,
        step,
        (end - first + 3) // 4,
        dim,
        scores + 4 * (first - begin),
    )
    for row in range(rows):
        position = position0 if row == 0 else (position1 if row == 1 else position2)
        oldest = max(begin, position - window + 1) if window > 0 else begin
        after = min(begin + CHUNK, position + 1)
        line = floats(scores + 4 * ROOM * row, CHUNK)
        if oldest < after:
            for at in range(oldest - begin):
                line[at] = -np.inf
            for at in range(after - begin, CHUNK):
                line[at] = -np.inf
            _soften(scores + 4 * ROOM * row, out + row * stride)
        else:
            for at in range(CHUNK):
                line[at] = 0.0
            head = floats(out + row * stride, 2)
            head[0], head[1] = -np.inf, 0.0
    _collect(
        storage,
        rows,
        scores + 4 * (first - begin),
        values + offset,
        step,
        end - first,
        dim,
        out + 4 * HEAD,
        stride,
    )


@njit(**OPTIONS)
def join(total: int, record: int, dim: int) -> None:
    """A chunk's record joins what the chunks before it made; that begins with a sum of 0."""
    one, other = floats(total, HEAD + dim), floats(record, HEAD + dim)
    if other[0] == -np.inf:
        return
    if one[1] == 0.0:
        for at in range(HEAD + dim):
            one[at] = other[at]
        return
    most = max(one[0], other[0])
    a, b = np.float32(exp(one[0] - most)), np.float32(exp(other[0] - most))
    one[0], one[1] = most, one[1] * a + other[1] * b
    for at in range(HEAD, HEAD + dim):
        one[at] = one[at] * a + other[at] * b


@njit(**OPTIONS)
def finish(total: int, dim: int, out: int) -> None:
    """What was found: the values, in shares that add to one."""
    record, found = floats(total, HEAD + dim), floats(out, dim)
    factor = np.float32(1.0) / record[1]
    for at in range(dim):
        found[at] = record[HEAD + at] * factor
