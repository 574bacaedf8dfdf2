"""Causal attention over a growing cache; heads may share keys and values, and look back only a window."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn import functional as F

from engine.cache.kv import Kv
from engine.layers.linear import Linear
from engine.layers.norm import RmsNorm
from engine.layers.rope import Rope, Rotation


@dataclass(slots=True, eq=False)
class Span:
    """Where a run of tokens lies in its sequence, and what all layers need of that, made once."""

    start: int
    count: int
    _rotations: dict[Rope, Rotation] = field(default_factory=dict)
    _masks: dict[int | None, Tensor | None] = field(default_factory=dict)

    @property
    def end(self) -> int:
        """The position after the last."""
        return self.start + self.count

    def first(self, window: int | None) -> int:
        """The oldest position that any of the tokens sees."""
        return 0 if window is None else max(0, self.start - window + 1)

    def rotation(self, rope: Rope) -> Rotation:
        """The rotation of these positions."""
        if rope not in self._rotations:
            self._rotations[rope] = rope.at(self.start, self.count)
        return self._rotations[rope]

    def mask(self, window: int | None) -> Tensor | None:
        """(count, end - first): 0 where a token sees a position, else -inf. None: a lone token sees all."""
        if self.count == 1:
            return None
        if window not in self._masks:
            self._masks[window] = self._make_mask(window)
        return self._masks[window]

    def _make_mask(self, window: int | None) -> Tensor:
        token = torch.arange(self.start, self.end)[:, None]
        seen = torch.arange(self.first(window), self.end)[None]
        hidden = seen > token
        if window is not None:
            hidden |= seen <= token - window
        return torch.zeros(hidden.shape).masked_fill_(hidden, float("-inf"))


@dataclass(frozen=True, slots=True)
class Heads:
    """How a layer is cut: `count` query heads, in groups that share one of `kv` key and value heads."""

    count: int
    kv: int
    dim: int


@dataclass(frozen=True, slots=True, eq=False)
class Attention:
    """One layer's attention; query, key and value are one matrix, in that order of rows."""

    qkv: Linear
    output: Linear
    heads: Heads
    rope: Rope
    layer: int  # its number in the cache
    window: int | None = None  # tokens it looks back on, itself included; None: all
    query_norm: RmsNorm | None = None  # over each head
    key_norm: RmsNorm | None = None
    scale: float | None = None  # of the scores; None: 1 / sqrt(head dim)

    def __call__(self, x: Tensor, span: Span, cache: Kv) -> Tensor:
        """(n, width) -> (n, width); the tokens' keys and values are appended to the cache."""
        count, kv, dim = self.heads.count, self.heads.kv, self.heads.dim
        query, key, value = torch.split(self.qkv(x).view(-1, count + 2 * kv, dim), [count, kv, kv], dim=1)
        if self.query_norm is not None and self.key_norm is not None:
            query, key = self.query_norm(query), self.key_norm(key)
        rotation = span.rotation(self.rope)
        cache.append(self.layer, self.rope.turn(key, rotation), value)
        keys, values = cache.read(self.layer, span.first(self.window), span.end)
        mixed = self._attend(self.rope.turn(query, rotation), keys, values, span.mask(self.window))
        return self.output(mixed)

    def _attend(self, query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
        """(n, heads, dim), twice (kv heads, seen, dim) -> (n, heads * dim)."""
        n, groups = query.shape[0], self.heads.count // self.heads.kv
        shape = (self.heads.kv, groups, *keys.shape[1:])
        mixed = F.scaled_dot_product_attention(
            query.view(n, self.heads.kv, groups, self.heads.dim).permute(1, 2, 0, 3),
            keys[:, None].expand(shape),  # stride 0: a group reads its head's keys without a copy of them
            values[:, None].expand(shape),
            attn_mask=mask,
            scale=self.scale,
        )
        return mixed.permute(2, 0, 1, 3).reshape(n, -1)
