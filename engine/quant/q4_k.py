"""Q4_K: blocks of 256; four bits a value; each 32 have a six-bit scale and minimum."""

from __future__ import annotations

import numpy as np

from engine.quant._bits import nibbles, six_bit_scales

NAMES = ("Q4_K",)
LAYOUT = np.dtype(
    [
        ("scale", "<f2"),
        ("minimum", "<f2"),
        ("scales", "u1", 12),
        ("values", "u1", (4, 32)),
    ]
)
BLOCK, BYTES = 256, LAYOUT.itemsize


def decode(blocks: np.ndarray, out: np.ndarray) -> None:
    """(n, 144) bytes -> (n, 256)."""
    stored = blocks.view(LAYOUT)[:, 0]
    scales, minima = six_bit_scales(stored["scales"])
    scales = stored["scale"].astype(np.float32)[:, None] * scales  # (n, 8)
    minima = stored["minimum"].astype(np.float32)[:, None] * minima
    groups = out.reshape(-1, 8, 32)
    np.multiply(nibbles(stored["values"]).reshape(-1, 8, 32), scales[..., None], out=groups)
    groups -= minima[..., None]
