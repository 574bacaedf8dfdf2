"""Rotary positions: each pair of a head's dimensions is turned by an angle that grows with the position."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from engine.weights.config import Rope as RopeConfig

Order = Literal["interleaved", "halves"]  # pairs are (0, 1), (2, 3)... or (0, r/2), (1, r/2 + 1)...


@dataclass(frozen=True, slots=True)
class Rotation:
    """Cosines and signed sines of a run of positions, each (n, 1, head dim)."""

    cos: Tensor
    sin: Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Rope:
    """Which dimension is paired with which, and how fast each pair turns."""

    frequencies: Tensor  # (head dim,) radians a position, float64; zero where nothing turns
    signs: Tensor  # (head dim,) -1 for a pair's first member, +1 for its second
    partner: Tensor  # (head dim,) the other member of the pair

    def at(self, start: int, count: int) -> Rotation:
        """The rotation of positions start to start + count."""
        # float64: at position 100,000 a float32 angle is off by more than a hundredth
        angles = torch.arange(start, start + count, dtype=torch.float64)[:, None] * self.frequencies
        return Rotation(angles.cos().float()[:, None], (angles.sin() * self.signs).float()[:, None])

    def turn(self, x: Tensor, rotation: Rotation) -> Tensor:
        """(n, heads, head dim) -> the same, turned."""
        return (x * rotation.cos).addcmul_(x.index_select(-1, self.partner), rotation.sin)


def rope(head_dim: int, config: RopeConfig, order: Order, factors: Tensor | None = None) -> Rope:
    """A `Rope` over the first `config.dimensions` of a head; `factors` divide each pair's speed."""
    pairs = config.dimensions // 2
    speed = config.scale * config.base ** (-torch.arange(pairs, dtype=torch.float64) / pairs)
    if factors is not None:
        speed = speed / factors.double()
    first = torch.arange(pairs) * 2 if order == "interleaved" else torch.arange(pairs)
    second = first + 1 if order == "interleaved" else first + pairs
    frequencies = torch.zeros(head_dim, dtype=torch.float64)
    frequencies[first], frequencies[second] = speed, speed
    signs, partner = torch.ones(head_dim, dtype=torch.float64), torch.arange(head_dim)
    signs[first], partner[first], partner[second] = -1.0, second, first
    return Rope(frequencies, signs, partner)
