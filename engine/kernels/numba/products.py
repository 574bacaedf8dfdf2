"""What threads do together: round activations, then multiply, in pieces that whoever is free takes.

A job is a row of numbers (`FIELDS`) that stays as it is until its last piece is done. The ticket says which
job it is, how many pieces it has and which is next, in one number, so that a piece is taken in one step, and
a thread that comes late takes nothing from a job it doesn't know.
"""

from __future__ import annotations

import sys

import numpy as np
from numba import njit, types

from engine.kernels.numba.activations import round_32, round_32_halved, round_256
from engine.kernels.numba.atomics import add, get, pause, put
from engine.kernels.numba.tiles import LAYOUTS, MOST, SCALES_32, SCALES_256, make

TICKET, DONE, CLOSED, RESTING, FIELDS = 0, 64, 128, 192, 256  # bytes: each on a line of its own
(ACT, LAYOUT, ROUNDING, WEIGHTS, TILES, COLUMNS, SOURCE, ROWS, OUT, STRIDE, X, S, SIZE) = range(13)
ROUND, MULTIPLY = 0, 1  # what a job is
BYTES = FIELDS + 8 * SIZE
PIECES, MOST_PIECES = 4, 1 << 20  # for each thread
TOGETHER = 63  # rows of activations that pass a tile before the next tile's turn
SPINS, YIELDS = 2_000, 40  # before a thread rests
FEW_VALUES = 1 << 14  # of activations: fewer are rounded by one thread

OPTIONS = {"nogil": True, "cache": True, "fastmath": False, "boundscheck": False, "error_model": "numpy"}
if sys.platform == "win32":
    _give_way = types.ExternalFunction("SwitchToThread", types.int32())
else:
    _give_way = types.ExternalFunction("sched_yield", types.int32())

n32_1, n32_2, n32_3 = (make(LAYOUTS[0], rows) for rows in (1, 2, 3))
b32_1, b32_2, b32_3 = (make(LAYOUTS[1], rows) for rows in (1, 2, 3))
n256_1, n256_2, n256_3 = (make(LAYOUTS[2], rows) for rows in (1, 2, 3))
f256_1, f256_2, f256_3 = (make(LAYOUTS[3], rows) for rows in (1, 2, 3))
b256_1, b256_2, b256_3 = (make(LAYOUTS[4], rows) for rows in (1, 2, 3))
BLOCK_BYTES = tuple(layout.bytes for layout in LAYOUTS)
BLOCKS = tuple(layout.block for layout in LAYOUTS)


@njit(**OPTIONS)
def _field(job: int, number: int) -> int:
    return get(job + FIELDS + 8 * number)


@njit(**OPTIONS)
def _tile(layout: int, rows: int, w: int, x: int, s: int, out: int, stride: int, blocks: int) -> None:
    if layout == 0:
        if rows == 3:
            n32_3(w, x, s, out, stride, blocks)
        elif rows == 2:
            n32_2(w, x, s, out, stride, blocks)
        else:
            n32_1(w, x, s, out, stride, blocks)
    elif layout == 1:
        if rows == 3:
            b32_3(w, x, s, out, stride, blocks)
        elif rows == 2:
            b32_2(w, x, s, out, stride, blocks)
        else:
            b32_1(w, x, s, out, stride, blocks)
    elif layout == 2:
        if rows == 3:
            n256_3(w, x, s, out, stride, blocks)
        elif rows == 2:
            n256_2(w, x, s, out, stride, blocks)
        else:
            n256_1(w, x, s, out, stride, blocks)
    elif layout == 3:
        if rows == 3:
            f256_3(w, x, s, out, stride, blocks)
        elif rows == 2:
            f256_2(w, x, s, out, stride, blocks)
        else:
            f256_1(w, x, s, out, stride, blocks)
    elif rows == 3:
        b256_3(w, x, s, out, stride, blocks)
    elif rows == 2:
        b256_2(w, x, s, out, stride, blocks)
    else:
        b256_1(w, x, s, out, stride, blocks)


@njit(**OPTIONS)
def _scale_bytes(rounding: int, columns: int) -> int:
    """Of one row of activations."""
    return columns // 256 * SCALES_256 if rounding == 2 else columns // 32 * SCALES_32


