"""Matrices from a file's blocks into tiles, one function for each format; run by several threads at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from engine.kernels.numba.tiles import (
    BYTES_32,
    FIVES_32,
    FIVES_256,
    FIVES_MINIMA_32,
    FOURS_32,
    FOURS_256,
    FOURS_MINIMA_32,
    SIXES_256,
)

OPTIONS = {"nogil": True, "cache": True, "boundscheck": False}
EIGHT_BITS, EIGHT_BITS_SUMS, EIGHT_BITS_256 = range(3)  # how activations are rounded


@njit(**OPTIONS, inline="always")
def _half(block: np.ndarray, offset: int, row: int, low: int, high: int) -> None:
    block[offset + 2 * row], block[offset + 2 * row + 1] = low, high


@njit(**OPTIONS)
def _put(block: np.ndarray, row: int, values: np.ndarray, offset: int, bits: int) -> None:
    """32 values of a row, of four to six bits, into a block's bytes from `offset` on."""
    more = bits - 4
    for column in range(16):
        at = offset + column // 4 * 32 + 4 * row + column % 4
        block[at] = (values[column] & 15) | (values[column + 16] & 15) << 4
    if more == 0:
        return
    per = 8 // more  # vectors of four columns whose further bits lie in one byte
    for first in range(0, 8, per):
        for lane in range(4):
            bits_above = np.uint8(0)
            for index in range(per):
                above = values[4 * (first + index) + lane] >> 4
                bits_above |= above << np.uint8(more * index)
            block[offset + 128 + first // per * 32 + 4 * row + lane] = bits_above


@njit(**OPTIONS)
def _nibbles(source: np.ndarray, values: np.ndarray) -> None:
    """16 bytes: the first 16 values in the low halves."""
    for column in range(16):
        values[column], values[column + 16] = source[column] & 15, source[column] >> 4


@njit(**OPTIONS)
def _fifth_bits(source: np.ndarray, values: np.ndarray) -> None:
    """Four bytes: a bit for each value."""
    for column in range(32):
        values[column] |= ((source[column // 8] >> np.uint8(column % 8)) & 1) << 4


@njit(**OPTIONS)
def q4_0(raw: np.ndarray, out: np.ndarray) -> None:
    """(tiles, 8, blocks, 18) -> (tiles, blocks, 144)."""
    values = np.empty(32, np.uint8)
    for tile in range(raw.shape[0]):
        for row in range(8):
            for index in range(raw.shape[2]):
                source, block = raw[tile, row, index], out[tile, index]
                _half(block, 0, row, source[0], source[1])
                _nibbles(source[2:], values)
                _put(block, row, values, 16, 4)


@njit(**OPTIONS)
def q4_1(raw: np.ndarray, out: np.ndarray) -> None:
    """(tiles, 8, blocks, 20) -> (tiles, blocks, 160)."""
    values = np.empty(32, np.uint8)
    for tile in range(raw.shape[0]):
        for row in range(8):
            for index in range(raw.shape[2]):
                source, block = raw[tile, row, index], out[tile, index]
                _half(block, 0, row, source[0], source[1])
                _half(block, 16, row, source[2], source[3])
                _nibbles(source[4:], values)
                _put(block, row, values, 32, 4)


@njit(**OPTIONS)
def q5_0(raw: np.ndarray, out: np.ndarray) -> None:
    """(tiles, 8, blocks, 22) -> (tiles, blocks, 176)."""
    values = np.empty(32, np.uint8)
    for tile in range(raw.shape[0]):
        for row in range(8):
            for index in range(raw.shape[2]):
                source, block = raw[tile, row, index], out[tile, index]
                _half(block, 0, row, source[0], source[1])
                _nibbles(source[6:], values)
                _fifth_bits(source[2:], values)
                _put(block, row, values, 16, 5)


@njit(**OPTIONS)
def q5_1(raw: np.ndarray, out: np.ndarray) -> None:
    """(tiles, 8, blocks, 24) -> (tiles, blocks, 192)."""
    values = np.empty(32, np.uint8)
    for tile in range(raw.shape[0]):
        for row in range(8):
            for index in range(raw.shape[2]):
                source, block = raw[tile, row, index], out[tile, index]
                _half(block, 0, row, source[0], source[1])
                _half(block, 16, row, source[2], source[3])
                _nibbles(source[8:], values)
                _fifth_bits(source[4:], values)
                _put(block, row, values, 32, 5)


@njit(**OPTIONS)
def q8_0(raw: np.ndarray, out: np.ndarray) -> None:
    """(tiles, 8, blocks, 34) -> (tiles, blocks, 272). Values are made unsigned."""
    for tile in range(raw.shape[0]):
        for row in range(8):
            for index in range(raw.shape[2]):
                source, block = raw[tile, row, index], out[tile, index]
                _half(block, 0, row, source[0], source[1])
                for column in range(32):
                    at = 16 + column // 4 * 32 + 4 * row + column % 4
                    block[at] = source[2 + column] ^ np.uint8(128)


@njit(**OPTIONS)
def _six_bits(stored: np.ndarray, sub: int) -> Any:
    """A scale and a minimum of 12 bytes."""
    here, later = np.int64(stored[sub]), np.int64(stored[sub + 4])
    if sub < 4:
        return here & 63, later & 63
    earlier = np.int64(stored[sub - 4])
    return (later & 15) | ((earlier >> 6) << 4), (later >> 4) | ((here >> 6) << 4)


@njit(**OPTIONS)
def q4_k(raw: np.ndarray, out: np.ndarray) -> None:
    """(tiles, 8, blocks, 144) -> (tiles, blocks, 1184)."""
    values = np.empty(32, np.uint8)
    for tile in range(raw.shape[0]):
        for row in range(8):
            for index in range(raw.shape[2]):
                source, block = raw[tile, row, index], out[tile, index]
                _half(block, 0, row, source[0], source[1])
                _half(block, 16, row, source[2], source[3])
                for sub in range(8):
                    at = 32 + 144 * sub
                    block[at + row], block[at + 8 + row] = _six_bits(source[4:16], sub)
                    shift, first = np.uint8(4 * (sub % 2)), 16 + 32 * (sub // 2)
                    for column in range(32):
                        values[column] = (source[first + column] >> shift) & 15
                    _put(block, row, values, at + 16, 4)


@njit(**OPTIONS)
def q5_k(raw: np.ndarray, out: np.ndarray) -> None:
    """(tiles, 8, blocks, 176) -> (tiles, blocks, 1440)."""
    values = np.empty(32, np.uint8)
    for tile in range(raw.shape[0]):
        for row in range(8):
            for index in range(raw.shape[2]):
                source, block = raw[tile, row, index], out[tile, index]
                _half(block, 0, row, source[0], source[1])
                _half(block, 16, row, source[2], source[3])
                for sub in range(8):
                    at = 32 + 176 * sub
                    block[at + row], block[at + 8 + row] = _six_bits(source[4:16], sub)
                    shift, first = np.uint8(4 * (sub % 2)), 48 + 32 * (sub // 2)
                    for column in range(32):
                        low = (source[first + column] >> shift) & 15
                        values[column] = low | (((source[16 + column] >> np.uint8(sub)) & 1) << 4)
                    _put(block, row, values, at + 16, 5)


@njit(**OPTIONS)
def q6_k(raw: np.ndarray, out: np.ndarray) -> None:
    """(tiles, 8, blocks, 210) -> (tiles, blocks, 1680)."""
    values = np.empty(32, np.uint8)
    for tile in range(raw.shape[0]):
        for row in range(8):
            for index in range(raw.shape[2]):
                source, block = raw[tile, row, index], out[tile, index]
                _half(block, 0, row, source[208], source[209])
                for sub in range(8):
                    at, side, within = 16 + 208 * sub, sub // 4, sub % 4
                    block[at + row], block[at + 8 + row] = source[192 + 2 * sub], source[193 + 2 * sub]
                    low, high = 64 * side + 32 * (within % 2), 128 + 32 * side
                    shift, above = np.uint8(4 * (within // 2)), np.uint8(2 * within)
                    for column in range(32):
                        four = (source[low + column] >> shift) & 15
                        values[column] = four | (((source[high + column] >> above) & 3) << 4)
                    _put(block, row, values, at + 16, 6)


# By a format's name: what packs it, into which layout of `tiles`, and how activations are rounded for it.
PACKERS = {
    "Q4_0": (q4_0, FOURS_32, EIGHT_BITS),
    "Q4_1": (q4_1, FOURS_MINIMA_32, EIGHT_BITS_SUMS),
    "Q5_0": (q5_0, FIVES_32, EIGHT_BITS),
    "Q5_1": (q5_1, FIVES_MINIMA_32, EIGHT_BITS_SUMS),
    "Q8_0": (q8_0, BYTES_32, EIGHT_BITS),
    "Q4_K": (q4_k, FOURS_256, EIGHT_BITS_256),
    "Q5_K": (q5_k, FIVES_256, EIGHT_BITS_256),
    "Q6_K": (q6_k, SIXES_256, EIGHT_BITS_256),
}
