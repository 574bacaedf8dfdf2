"""Keys and values of one sequence, layer by layer."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

BLOCK = 256  # tokens: the smallest step in which room grows


@dataclass(frozen=True, slots=True)
class KvShape:
    """How much one token takes: float32 keys and values of every layer."""

    layers: int
    heads: int
    head_dim: int

    @property
    def token_bytes(self) -> int:
        """Bytes of one token in all layers."""
        return 2 * 4 * self.layers * self.heads * self.head_dim


class Kv:
    """The positions computed so far: `length` of them are good, with room for more behind."""

    def __init__(self, shape: KvShape, limit: int) -> None:
        self.shape, self.limit = shape, limit  # limit: the most tokens it will ever hold
        self.length = 0
        empty = torch.empty(2, shape.heads, 0, shape.head_dim)
        self._layers = [empty] * shape.layers  # each (keys and values, heads, capacity, head dim)

    def reserve(self, tokens: int) -> None:
        """Make room for this many tokens in every layer at once, so that none grows on the way."""
        for layer in range(self.shape.layers):
            self._grow(layer, min(tokens, self.limit))

    def append(self, layer: int, keys: Tensor, values: Tensor) -> None:
        """Write a layer's (n, heads, head dim) keys and values after the first `length` positions."""
        start, end = self.length, self.length + keys.shape[0]
        if end > self._layers[layer].shape[2]:
            self._grow(layer, max(end, min(self.limit, end + end // 4)))
        room = self._layers[layer]
        room[0, :, start:end] = keys.transpose(0, 1)
        room[1, :, start:end] = values.transpose(0, 1)

    def read(self, layer: int, first: int, end: int) -> tuple[Tensor, Tensor]:
        """A layer's keys and values at positions first to end, (heads, seen, head dim) each; no copy."""
        keys, values = self._layers[layer][:, :, first:end]
        return keys, values

    def advance(self, tokens: int) -> None:
        """Every layer has its `tokens` appended: they count from now on."""
        self.length += tokens

    def truncate(self, length: int) -> None:
        """Forget the positions from `length` on; the room stays."""
        self.length = min(self.length, length)

    def copy(self, length: int) -> Kv:
        """A second one with this one's first `length` positions."""
        other = Kv(self.shape, self.limit)
        other.reserve(length)
        for mine, theirs in zip(self._layers, other._layers, strict=True):
            theirs[:, :, :length] = mine[:, :, :length]
        other.length = length
        return other

    @property
    def bytes(self) -> int:
        """Bytes held, the empty room included."""
        return sum(layer.nbytes for layer in self._layers)

    def _grow(self, layer: int, tokens: int) -> None:
        old = self._layers[layer]
        capacity = -(-tokens // BLOCK) * BLOCK
        if capacity > old.shape[2]:
            new = torch.empty(2, self.shape.heads, capacity, self.shape.head_dim)
            new[:, :, : self.length] = old[:, :, : self.length]
            self._layers[layer] = new
