"""The outline that decoder-only models share: look tokens up, pass the blocks, normalise, rate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from engine.cache.kv import Kv, KvShape
from engine.layers.attention import Span
from engine.layers.linear import Linear
from engine.layers.norm import RmsNorm


class Block(Protocol):
    """One layer."""

    def __call__(self, x: Tensor, span: Span, cache: Kv) -> Tensor:
        """(n, width) -> (n, width)."""


@dataclass(frozen=True, slots=True, eq=False)
class Decoder:
    """A model: what a file of `engine.models` builds, and all that the runner knows."""

    embedding: Linear
    blocks: Sequence[Block]
    norm: RmsNorm
    head: Linear
    cache: KvShape
    embedding_scale: float = 1.0
    softcap: float | None = None  # logits are squeezed between plus and minus this

    def hidden(self, ids: Tensor, cache: Kv) -> Tensor:
        """(n,) tokens, which follow those in the cache and join them -> (n, width), ready for `rate`."""
        span = Span(cache.length, ids.shape[0])
        x = self.embedding.rows(ids) * self.embedding_scale
        for block in self.blocks:
            x = block(x, span, cache)
        cache.advance(span.count)
        return self.norm(x)

    def rate(self, hidden: Tensor) -> Tensor:
        """(n, width) -> (n, vocabulary) logits."""
        logits = self.head(hidden)
        return logits if self.softcap is None else torch.tanh(logits / self.softcap) * self.softcap
