"""One layer of a decoder: it mixes in what came before, then each token thinks by itself."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from engine.cache.kv import Kv
from engine.layers.attention import Attention
from engine.layers.mlp import GatedMlp
from engine.layers.norm import RmsNorm
from engine.layers.span import Span


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Normalise, attend, add; normalise, think, add. Some models normalise once more before they add."""

    attention_norm: RmsNorm
    attention: Attention
    mlp_norm: RmsNorm
    mlp: GatedMlp
    attention_end: RmsNorm | None = None
    mlp_end: RmsNorm | None = None

    def __call__(self, x: Tensor, span: Span, cache: Kv) -> Tensor:
        """(n, width) -> (n, width)."""
        found = self.attention(self.attention_norm(x), span, cache)
        x = x + (found if self.attention_end is None else self.attention_end(found))
        thought = self.mlp(self.mlp_norm(x))
        return x + (thought if self.mlp_end is None else self.mlp_end(thought))
