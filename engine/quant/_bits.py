"""Taking small numbers out of bytes; shared by the block formats."""

from __future__ import annotations

import numpy as np

NIBBLE_SHIFTS = np.array([0, 4], np.uint8).reshape(2, 1)
PAIR_SHIFTS = np.array([0, 2, 4, 6], np.uint8).reshape(4, 1)
BIT_SHIFTS = np.arange(8, dtype=np.uint8).reshape(8, 1)


def nibbles(packed: np.ndarray) -> np.ndarray:
    """(..., n) bytes -> (..., 2, n): all low halves, then all high halves."""
    return (packed[..., None, :] >> NIBBLE_SHIFTS) & np.uint8(15)


def pairs(packed: np.ndarray) -> np.ndarray:
    """(..., n) bytes -> (..., 4, n): the lowest two bits of all, then the next two, and so on."""
    return (packed[..., None, :] >> PAIR_SHIFTS) & np.uint8(3)


def bits(packed: np.ndarray) -> np.ndarray:
    """(..., n) bytes -> (..., 8, n): the lowest bit of all, then the next, and so on."""
    return (packed[..., None, :] >> BIT_SHIFTS) & np.uint8(1)


def fifth_bits(packed: np.ndarray) -> np.ndarray:
    """(n, 4) bytes -> (n, 32): bit by bit, lowest first, each moved to where a fifth bit goes."""
    return np.unpackbits(np.ascontiguousarray(packed), axis=-1, bitorder="little") << np.uint8(4)


def six_bit_scales(packed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(n, 12) bytes -> scales (n, 8) and minima (n, 8), six bits each.

    The first four of both lie in the low bits of bytes 0-3 and 4-7. The last four have their low halves
    together in bytes 8-11 and their top two bits in the top of bytes 0-3 and 4-7.
    """
    low, high, rest = packed[:, 0:4], packed[:, 4:8], packed[:, 8:12]
    scales = np.concatenate([low & 63, (rest & 15) | ((low >> 2) & 48)], axis=-1)
    minima = np.concatenate([high & 63, (rest >> 4) | ((high >> 2) & 48)], axis=-1)
    return scales, minima
