"""F32: plain float32."""

from __future__ import annotations

import numpy as np

NAMES = ("F32",)
BLOCK, BYTES = 1, 4


def decode(blocks: np.ndarray, out: np.ndarray) -> None:
    """(n, 4) bytes -> (n, 1)."""
    out[:] = blocks.view("<f4")
