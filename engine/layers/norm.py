"""Normalisation: by the root mean square, and by mean and variance."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional as F


@dataclass(frozen=True, slots=True, eq=False)
class RmsNorm:
    """x / sqrt(mean(x^2) + eps) * weight, over the last dimension."""

    weight: Tensor | None  # (width,); None: all ones
    eps: float

    def __call__(self, x: Tensor) -> Tensor:
        """(..., width) -> (..., width)."""
        return F.rms_norm(x, x.shape[-1:], self.weight, self.eps)


@dataclass(frozen=True, slots=True, eq=False)
class LayerNorm:
    """(x - mean) / sqrt(variance + eps) * weight + bias, over the last dimension."""

    weight: Tensor  # (width,)
    bias: Tensor  # (width,)
    eps: float

    def __call__(self, x: Tensor) -> Tensor:
        """(..., width) -> (..., width)."""
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)
