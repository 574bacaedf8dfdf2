"""Q8_0: blocks of 32; a signed byte a value, one scale."""

from __future__ import annotations

import numpy as np

NAMES = ("Q8_0",)
LAYOUT = np.dtype(
    [
        ("scale", "<f2"),
        ("values", "i1", 32),
    ]
)
BLOCK, BYTES = 32, LAYOUT.itemsize


def decode(blocks: np.ndarray, out: np.ndarray) -> None:
    """(n, 34) bytes -> (n, 32)."""
    stored = blocks.view(LAYOUT)[:, 0]
    np.multiply(stored["values"], stored["scale"].astype(np.float32)[:, None], out=out)
