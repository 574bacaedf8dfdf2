"""Q6_K: blocks of 256; six bits a value, the top two kept apart; each 16 have a signed byte as scale."""

from __future__ import annotations

import numpy as np

from engine.quant._bits import nibbles, pairs

NAMES = ("Q6_K",)
LAYOUT = np.dtype(
    [
        ("values", "u1", (2, 64)),
        ("top", "u1", (2, 32)),
        ("scales", "i1", 16),
        ("scale", "<f2"),
    ]
)
BLOCK, BYTES = 256, LAYOUT.itemsize


def decode(blocks: np.ndarray, out: np.ndarray) -> None:
    """(n, 210) bytes -> (n, 256)."""
    stored = blocks.view(LAYOUT)[:, 0]
    scales = stored["scale"].astype(np.float32)[:, None] * stored["scales"]  # (n, 16)
    low = nibbles(stored["values"]).reshape(-1, 16, 16)
    values = low | (pairs(stored["top"]).reshape(-1, 16, 16) << np.uint8(4))
    np.multiply(values.view(np.int8) - np.int8(32), scales[..., None], out=out.reshape(-1, 16, 16))
