"""F16: half precision."""

from __future__ import annotations

import numpy as np

NAMES = ("F16",)
BLOCK, BYTES = 1, 2


def decode(blocks: np.ndarray, out: np.ndarray) -> None:
    """(n, 2) bytes -> (n, 1)."""
    out[:] = blocks.view("<f2")