@njit(**OPTIONS)
def _round_group(job: int, group: int) -> None:
    """Up to `MOST` rows of activations."""
    rounding, columns, rows = _field(job, ROUNDING), _field(job, COLUMNS), _field(job, ROWS)
    first = group * MOST
    count = min(MOST, rows - first)
    x = _field(job, X) + first * columns
    s = _field(job, S) + first * _scale_bytes(rounding, columns)
    for row in range(count):
        source = _field(job, SOURCE) + 4 * (first + row) * columns
        if rounding == 2:
            round_256(source, x + 32 * row, s + SCALES_256 * row, count, columns // 256)
        elif rounding == 1:
            round_32_halved(source, x + 32 * row, s + SCALES_32 * row, count, columns // 32)
        else:
            round_32(source, x + 32 * row, s + SCALES_32 * row, count, columns // 32)


@njit(**OPTIONS)
def _multiply_tiles(job: int, first: int, end: int) -> None:
    """All rows of activations by these tiles."""
    layout, columns, rows = _field(job, LAYOUT), _field(job, COLUMNS), _field(job, ROWS)
    x, s, out = _field(job, X), _field(job, S), _field(job, OUT)
    stride, weights = _field(job, STRIDE), _field(job, WEIGHTS)
    blocks = columns // BLOCKS[layout]
    tile_bytes, scale_bytes = blocks * BLOCK_BYTES[layout], _scale_bytes(_field(job, ROUNDING), columns)
    for start in range(0, rows, TOGETHER):
        stop = min(rows, start + TOGETHER)
        for tile in range(first, end):
            w = weights + tile * tile_bytes
            for row in range(start, stop, MOST):
                count = min(MOST, stop - row)
                to = out + row * stride + 32 * tile
                _tile(layout, count, w, x + row * columns, s + row * scale_bytes, to, stride, blocks)


@njit(**OPTIONS)
def _perform(job: int, piece: int, pieces: int) -> None:
    if _field(job, ACT) == ROUND:
        _round_group(job, piece)
    else:
        tiles = _field(job, TILES)
        _multiply_tiles(job, tiles * piece // pieces, tiles * (piece + 1) // pieces)


@njit(**OPTIONS)
def _help(job: int) -> int:
    """Take pieces while there are any; how many were done."""
    done = 0
    while True:
        ticket = get(job + TICKET)
        pieces = (ticket >> 20) & 0xFFFFF
        if (ticket & 0xFFFFF) >= pieces:
            return done
        ticket = add(job + TICKET, 1)
        piece, pieces = ticket & 0xFFFFF, (ticket >> 20) & 0xFFFFF
        if piece >= pieces:
            return done
        _perform(job, piece, pieces)
        add(job + DONE, 1)
        done += 1


@njit(**OPTIONS)
def serve(job: int) -> None:
    """What a helping thread does, until for a while there was nothing to do."""
    idle = 0
    while idle < SPINS + YIELDS and get(job + CLOSED) == 0:
        if _help(job) > 0:
            idle = 0
        elif idle < SPINS:
            pause()
            idle += 1
        else:
            _give_way()
            idle += 1


@njit(**OPTIONS)
def _all(job: int, act: int, pieces: int) -> None:
    """Offer a job, help, and wait for the last piece."""
    put(job + FIELDS + 8 * ACT, act)
    put(job + DONE, 0)
    number = (get(job + TICKET) >> 40) + 1
    put(job + TICKET, ((number & 0x3FFFFF) << 40) | (pieces << 20))
    _help(job)
    spins = 0
    while get(job + DONE) < pieces:
        pause()
        spins += 1
        if spins > SPINS:
            _give_way()


@njit(**OPTIONS)
def multiply(
    job: int,
    threads: int,
    is_rounded: bool,
    layout: int,
    rounding: int,
    weights: int,
    tiles: int,
    columns: int,
    source: int,
    rows: int,
    out: int,
    stride: int,
    x: int,
    s: int,
) -> None:
    """(rows, columns) floats at `source` by `tiles` tiles -> (rows, 8 x tiles) floats at `out`.

    `x` and `s` are room for the rounded activations; `is_rounded`: they are there already.
    """
    fields = (layout, rounding, weights, tiles, columns, source, rows, out, stride, x, s)
    for number in range(len(fields)):
        put(job + FIELDS + 8 * (LAYOUT + number), fields[number])
    groups = (rows + MOST - 1) // MOST
    if not is_rounded:
        if rows * columns <= FEW_VALUES or threads == 1:
            for group in range(groups):
                _round_group(job, group)
        else:
            _all(job, ROUND, groups)
    if threads == 1:
        _multiply_tiles(job, 0, tiles)
    else:
        _all(job, MULTIPLY, min(tiles, PIECES * threads))


def scale_bytes(rounding: int, columns: int) -> int:
    """Bytes of one row's scales."""
    return columns // 256 * SCALES_256 if rounding == 2 else columns // 32 * SCALES_32


def room(size: int) -> np.ndarray:
    """Zeroed bytes, from a multiple of 64 on."""
    whole = np.zeros(size + 64, np.uint8)
    start = -whole.ctypes.data % 64
    return whole[start : start + size]
