"""The outline that decoder-only models share: look tokens up, pass the blocks, normalise, rate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from engine.cache.kv import Kv, KvShape
from engine.layers.fused import Fused
from engine.layers.linear import Lookup, Matrix
from engine.layers.norm import RmsNorm
from engine.layers.span import Span


class Block(Protocol):
    """One layer."""

    def __call__(self, x: Tensor, span: Span, cache: Kv) -> Tensor:
        """(n, width) -> (n, width)."""


@dataclass(frozen=True, slots=True, eq=False)
class Insert:
    """A picture's features, say, in place of the embeddings of the tokens that hold its place."""

    start: int  # the first one's position in the sequence
    rows: Tensor  # (n, width), normed as embeddings are


@dataclass(frozen=True, slots=True, eq=False)
class Decoder:
    """A model: what a file of `engine.models` builds, and all that the runner knows.

    A drafter borrows `embedding` and `head`: the plain tables, without norm, scale and softcap.
    """

    embedding: Lookup
    blocks: Sequence[Block]
    norm: RmsNorm
    head: Matrix
    cache: KvShape
    embedding_scale: float = 1.0
    embedding_norm: RmsNorm | None = None
    logit_scale: float = 1.0
    fused: Fused | None = None  # all blocks and the norm as one program, if that can be
    softcap: float | None = None  # logits, once scaled, are squeezed between plus and minus this

    def hidden(self, ids: Tensor, cache: Kv, inserts: Sequence[Insert] = ()) -> Tensor:
        """(n,) tokens, which follow those in the cache and join them -> (n, width), ready for `rate`.

        Inserts that lie elsewhere in the sequence don't matter.
        """
        return self.states(ids, cache, (), inserts)[0]

    def states(
        self, ids: Tensor, cache: Kv, layers: Sequence[int], inserts: Sequence[Insert] = ()
    ) -> tuple[Tensor, list[Tensor]]:
        """The same, and the tokens' (n, width) states as they leave each of these layers, counted from 0."""
        span, kept = Span(cache.length, ids.shape[0]), dict[int, Tensor]()
        x = self._embed(ids, span, inserts)
        if self.fused is not None and self.fused.takes(cache):
            x, kept = self.fused(x, span, cache, layers)
            cache.advance(span.count)
            return x, [kept[layer] for layer in layers]
        for layer, block in enumerate(self.blocks):
            x = block(x, span, cache)
            if layer in layers:
                kept[layer] = x
        cache.advance(span.count)
        return self.norm(x), [kept[layer] for layer in layers]

    def rate(self, hidden: Tensor) -> Tensor:
        """(n, width) -> (n, vocabulary) logits."""
        logits = self.head(hidden)
        if self.logit_scale != 1:
            logits = logits * self.logit_scale
        return logits if self.softcap is None else torch.tanh(logits / self.softcap) * self.softcap

    def _embed(self, ids: Tensor, span: Span, inserts: Sequence[Insert]) -> Tensor:
        x = self.embedding.rows(ids)
        if self.embedding_scale != 1:
            x = x * self.embedding_scale
        if self.embedding_norm is not None:
            x = self.embedding_norm(x)
        for insert in inserts:
            first, end = max(insert.start, span.start), min(insert.start + len(insert.rows), span.end)
            if first < end:
                x[first - span.start : end - span.start] = insert.rows[
                    first - insert.start : end - insert.start
                ]
        return x
