"""Rotary positions in two dimensions: half of a head's pairs turn by the column, half by the row."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from engine.layers.rope import Order, Rope, Rotation, rope
from engine.weights.config import Rope as RopeConfig

FIRST = 1  # positions are counted from here


@dataclass(frozen=True, slots=True, eq=False)
class AxialRope:
    """How fast each dimension turns along each axis: radians a patch, float64; zero along the other one."""

    pairs: Rope
    by_column: Tensor  # (head dim,)
    by_row: Tensor  # (head dim,)

    def at(self, rows: Tensor, columns: Tensor) -> Rotation:
        """The rotation of the patches at these rows and columns, each (n,)."""
        angles = (columns + FIRST).double()[:, None] * self.by_column
        angles += (rows + FIRST).double()[:, None] * self.by_row
        return Rotation(angles.cos().float()[:, None], (angles.sin() * self.pairs.signs).float()[:, None])

    def turn(self, x: Tensor, rotation: Rotation) -> Tensor:
        """(n, heads, head dim) -> the same, turned."""
        return self.pairs.turn(x, rotation)


def axial_rope(head_dim: int, base: float, order: Order) -> AxialRope:
    """The first half of the pairs by column, the second by row, both with the same speeds."""
    half, quarter = head_dim // 2, head_dim // 4
    dimension = torch.arange(head_dim)
    pair = dimension // 2 if order == "interleaved" else dimension % half
    speed = base ** (-(pair % quarter).double() / quarter)
    still = torch.zeros_like(speed)
    by_column, by_row = torch.where(pair < quarter, speed, still), torch.where(pair < quarter, still, speed)
    return AxialRope(rope(head_dim, RopeConfig(base, head_dim), order), by_column, by_row)
