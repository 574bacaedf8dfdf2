"""Q5_0: blocks of 32; five bits a value, the fifth kept apart, one scale; 16 stands for zero."""

from __future__ import annotations

import numpy as np

from engine.quant._bits import fifth_bits, nibbles

NAMES = ("Q5_0",)
LAYOUT = np.dtype(
    [
        ("scale", "<f2"),
        ("fifth", "u1", 4),
        ("values", "u1", 16),
    ]
)
BLOCK, BYTES = 32, LAYOUT.itemsize


def decode(blocks: np.ndarray, out: np.ndarray) -> None:
    """(n, 22) bytes -> (n, 32)."""
    stored = blocks.view(LAYOUT)[:, 0]
    values = nibbles(stored["values"]).reshape(-1, 32) | fifth_bits(stored["fifth"])
    np.multiply(values.view(np.int8) - np.int8(16), stored["scale"].astype(np.float32)[:, None], out=out)
