"""In which order a vision model takes a picture's patches, and where the table of positions says they lie."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

# Two readings of the table for pictures that are not square; for square ones they differ at the edge only.
# "reference": a patch's number in reading order is split by the picture's height, as if it were transposed,
# and beyond the table's edge there is nothing. "natural": by row and column, and the edge goes on.
Lookup = Literal["reference", "natural"]


@dataclass(frozen=True, slots=True, eq=False)
class PatchOrder:
    """Window after window, and in a window row by row."""

    height: int  # patches
    width: int
    raster: Tensor  # (n,) each patch's number in reading order
    windows: tuple[int, ...]  # patches in each window
    cells: Tensor  # (cells, merge * merge) where in this order each cell's patches are

    @property
    def rows(self) -> Tensor:
        """(n,) the row of each patch."""
        return self.raster // self.width

    @property
    def columns(self) -> Tensor:
        """(n,) the column of each patch."""
        return self.raster % self.width


def patch_order(rows: int, columns: int, merge: int, window: int) -> PatchOrder:
    """The order for a grid of cells of merge x merge patches; windows are window x window patches."""
    height, width = rows * merge, columns * merge
    numbers = torch.arange(height * width).view(height, width)
    windows = [
        numbers[top : top + window, left : left + window].reshape(-1)
        for top in range(0, height, window)
        for left in range(0, width, window)
    ]
    raster = torch.cat(windows)
    cells = numbers.view(rows, merge, columns, merge).permute(0, 2, 1, 3).reshape(-1, merge * merge)
    return PatchOrder(height, width, raster, tuple(map(len, windows)), raster.argsort()[cells])


@dataclass(frozen=True, slots=True, eq=False)
class PositionTable:
    """A learned vector for each place on a square of side x side, blended between the nearest four."""

    table: Tensor  # (side * side, width)
    side: int
    lookup: Lookup

    def at(self, order: PatchOrder, part: slice) -> Tensor:
        """(patches in the part, width)."""
        numbers = order.raster[part]
        if self.lookup == "reference":
            down = self._taps(numbers // order.height, order.width)
            across = self._taps(numbers % order.height, order.height)
        else:
            down = self._taps(numbers // order.width, order.height)
            across = self._taps(numbers % order.width, order.width)
        places = (down[0][:, :, None] * self.side + across[0][:, None]).flatten(1)
        weights = (down[1][:, :, None] * across[1][:, None]).flatten(1)
        return F.embedding_bag(places, self.table, per_sample_weights=weights, mode="sum")

    def _taps(self, index: Tensor, size: int) -> tuple[Tensor, Tensor]:
        """The two nearest places on an axis of the table, and their weights, each (n, 2)."""
        place = (index.double() + 0.5) * self.side / size - 0.5
        if self.lookup == "natural":
            place = place.clamp(0, self.side - 1)
        taps = place.floor().long()[:, None] + torch.arange(2)
        weights = 1 - (place[:, None] - taps).abs()
        weights = weights * ((taps >= 0) & (taps < self.side))
        return taps.clamp(0, self.side - 1), weights.float()
