"""Causal attention over a growing cache; heads may share keys and values, and look back only a window."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from engine.cache.kv import Kv
from engine.layers.attend import attend
from engine.layers.linear import Matrix
from engine.layers.norm import RmsNorm
from engine.layers.rope import Rope
from engine.layers.span import Span

__all__ = ["Attention", "Heads", "Span"]


@dataclass(frozen=True, slots=True)
class Heads:
    """How a layer is cut: `count` query heads, in groups that share one of `kv` key and value heads."""

    count: int
    kv: int
    dim: int


@dataclass(frozen=True, slots=True, eq=False)
class Attention:
    """One layer's attention; query, key and value are one matrix, in that order of rows."""

    qkv: Matrix
    output: Matrix
    heads: Heads
    rope: Rope | None  # None: no positions
    layer: int  # its number in the cache
    window: int | None = None  # tokens it looks back on, itself included; None: all
    query_norm: RmsNorm | None = None  # over each head
    key_norm: RmsNorm | None = None
    scale: float | None = None  # of the scores; None: 1 / sqrt(head dim)
    gate: Matrix | None = None  # how much of what each head found passes: its sigmoid

    def __call__(self, x: Tensor, span: Span, cache: Kv) -> Tensor:
        """(n, width) -> (n, width); the tokens' keys and values are appended to the cache."""
        count, kv, dim = self.heads.count, self.heads.kv, self.heads.dim
        query, key, value = torch.split(self.qkv(x).view(-1, count + 2 * kv, dim), [count, kv, kv], dim=1)
        if self.query_norm is not None and self.key_norm is not None:
            query, key = self.query_norm(query), self.key_norm(key)
        if self.rope is not None:
            rotation = span.rotation(self.rope)
            query, key = self.rope.turn(query, rotation), self.rope.turn(key, rotation)
        cache.append(self.layer, key, value)
        found = attend(query, cache, self.layer, span, self.window, self.scale)
        if self.gate is not None:
            found = found * self.gate(x).sigmoid_()
        return self.output(found)
