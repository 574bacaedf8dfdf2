"""The gated feed-forward block."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional as F

from engine.layers.linear import Matrix


def silu(x: Tensor) -> Tensor:
    """The gate of SwiGLU."""
    return F.silu(x)


def gelu_tanh(x: Tensor) -> Tensor:
    """The gate of GeGLU, in its tanh approximation."""
    return F.gelu(x, approximate="tanh")


@dataclass(frozen=True, slots=True, eq=False)
class GatedMlp:
    """down(activation(gate(x)) * up(x)); gate and up are one matrix, gate's rows first."""

    gate_up: Matrix
    down: Matrix
    activation: Callable[[Tensor], Tensor]

    def __call__(self, x: Tensor) -> Tensor:
        """(n, width) -> (n, width)."""
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        return self.down(self.activation(gate).mul_(up))
