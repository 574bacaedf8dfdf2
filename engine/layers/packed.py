"""Matrices as they are stored, multiplied with activations in 8 bits; and tables whose rows are looked up."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from engine import kernels
from engine.kernels.layouts import PACKED, TILE, packed_bytes
from engine.quant import format_of

if TYPE_CHECKING:
    from engine.kernels.numba.team import Team

Place = tuple[int, int, int, int]  # of a packed matrix: layout, rounding, address, tiles
STRIPES = 64  # parts of a matrix that are packed by turns


@dataclass(frozen=True, slots=True, eq=False)
class Raw:
    """A stored matrix: bytes as they lie in its file, and what they are."""

    kind: str
    shape: tuple[int, int]  # rows, columns
    bytes: np.ndarray


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """An embedding: rows are decoded as they are looked up, from the file itself."""

    raw: Raw

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns)."""
        return self.raw.shape

    def rows(self, ids: Tensor) -> Tensor:
        """(n,) -> (n, columns): the rows with these numbers."""
        rows, columns = self.raw.shape
        chosen = self.raw.bytes.reshape(rows, -1)[ids.numpy()]
        return torch.from_numpy(format_of(self.raw.kind).decode(chosen).reshape(-1, columns))


@dataclass(frozen=True, slots=True, eq=False)
class Packed:
    """y = x W^T, of matrices one below the other. Each row comes out the same, whatever others are there."""

    parts: tuple[np.ndarray, ...]
    places: tuple[Place, ...]  # of each
    shape: tuple[int, int]  # rows, columns
    team: Team
    program: np.ndarray

    def __call__(self, x: Tensor) -> Tensor:
        """(..., columns) -> (..., rows)."""
        from engine.kernels.numba.program import FOUND, PENDING

        rows, columns = self.shape
        x = x.contiguous()
        out = torch.empty(*x.shape[:-1], rows)
        with self.team.asked() as frame:
            frame.round(self.roundings, x.numel() // columns, columns)
            frame.put(FOUND, x.data_ptr())
            frame.put(PENDING, out.data_ptr())
            self.team.run(self.program)
        return out

    @property
    def roundings(self) -> int:
        """A bit for each way in which activations have to be rounded."""
        return roundings(self.places)

    def loose(self) -> Packed:
        """The same: nothing is gained by letting the last bits go."""
        return self


def roundings(places: Sequence[Place]) -> int:
    """A bit for each way in which parts of a matrix have activations rounded."""
    return reduce(or_, (1 << rounding for _, rounding, _, _ in places))


def pack(stored: list[Raw], threads: int) -> Packed:
    """Matrices of as many columns, of formats that can be packed. Scales are not looked at."""
    kernels.open_kernels()
    from engine.kernels.numba.operations import assembled, multiply, round_rows
    from engine.kernels.numba.packing import PACKERS
    from engine.kernels.numba.program import FOUND, PENDING, room
    from engine.kernels.numba.team import team_of

    parts, places = [], []
    for raw in stored:
        run, layout, rounding = PACKERS[raw.kind]
        (rows, columns), (block, size) = raw.shape, PACKED[raw.kind]
        tiles, blocks = rows // TILE, columns // block
        source = raw.bytes.reshape(tiles, TILE, blocks, -1)
        part = room(packed_bytes(raw.kind, raw.shape))
        out = part.reshape(tiles, blocks, size)
        step = -(-tiles // STRIPES)
        stripes = [slice(at, at + step) for at in range(0, tiles, step)]
        with ThreadPoolExecutor(threads, "pack") as pool:
            list(pool.map(lambda stripe, s=source, o=out, r=run: r(s[stripe], o[stripe]), stripes))
        parts.append(part)
        places.append((layout, rounding, part.ctypes.data, tiles))
    rows, columns = sum(raw.shape[0] for raw in stored), stored[0].shape[1]
    program = assembled(
        round_rows(columns, roundings(places), FOUND, 4 * columns),
        multiply(columns, places, PENDING, 4 * rows),
    )
    return Packed(tuple(parts), tuple(places), (rows, columns), team_of(threads), program)
