"""Q3_K: blocks of 256; three bits a value, the third kept apart; each 16 have a six-bit scale."""

from __future__ import annotations

import numpy as np

from engine.quant._bits import bits, nibbles, pairs

NAMES = ("Q3_K",)
LAYOUT = np.dtype(
    [
        ("third", "u1", 32),
        ("values", "u1", (2, 32)),
        ("scales", "u1", 12),
        ("scale", "<f2"),
    ]
)
BLOCK, BYTES = 256, LAYOUT.itemsize


def decode(blocks: np.ndarray, out: np.ndarray) -> None:
    """(n, 110) bytes -> (n, 256)."""
    stored = blocks.view(LAYOUT)[:, 0]
    scales = stored["scale"].astype(np.float32)[:, None] * _scales(stored["scales"])  # (n, 16)
    third = bits(stored["third"]).reshape(-1, 16, 16) << np.uint8(2)
    values = (pairs(stored["values"]).reshape(-1, 16, 16) | third).view(np.int8) - np.int8(4)
    np.multiply(values, scales[..., None], out=out.reshape(-1, 16, 16))


def _scales(packed: np.ndarray) -> np.ndarray:
    """(n, 12) bytes -> (n, 16) from -32 to 31: low halves in bytes 0-7, top two bits in bytes 8-11."""
    low = nibbles(packed[:, :8]).reshape(-1, 16)
    high = pairs(packed[:, 8:]).reshape(-1, 16)
    return (low | (high << np.uint8(4))).view(np.int8) - np.int8(32)
