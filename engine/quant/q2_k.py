"""Q2_K: blocks of 256; two bits a value; each 16 have a four-bit scale and minimum."""

from __future__ import annotations

import numpy as np

from engine.quant._bits import pairs

NAMES = ("Q2_K",)
LAYOUT = np.dtype(
    [
        ("scales", "u1", 16),
        ("values", "u1", (2, 32)),
        ("scale", "<f2"),
        ("minimum", "<f2"),
    ]
)
BLOCK, BYTES = 256, LAYOUT.itemsize


def decode(blocks: np.ndarray, out: np.ndarray) -> None:
    """(n, 84) bytes -> (n, 256)."""
    stored = blocks.view(LAYOUT)[:, 0]
    scales = stored["scale"].astype(np.float32)[:, None] * (stored["scales"] & 15)  # (n, 16)
    minima = stored["minimum"].astype(np.float32)[:, None] * (stored["scales"] >> 4)
    groups = out.reshape(-1, 16, 16)
    np.multiply(pairs(stored["values"]).reshape(-1, 16, 16), scales[..., None], out=groups)
    groups -= minima[..., None]
