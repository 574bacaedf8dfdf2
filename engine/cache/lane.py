"""One layer's keys and values: rows for tokens, side by side."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from engine.cache.storage import Storage

Rows = tuple[Tensor, ...]  # some rows of every part: (2, heads, n, columns) each


class Lane:
    """Room for `capacity` rows. Which row is which token, its owner knows."""

    def __init__(self, heads: int, head_dim: int, storage: Storage) -> None:
        self.heads, self.head_dim, self.storage = heads, head_dim, storage
        self._parts = storage.empty(heads, 0, head_dim)
        self.capacity = 0

    @property
    def bytes(self) -> int:
        """Bytes held, the empty room included."""
        return sum(part.nbytes for part in self._parts)

    def grow(self, capacity: int, used: int) -> None:
        """More room; the first `used` rows stay."""
        if capacity > self.capacity:
            old, self._parts = self._parts, self.storage.empty(self.heads, capacity, self.head_dim)
            self.capacity = capacity
            self.put(0, tuple(part[:, :, :used] for part in old))

    def places(self) -> tuple[int, int, int]:
        """Addresses of the keys and of the values, and bytes of a head, of a storage without scales."""
        both = self._parts[0]
        return both[0].data_ptr(), both[1].data_ptr(), both.stride(1) * both.itemsize

    def write(self, at: int, keys: Tensor, values: Tensor) -> None:
        """(n, heads, head dim) keys and values, from row `at` on."""
        end = at + keys.shape[0]
        for side, x in enumerate((keys, values)):
            for part, new in zip(self._parts, self.storage.pack(x.transpose(0, 1)), strict=True):
                part[side, :, at:end] = new

    def read(self, first: int, end: int) -> tuple[Tensor, Tensor]:
        """Keys and values of these rows, (heads, n, head dim) each, float32."""
        keys, values = self.storage.unpack([part[:, :, first:end] for part in self._parts])
        return keys, values

    def rows(self, first: int, end: int) -> Rows:
        """These rows as they are stored; no copy."""
        return tuple(part[:, :, first:end] for part in self._parts)

    def put(self, at: int, rows: Rows) -> None:
        """Stored rows, from row `at` on; they must not be this lane's own."""
        for part, new in zip(self._parts, rows, strict=True):
            part[:, :, at : at + new.shape[2]] = new


def copied(rows: Rows) -> Rows:
    """The same rows in memory of their own."""
    return tuple(part.clone(memory_format=torch.contiguous_format) for part in rows)


def joined(pieces: Iterable[Rows]) -> Rows:
    """One piece after another, in memory of its own."""
    return tuple(torch.cat(parts, dim=2) for parts in zip(*pieces, strict=True))


def size(rows: Rows) -> int:
    """Bytes."""
    return sum(part.nbytes for part in rows)
