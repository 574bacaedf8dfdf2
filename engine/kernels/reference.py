"""What the kernels compute, in numpy, one step after another: the standard that they are held to."""

from __future__ import annotations

import numpy as np

from engine.quant import format_of

BY_256 = ("Q4_K", "Q5_K", "Q6_K")


def rounded(x: np.ndarray, block: int) -> tuple[np.ndarray, np.ndarray]:
    """(n, columns) float32 -> whole numbers from -127 to 127, and a scale for each `block`, (n, blocks)."""
    groups = x.astype(np.float32).reshape(len(x), -1, block)
    widest = np.maximum(np.abs(groups).max(-1), np.float32(1e-30))
    whole = np.rint(groups * (np.float32(127) / widest)[..., None])
    return whole.reshape(x.shape), widest / np.float32(127)


def multiply(kind: str, raw: np.ndarray, x: np.ndarray) -> np.ndarray:
    """(n, columns) activations by a stored matrix, (rows, bytes), of that format -> (n, rows), float64."""
    block = 256 if kind in BY_256 else 32
    whole, scales = rounded(x, block)
    if block == 32:
        scales = scales.astype(np.float16).astype(np.float32)
    active = whole.reshape(len(x), -1, block) * scales[..., None].astype(np.float64)
    weights = format_of(kind).decode(raw).reshape(len(raw), -1)
    return active.reshape(x.shape) @ weights.astype(np.float64).T
