"""Operations of a program, written down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.kernels.numba import program as at


@dataclass(frozen=True, slots=True)
class HeadsAt:
    """How a layer's queries, keys and values lie in a wide row, and where they look."""

    count: int
    shared: int  # heads of keys and values
    dim: int
    stride: int  # bytes of a wide row
    layer: int
    window: int | None
    scale: float
    query_norm: tuple[int, float] | None = None  # address and epsilon
    key_norm: tuple[int, float] | None = None
    turn: int = -1  # which of the rotations
    partners: int = 0


Norm = tuple[int, float]  # the address of its weights, and what is added to the mean square


def _operation(kind: int, fields: dict[int, int | float]) -> np.ndarray:
    words = np.zeros(at.WORDS, np.int64)
    words[at.KIND] = kind
    for place, value in fields.items():
        words[place] = np.float64(value).view(np.int64) if isinstance(value, float) else value
    return words


def norm(columns: int, mask: int, weight: Norm, end: Norm | None, *, after: int | None) -> np.ndarray:
    """Rows take in what is pending `after` a layer's half (-1: of no layer's end; None: nothing is), and are
    normalised and rounded."""
    return _operation(
        at.NORM,
        {
            at.COLUMNS: columns,
            at.MASK: mask,
            at.IS_PENDING: int(after is not None),
            at.LAYER_END: -1 if after is None else after,
            at.WEIGHT: weight[0],
            at.EPS: float(weight[1]),
            at.END: 0 if end is None else end[0],
            at.END_EPS: 0.0 if end is None else float(end[1]),
        },
    )


def round_rows(
    columns: int, mask: int, source: int, stride: int, *, opening: int = -1, wide_stride: int = 0
) -> np.ndarray:
    """Rows at a frame's place are rounded, gated before if there is an `opening`."""
    return _operation(
        at.ROUND,
        {
            at.COLUMNS: columns,
            at.MASK: mask,
            at.SOURCE: source,
            at.STRIDE: stride,
            at.OPENING: opening,
            at.WIDE_STRIDE: wide_stride,
        },
    )


def multiply(columns: int, places: Sequence[tuple[int, int, int, int]], out: int, stride: int) -> np.ndarray:
    """Rounded rows times the parts of a matrix, to a frame's place. `ValueError`: too many parts."""
    if len(places) > at.MOST_PARTS:
        raise ValueError(f"{len(places)} parts of a matrix; {at.MOST_PARTS} are the most")
    words = _operation(
        at.MULTIPLY, {at.COLUMNS: columns, at.OUT: out, at.STRIDE: stride, at.PARTS: len(places)}
    )
    words[at.PART : at.PART + 4 * len(places)] = np.array(places, np.int64).reshape(-1)
    return words


def attention(heads: HeadsAt) -> list[np.ndarray]:
    """Heads are normalised, turned and kept; then they look, and what they found is joined."""
    query, key = heads.query_norm or (0, 0.0), heads.key_norm or (0, 0.0)
    fields = {
        at.STRIDE: heads.stride,
        at.COUNT: heads.count,
        at.SHARED: heads.shared,
        at.DIM: heads.dim,
        at.QUERY_NORM: query[0],
        at.QUERY_EPS: float(query[1]),
        at.KEY_NORM: key[0],
        at.KEY_EPS: float(key[1]),
        at.SCALE: float(heads.scale),
        at.TURN: heads.turn,
        at.PARTNERS: heads.partners,
        at.LAYER: heads.layer,
        at.WINDOW: heads.window or 0,
    }
    return [_operation(kind, fields) for kind in (at.HEADS, at.ATTEND, at.JOIN)]


def gate(columns: int, mask: int, by: int) -> np.ndarray:
    """The first half of wide rows opens the other; the outcome is rounded."""
    return _operation(at.GATE, {at.COLUMNS: columns, at.MASK: mask, at.STRIDE: 8 * columns, at.BY: by})


def assembled(*operations: np.ndarray) -> np.ndarray:
    """A program, (n, `WORDS`)."""
    return np.ascontiguousarray(np.stack(operations))
