"""A vision transformer's blocks, each in steps: between two of them, someone else may have their turn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from engine.layers.axial import AxialRope
from engine.layers.linear import Linear
from engine.layers.norm import LayerNorm
from engine.layers.patch_order import PatchOrder
from engine.layers.rope import Rotation

STEP_OPERATIONS = 15e9  # about a tenth of a second on two cores
FEWEST_ROWS = 64  # of a step; fewer would waste the matrices' way through the caches
MOST_ROWS = 1_024  # more would only need more room for what lies between two layers


def parts(count: int, row_operations: float) -> list[slice]:
    """`count` rows, cut into steps of about `STEP_OPERATIONS`."""
    rows = max(FEWEST_ROWS, min(MOST_ROWS, int(STEP_OPERATIONS / row_operations)))
    return [slice(start, min(start + rows, count)) for start in range(0, count, rows)]


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """A picture as all blocks see it, and the memory that they use in turn."""

    order: PatchOrder
    rotation: Rotation
    room: tuple[Tensor, Tensor, Tensor]  # queries, keys and values, each (n, heads, head dim)

    def turning(self, part: slice) -> Rotation:
        """The rotation of some of the patches."""
        return Rotation(self.rotation.cos[part], self.rotation.sin[part])


@dataclass(frozen=True, slots=True, eq=False)
class VisionBlock:
    """Attention among a window's patches, or all of them, and a feed-forward part; each behind its norm."""

    attention_norm: LayerNorm
    qkv: Linear  # query, key and value are one matrix, in that order of rows
    output: Linear
    mlp_norm: LayerNorm
    up: Linear
    down: Linear
    heads: int
    rope: AxialRope
    is_full: bool

    def steps(self, x: Tensor, view: View) -> Iterator[None]:
        """(n, width), changed in place."""
        yield from self._attend(x, view)
        for part in parts(len(x), 4 * self.up.weight.numel()):
            x[part] += self.down(F.gelu(self.up(self.mlp_norm(x[part]))))
            yield

    def _attend(self, x: Tensor, view: View) -> Iterator[None]:
        query, key, value = view.room
        for part in parts(len(x), 2 * self.qkv.weight.numel()):
            rotation = view.turning(part)
            q, k, value[part] = self._heads(self.attention_norm(x[part]))
            query[part], key[part] = self.rope.turn(q, rotation), self.rope.turn(k, rotation)
            yield
        for part, seen in self._sight(x.shape, view.order):
            x[part] += self.output(_mix(query[part], key[seen], value[seen]))
            yield

    def _heads(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(n, width) -> three times (n, heads, head dim)."""
        query, key, value = self.qkv(x).view(len(x), 3, self.heads, -1).unbind(1)
        return query, key, value

    def _sight(self, shape: torch.Size, order: PatchOrder) -> Iterator[tuple[slice, slice]]:
        """Which patches see which: never all against all at once."""
        if self.is_full:
            yield from ((part, slice(None)) for part in parts(shape[0], 4 * shape[0] * shape[1]))
            return
        start = 0
        for count in order.windows:
            window = slice(start, start + count)
            yield window, window
            start += count


def _mix(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """(n, heads, dim), twice (seen, heads, dim) -> (n, heads * dim)."""
    q, k, v = (part.transpose(0, 1)[None] for part in (query, key, value))
    # without a mask, torch's own kernel goes through the scores block by block
    return F.scaled_dot_product_attention(q, k, v)[0].transpose(0, 1).flatten(1)
