"""Matrix times vector, of weights in float32; `engine.layers.packed` has them as they are stored."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

FEW = 16  # rows that are computed each by itself: a token, and as many proposed ones as are checked at once
PARTS = 8  # of a matrix, at least: as a batch of parts it is read by all cores, otherwise by one alone
PART_BYTES = 1 << 20  # at most, so that the second row finds the part in the processor's cache
SMALL_BYTES = 1 << 16


class Matrix(Protocol):
    """A product with a matrix, however it is held."""

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns)."""

    def __call__(self, x: Tensor) -> Tensor:
        """(..., columns) -> (..., rows)."""

    def loose(self) -> Matrix:
        """The same, quicker with a few rows if it can be; last bits may depend on how many there are."""


class Lookup(Protocol):
    """A table whose rows are looked up."""

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns)."""

    def rows(self, ids: Tensor) -> Tensor:
        """(n,) -> (n, columns): the rows with these numbers."""


@dataclass(frozen=True, slots=True, eq=False)
class Linear:
    """y = x W^T + b. Also an embedding table, whose rows are looked up: tied heads share one `Linear`.

    Of up to `FEW` rows each comes out the same, to the bit, whatever others are there: a token that was
    proposed and is checked among others gets the very logits that it would get alone. Of many rows, and if
    `is_steady` is off, the last bits depend on how many there are, since the BLAS then adds in other orders.
    """

    weight: Tensor  # (rows, columns), float32
    bias: Tensor | None = None  # (rows,)
    is_steady: bool = True

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns)."""
        rows, columns = self.weight.shape
        return rows, columns

    def __call__(self, x: Tensor) -> Tensor:
        """(..., columns) -> (..., rows)."""
        rows, columns = self.weight.shape
        if not self.is_steady or x.numel() > FEW * columns:
            return F.linear(x, self.weight, self.bias)
        y = self._one_by_one(x.reshape(-1, 1, columns).mT).view(*x.shape[:-1], rows)
        return y if self.bias is None else y + self.bias

    def rows(self, ids: Tensor) -> Tensor:
        """(n,) -> (n, columns): the rows with these numbers."""
        return F.embedding(ids, self.weight)

    def loose(self) -> Linear:
        """The same weights, quicker with a few rows, whose last bits then depend on how many there are."""
        return replace(self, is_steady=False)

    def after(self, first: int) -> Linear:
        """Only the rows from `first` on; no copy."""
        bias = None if self.bias is None else self.bias[first:]
        return replace(self, weight=self.weight[first:], bias=bias)

    def _one_by_one(self, x: Tensor) -> Tensor:
        """(n, columns, 1) -> (n, rows): every product is one of a part of the matrix and a single row.

        They always go in batches of two or more, which the BLAS treats as single products, each the same.
        """
        rows, columns = self.weight.shape
        height = _height(rows, columns)
        count = rows // height
        parts = self.weight[: count * height].view(count, height, columns)
        rest = self.weight[count * height :]
        if x.shape[0] == 1 and count > 1:
            out = [torch.bmm(parts, x.expand(count, -1, -1)).view(1, -1)]
        else:
            out = [_multiply(part, x) for part in parts]
        if len(rest):
            out.append(_multiply(rest, x))
        return out[0] if len(out) == 1 else torch.cat(out, 1)


def _height(rows: int, columns: int) -> int:
    """How many of a matrix's rows make a part."""
    row_bytes = 4 * columns
    parts = 2 if rows * row_bytes <= SMALL_BYTES else PARTS
    return max(1, min(rows // parts, PART_BYTES // row_bytes))


def _multiply(part: Tensor, x: Tensor) -> Tensor:
    """(height, columns) and (n, columns, 1) -> (n, height)."""
    count = max(2, x.shape[0])
    y = torch.bmm(part.expand(count, -1, -1), x.expand(count, -1, -1))
    return y[: x.shape[0], :, 0]
