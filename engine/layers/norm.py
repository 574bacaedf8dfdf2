"""Root-mean-square normalisation."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional as F


@dataclass(frozen=True, slots=True, eq=False)
class RmsNorm:
    """x / sqrt(mean(x^2) + eps) * weight, over the last dimension."""

    weight: Tensor  # (width,)
    eps: float

    def __call__(self, x: Tensor) -> Tensor:
        """(..., width) -> (..., width)."""
        return F.rms_norm(x, self.weight.shape, self.weight, self.eps)
