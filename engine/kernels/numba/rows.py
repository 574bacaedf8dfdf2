"""What is done to each row by itself: norms, turning heads by position, and keeping keys and values."""

from __future__ import annotations

from math import sqrt

import numpy as np
from numba import njit

from engine.kernels.numba.maths import sum_of_squares
from engine.kernels.numba.memory import IN_HALVES, OPTIONS, floats, store_halves


@njit(**OPTIONS)
def _factor(source: int, width: int, eps: float) -> np.float32:
    """1 / the root of the mean square."""
    return np.float32(1.0 / sqrt(np.float64(sum_of_squares(source, width // 8)) / width + eps))


@njit(**OPTIONS)
def norm(source: int, width: int, weight: int, eps: float, out: int) -> None:
    """A row, normalised; `out` may be the row itself."""
    factor = _factor(source, width, eps)
    x, weights, to = floats(source, width), floats(weight, width), floats(out, width)
    for at in range(width):
        to[at] = x[at] * factor * weights[at]


@njit(**OPTIONS)
def add(target: int, source: int, width: int) -> None:
    """A row joins another."""
    x, more = floats(target, width), floats(source, width)
    for at in range(width):
        x[at] += more[at]


@njit(**OPTIONS)
def copy(source: int, width: int, out: int) -> None:
    """A row, again."""
    x, to = floats(source, width), floats(out, width)
    for at in range(width):
        to[at] = x[at]


@njit(**OPTIONS)
def turn(head: int, dim: int, cos: int, sin: int, partners: np.ndarray, scratch: int) -> None:
    """A head, turned: each dimension with its partner."""
    x, was, cosines, sines = floats(head, dim), floats(scratch, dim), floats(cos, dim), floats(sin, dim)
    for at in range(dim):
        was[at] = x[at]
    for at in range(dim):
        x[at] = was[at] * cosines[at] + was[partners[at]] * sines[at]


@njit(**OPTIONS)
def scale(source: int, width: int, factor: float) -> None:
    """A row times a number."""
    x, by = floats(source, width), np.float32(factor)
    for at in range(width):
        x[at] *= by


@njit(**OPTIONS)
def keep(storage: int, source: int, dim: int, out: int) -> None:
    """A key or a value, into the cache."""
    if storage == IN_HALVES:
        store_halves(source, out, dim // 8)
    else:
        copy(source, dim, out)
