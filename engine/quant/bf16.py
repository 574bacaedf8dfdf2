"""BF16: the upper half of a float32."""

from __future__ import annotations

import numpy as np

NAMES = ("BF16",)
BLOCK, BYTES = 1, 2


def decode(blocks: np.ndarray, out: np.ndarray) -> None:
    """(n, 2) bytes -> (n, 1)."""
    np.left_shift(blocks.view("<u2"), np.uint32(16), out=out.view(np.uint32), dtype=np.uint32)
