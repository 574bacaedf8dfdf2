"""From a picture to what the vision model takes in: a grid of cells, each of some square patches."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import ceil, floor

import numpy as np
import torch
from PIL import Image
from torch import Tensor

Grid = tuple[int, int]  # rows, columns


@dataclass(frozen=True, slots=True)
class Cutting:
    """How pictures are cut: into cells, each a token, of merge x merge patches of patch x patch pixels."""

    patch: int
    merge: int
    most: int  # cells
    mean: tuple[float, float, float]  # of each colour from 0 to 1
    deviation: tuple[float, float, float]

    @property
    def cell(self) -> int:
        """Pixels along a cell's side."""
        return self.patch * self.merge

    def grid(self, width: int, height: int) -> Grid:
        """The cells for a picture of this size: as many as it has pixels for, of the nearest shape."""
        tall, wide = height / self.cell, width / self.cell
        if tall * wide > self.most:
            ratio = wide / tall
            tall = (self.most / ratio) ** 0.5
            wide = tall * ratio
        near = product((floor(tall), ceil(tall)), (floor(wide), ceil(wide)))
        fitting = [grid for grid in near if 1 <= grid[0] * grid[1] <= self.most]
        if not fitting:  # a line: thinner than a cell, and longer than all of them
            rows = min(self.most, max(1, round(tall)))
            return rows, min(self.most // rows, max(1, round(wide)))
        # of two shapes that are equally near, the one that shows more
        return min(fitting, key=lambda grid: (abs(grid[0] / grid[1] - height / width), -grid[0] * grid[1]))

    def cut(self, image: Image.Image, grid: Grid) -> Tensor:
        """RGB, stretched to the grid -> (patches, 3 * patch * patch): row by row; in a patch, by colour."""
        rows, columns = grid
        size = (columns * self.cell, rows * self.cell)
        sized = image if image.size == size else image.resize(size, Image.Resampling.LANCZOS)
        colours = torch.from_numpy(np.array(sized)).float().div_(255)  # (height, width, 3)
        colours.sub_(torch.tensor(self.mean)).div_(torch.tensor(self.deviation))
        shape = (rows * self.merge, self.patch, columns * self.merge, self.patch, 3)
        return colours.view(shape).permute(0, 2, 4, 1, 3).reshape(-1, 3 * self.patch**2)
