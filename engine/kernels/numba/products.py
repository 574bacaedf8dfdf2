"""Rounding rows of activations, and multiplying them with tiles of a matrix."""

from __future__ import annotations

from numba import njit

from engine.kernels.numba.activations import round_32, round_32_halved, round_256
from engine.kernels.numba.memory import OPTIONS
from engine.kernels.numba.tiles import LAYOUTS, MOST, SCALES_32, SCALES_256, make

TOGETHER = 63  # rows of activations that pass a tile before the next tile's turn

n32_1, n32_2, n32_3 = (make(LAYOUTS[0], rows) for rows in (1, 2, 3))
b32_1, b32_2, b32_3 = (make(LAYOUTS[1], rows) for rows in (1, 2, 3))
n256_1, n256_2, n256_3 = (make(LAYOUTS[2], rows) for rows in (1, 2, 3))
f256_1, f256_2, f256_3 = (make(LAYOUTS[3], rows) for rows in (1, 2, 3))
b256_1, b256_2, b256_3 = (make(LAYOUTS[4], rows) for rows in (1, 2, 3))
BLOCK_BYTES = tuple(layout.bytes for layout in LAYOUTS)
BLOCKS = tuple(layout.block for layout in LAYOUTS)


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
def scale_bytes(rounding: int, columns: int) -> int:
    """Bytes of one row's scales."""
    return columns // 256 * SCALES_256 if rounding == 2 else columns // 32 * SCALES_32


@njit(**OPTIONS)
def round_rows(
    rounding: int, source: int, stride: int, first: int, count: int, columns: int, x: int, s: int
) -> None:
    """Up to `MOST` rows of activations, from a multiple of it on, `stride` bytes apart."""
    x += first * columns
    s += first * scale_bytes(rounding, columns)
    for row in range(count):
        at = source + (first + row) * stride
        if rounding == 2:
            round_256(at, x + 32 * row, s + SCALES_256 * row, count, columns // 256)
        elif rounding == 1:
            round_32_halved(at, x + 32 * row, s + SCALES_32 * row, count, columns // 32)
        else:
            round_32(at, x + 32 * row, s + SCALES_32 * row, count, columns // 32)


@njit(**OPTIONS)
def multiply_tiles(
    layout: int,
    rounding: int,
    weights: int,
    first: int,
    end: int,
    columns: int,
    rows: int,
    x: int,
    s: int,
    out: int,
    stride: int,
) -> None:
    """All rows of rounded activations by these tiles of a matrix."""
    blocks = columns // BLOCKS[layout]
    tile_bytes, bytes_of_scales = blocks * BLOCK_BYTES[layout], scale_bytes(rounding, columns)
    for start in range(0, rows, TOGETHER):
        stop = min(rows, start + TOGETHER)
        for tile in range(first, end):
            w = weights + tile * tile_bytes
            for row in range(start, stop, MOST):
                count = min(MOST, stop - row)
                to = out + row * stride + 32 * tile
                _tile(layout, count, w, x + row * columns, s + row * bytes_of_scales, to, stride, blocks)
