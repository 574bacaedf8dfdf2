"""Rounding rows of activations, and multiplying them with tiles of a matrix."""

from __future__ import annotations

from numba import njit

from engine.kernels.numba.activations import round_32, round_32_with_products, round_256
from engine.kernels.numba.memory import OPTIONS
from engine.kernels.numba.tiles import GROUP, LAYOUTS, MOST, SCALES_32, SCALES_256, tile

TOGETHER = 60  # rows of activations that pass a tile before the next tile's turn
BLOCK_BYTES = tuple(layout.bytes for layout in LAYOUTS)
BLOCKS = tuple(layout.block for layout in LAYOUTS)


@njit(**OPTIONS)
def scale_bytes(rounding: int, columns: int) -> int:
    """Bytes of one row's scales."""
    return columns // 256 * SCALES_256 if rounding == 2 else columns // 32 * SCALES_32


@njit(**OPTIONS)
def round_rows(
    rounding: int, source: int, stride: int, first: int, count: int, columns: int, x: int, s: int
) -> None:
    """Up to `GROUP` rows of activations, from a multiple of it on, `stride` bytes apart."""
    x += first * columns
    s += first * scale_bytes(rounding, columns)
    for row in range(count):
        at = source + (first + row) * stride
        if rounding == 2:
            round_256(at, x + 32 * row, s + SCALES_256 * row, count, columns // 256)
        elif rounding == 1:
            round_32_with_products(at, x + 32 * row, s + SCALES_32 * row, count, columns // 32)
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
        for number in range(first, end):
            w, row = weights + number * tile_bytes, start
            while row < stop:
                count = MOST if stop - row >= MOST else min(GROUP, stop - row)
                to = out + row * stride + 32 * number
                tile(layout, count, w, x + row * columns, s + row * bytes_of_scales, to, stride, blocks)
                row += count
