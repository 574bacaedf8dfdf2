"""Q5_K: blocks of 256; five bits a value, the fifth kept apart; each 32 have a six-bit scale and minimum."""

from __future__ import annotations

import numpy as np

from engine.quant._bits import bits, nibbles, six_bit_scales

NAMES = ("Q5_K",)
LAYOUT = np.dtype(
    [
        ("scale", "<f2"),
        ("minimum", "<f2"),
        ("scales", "u1", 12),
        ("fifth", "u1", 32),
        ("values", "u1", (4, 32)),
    ]
)
BLOCK, BYTES = 256, LAYOUT.itemsize


def decode(blocks: np.ndarray, out: np.ndarray) -> None:
    """(n, 176) bytes -> (n, 256)."""
    stored = blocks.view(LAYOUT)[:, 0]
    scales, minima = six_bit_scales(stored["scales"])
    scales = stored["scale"].astype(np.float32)[:, None] * scales  # (n, 8)
    minima = stored["minimum"].astype(np.float32)[:, None] * minima
    values = nibbles(stored["values"]).reshape(-1, 8, 32) | (bits(stored["fifth"]) << np.uint8(4))
    groups = out.reshape(-1, 8, 32)
    np.multiply(values, scales[..., None], out=groups)
    groups -= minima[..., None]
