"""Matrix times vector: the only place that knows how weights are held in memory."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional as F


def held_bytes(kind: str, values: int) -> int:
    """Bytes in memory of that many weights, whatever type they are stored as: they are decoded to float32."""
    return 4 * values


@dataclass(frozen=True, slots=True, eq=False)
class Linear:
    """y = x W^T + b. Also an embedding table, whose rows are looked up: tied heads share one `Linear`."""

    weight: Tensor  # (rows, columns), float32
    bias: Tensor | None = None  # (rows,)

    def __call__(self, x: Tensor) -> Tensor:
        """(..., columns) -> (..., rows)."""
        return F.linear(x, self.weight, self.bias)

    def rows(self, ids: Tensor) -> Tensor:
        """(n,) -> (n, columns): the rows with these numbers."""
        return F.embedding(ids, self.weight)
