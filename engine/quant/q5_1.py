"""Q5_1: blocks of 32; five bits a value, the fifth kept apart, one scale and one minimum."""

from __future__ import annotations

import numpy as np

from engine.quant._bits import fifth_bits, nibbles

NAMES = ("Q5_1",)
LAYOUT = np.dtype(
    [
        ("scale", "<f2"),
        ("minimum", "<f2"),
        ("fifth", "u1", 4),
        ("values", "u1", 16),
    ]
)
BLOCK, BYTES = 32, LAYOUT.itemsize


def decode(blocks: np.ndarray, out: np.ndarray) -> None:
    """(n, 24) bytes -> (n, 32)."""
    stored = blocks.view(LAYOUT)[:, 0]
    values = nibbles(stored["values"]).reshape(-1, 32) | fifth_bits(stored["fifth"])
    np.multiply(values, stored["scale"].astype(np.float32)[:, None], out=out)
    out += stored["minimum"].astype(np.float32)[:, None]
