"""Matrices from a file's blocks into tiles, one function for each format; run by several threads at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from engine.kernels.numba.tiles import BYTES_32, BYTES_256, FIVES_256, NIBBLES_32, NIBBLES_256

OPTIONS = {"nogil": True, "cache": True, "boundscheck": False}
EIGHT_BITS, EIGHT_BITS_SUMS, EIGHT_BITS_256 = range(3)  # how activations are rounded


@njit(**OPTIONS)
def _put_32(block: np.ndarray, row: int, values: np.ndarray, offset: int) -> None:
    """32 bytes of a row, four to a vector."""
    for column in range(32):
        block[offset + column // 4 * 32 + 4 * row + column % 4] = values[column]


@njit(**OPTIONS)
def _put_nibbles(block: np.ndarray, row: int, values: np.ndarray, offset: int) -> None:
    """32 values of four bits: the first 16 in the low halves."""
    for column in range(16):
        both = values[column] | (values[column + 16] << 4)
        block[offset + column // 4 * 32 + 4 * row + column % 4] = both


@njit(**OPTIONS)
def _half(block: np.ndarray, offset: int, row: int, low: int, high: int) -> None:
    block[offset + 2 * row], block[offset + 2 * row + 1] = low, high


@njit(**OPTIONS)
def q4_0(raw: np.ndarray, out: np.ndarray) -> None:
    """(tiles, 8, blocks, 18) -> (tiles, blocks, 160). The minimum is -8 scales."""
    values = np.empty(32, np.uint8)
    for tile in range(raw.shape[0]):
        for row in range(8):
            for index in range(raw.shape[2]):
                source, block = raw[tile, row, index], out[tile, index]
                bits = np.int64(source[0]) | (np.int64(source[1]) << 8)
                for column in range(16):
                    values[column] = source[2 + column] & 15
                    values[column + 16] = source[2 + column] >> 4
                _half(block, 0, row, source[0], source[1])
                least = _times_minus_8(bits)
                _half(block, 16, row, least & 0xFF, least >> 8)
                _put_nibbles(block, row, values, 32)


@njit(**OPTIONS)
def _times_minus_8(bits: int) -> int:
    """Of a half float's bits. Numbers too small for an exponent of their own are multiplied one by one."""
    sign, exponent, fraction = bits >> 15, (bits >> 10) & 31, bits & 1023
    if exponent == 31:
        return bits ^ 0x8000
    if exponent == 0:
        fraction = fraction * 8
        exponent = 0
        if fraction >= 1024:
            exponent = 1
            while fraction >= 2048:
                fraction //= 2
                exponent += 1
            fraction -= 1024
    elif exponent + 3 >= 31:
        exponent, fraction = 31, 0
    else:
        exponent += 3
    return ((sign ^ 1) << 15) | (exponent << 10) | fraction


@njit(**OPTIONS)
def q4_1(raw: np.ndarray, out: np.ndarray) -> None:
    """(tiles, 8, blocks, 20) -> (tiles, blocks, 160)."""
    values = np.empty(32, np.uint8)
    for tile in range(raw.shape[0]):
        for row in range(8):
            for index in range(raw.shape[2]):
                source, block = raw[tile, row, index], out[tile, index]
                for column in range(16):
                    values[column] = source[4 + column] & 15
                    values[column + 16] = source[4 + column] >> 4
                _half(block, 0, row, source[0], source[1])
                _half(block, 16, row, source[2], source[3])
                _put_nibbles(block, row, values, 32)


@njit(**OPTIONS)
def q5_0(raw: np.ndarray, out: np.ndarray) -> None:
    """(tiles, 8, blocks, 22) -> (tiles, blocks, 272)."""
    values = np.empty(32, np.uint8)
    for tile in range(raw.shape[0]):
        for row in range(8):
            for index in range(raw.shape[2]):
                source, block = raw[tile, row, index], out[tile, index]
                for column in range(32):
                    low = np.int64(source[6 + column % 16])
                    low = low & 15 if column < 16 else low >> 4
                    high = (np.int64(source[2 + column // 8]) >> (column % 8)) & 1
                    values[column] = low + 16 * high - 16
                _half(block, 0, row, source[0], source[1])
                _put_32(block, row, values, 16)


@njit(**OPTIONS)
def q8_0(raw: np.ndarray, out: np.ndarray) -> None:
    """(tiles, 8, blocks, 34) -> (tiles, blocks, 272)."""
    for tile in range(raw.shape[0]):
        for row in range(8):
            for index in range(raw.shape[2]):
                source, block = raw[tile, row, index], out[tile, index]
                _half(block, 0, row, source[0], source[1])
                _put_32(block, row, source[2:], 16)


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
                    for column in range(32):
                        both = np.int64(source[16 + 32 * (sub // 2) + column])
                        values[column] = both >> 4 if sub % 2 else both & 15
                    _put_nibbles(block, row, values, at + 16)


@njit(**OPTIONS)
def q5_k(raw: np.ndarray, out: np.ndarray) -> None:
    """(tiles, 8, blocks, 176) -> (tiles, blocks, 2208)."""
    values = np.empty(32, np.uint8)
    for tile in range(raw.shape[0]):
        for row in range(8):
            for index in range(raw.shape[2]):
                source, block = raw[tile, row, index], out[tile, index]
                _half(block, 0, row, source[0], source[1])
                _half(block, 16, row, source[2], source[3])
                for sub in range(8):
                    at = 32 + 272 * sub
                    block[at + row], block[at + 8 + row] = _six_bits(source[4:16], sub)
                    for column in range(32):
                        both = np.int64(source[48 + 32 * (sub // 2) + column])
                        low = both >> 4 if sub % 2 else both & 15
                        values[column] = low | (((np.int64(source[16 + column]) >> sub) & 1) << 4)
                    _put_32(block, row, values, at + 16)


@njit(**OPTIONS)
def q6_k(raw: np.ndarray, out: np.ndarray) -> None:
    """(tiles, 8, blocks, 210) -> (tiles, blocks, 2192)."""
    for tile in range(raw.shape[0]):
        for row in range(8):
            for index in range(raw.shape[2]):
                source, block = raw[tile, row, index], out[tile, index]
                _half(block, 0, row, source[208], source[209])
                for part in range(16):
                    block[16 + 136 * part + row] = source[192 + part]
                for column in range(256):
                    side, within = column // 128, column % 128
                    low = np.int64(source[64 * side + within % 64])
                    low = low & 15 if within < 64 else low >> 4
                    high = (np.int64(source[128 + 32 * side + within % 32]) >> (2 * (within // 32))) & 3
                    at = 16 + 136 * (column // 16) + 8 + column % 16 // 4 * 32 + 4 * row + column % 4
                    block[at] = (low | (high << 4)) - 32


# By a format's name: what packs it, into which layout of `tiles`, and how activations are rounded for it.
PACKERS = {
    "Q4_0": (q4_0, NIBBLES_32, EIGHT_BITS),
    "Q4_1": (q4_1, NIBBLES_32, EIGHT_BITS_SUMS),
    "Q5_0": (q5_0, BYTES_32, EIGHT_BITS),
    "Q8_0": (q8_0, BYTES_32, EIGHT_BITS),
    "Q4_K": (q4_k, NIBBLES_256, EIGHT_BITS_256),
    "Q5_K": (q5_k, FIVES_256, EIGHT_BITS_256),
    "Q6_K": (q6_k, BYTES_256, EIGHT_BITS_256),
}
