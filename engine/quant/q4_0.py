"""Q4_0: blocks of 32; four bits a value, one scale; 8 stands for zero."""

from __future__ import annotations

import numpy as np

from engine.quant._bits import nibbles

NAMES = ("Q4_0",)
LAYOUT = np.dtype(
    [
        ("scale", "<f2"),
        ("values", "u1", 16),
    ]
)
BLOCK, BYTES = 32, LAYOUT.itemsize


def decode(blocks: np.ndarray, out: np.ndarray) -> None:
    """(n, 18) bytes -> (n, 32)."""
    stored = blocks.view(LAYOUT)[:, 0]
    values = nibbles(stored["values"]).view(np.int8) - np.int8(8)  # (n, 2, 16)
    np.multiply(values.reshape(-1, 32), stored["scale"].astype(np.float32)[:, None], out=out)
