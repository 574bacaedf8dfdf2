"""Keys and values of one sequence, layer by layer.

Layers that see everything grow; local ones keep their window, and as much as may be rolled back.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from engine.cache.aside import Aside
from engine.cache.lane import Lane, Rows, copied, joined
from engine.cache.past import Past
from engine.cache.storage import F32, Storage

__all__ = ["Kv", "KvShape"]

BLOCK = 256  # tokens: the smallest step in which room grows
ROLLBACK = 16  # tokens that a local layer can always take back: a block of proposed ones
SPARE = 256  # tokens that a local layer has room for before it moves its window to the front
PAST_BYTES = 512 << 20
NEAR = 16  # tokens: taking a sequence up again so early saves nothing


@dataclass(frozen=True, slots=True)
class KvShape:
    """How much one token takes: keys and values of every layer; in local ones it sees the last `window`."""

    layers: int
    heads: int
    head_dim: int
    window: int | None = None
    local: tuple[bool, ...] = ()  # for each layer; empty: none is

    @property
    def token_bytes(self) -> int:
        """Bytes of one token in all layers, in float32."""
        return self.layers * self.row_bytes(F32)

    def row_bytes(self, storage: Storage) -> int:
        """Bytes of one token in one layer."""
        return 2 * self.heads * storage.row_bytes(self.head_dim)

    def is_local(self, layer: int) -> bool:
        """Whether a layer sees only the window."""
        return self.window is not None and bool(self.local) and self.local[layer]

    def rows(self, layer: int, tokens: int, spare: int = SPARE) -> int:
        """Rows that a layer holds when room is made for so many tokens."""
        rows = -(-tokens // BLOCK) * BLOCK
        if self.window is None or not self.is_local(layer):
            return rows
        return min(rows, self.window - 1 + ROLLBACK + spare)

    def bytes(self, tokens: int, storage: Storage = F32, spare: int = SPARE) -> int:
        """Bytes of a cache in which room is made for so many tokens, exactly."""
        rows = sum(self.rows(layer, tokens, spare) for layer in range(self.layers))
        return rows * self.row_bytes(storage)


class Kv:
    """The positions computed so far: `length` of them are good, with room for more behind.

    `aside` is whatever else was made of the same tokens, as a drafter's view of them: it goes along.
    """

    def __init__(
        self,
        shape: KvShape,
        limit: int,
        storage: Storage = F32,
        *,
        spare: int = SPARE,
        past_bytes: int = PAST_BYTES,
    ) -> None:
        self.shape, self.limit, self.storage = shape, limit, storage  # limit: the most tokens it will hold
        self.length = 0
        self.aside: Aside | None = None
        self._low = 0  # the first position that local layers hold; others hold all
        self._spare = spare
        self._lanes = [Lane(shape.heads, shape.head_dim, storage) for _ in range(shape.layers)]
        self._is_local = [shape.is_local(layer) for layer in range(shape.layers)]
        self._locals = [lane for lane, local in zip(self._lanes, self._is_local, strict=True) if local]
        self._reach = (shape.window or 1) - 1 if self._locals else 0  # what a token sees before itself
        self._past = Past(self._reach, past_bytes)

    def reserve(self, tokens: int) -> None:
        """Make room for this many tokens in every layer at once, so that none grows on the way."""
        for layer, lane in enumerate(self._lanes):
            rows = self.shape.rows(layer, min(tokens, self.limit), self._spare)
            lane.grow(rows, self.length - self._first(layer))

    def append(self, layer: int, keys: Tensor, values: Tensor) -> None:
        """Write a layer's (n, heads, head dim) keys and values after the first `length` positions."""
        count, lane = keys.shape[0], self._lanes[layer]
        at = self.length - self._first(layer)
        if at + count > lane.capacity:
            at = self._make_room(layer, count)
        lane.write(at, keys, values)

    def make_room(self, count: int, places: np.ndarray) -> None:
        """Room for `count` positions more in every layer, for who writes them by address.

        Into `places`, (layers, 4): where keys and values stand, bytes of a head, the first position there.
        """
        for layer, lane in enumerate(self._lanes):
            if self.length - self._first(layer) + count > lane.capacity:
                self._make_room(layer, count)
        for layer, lane in enumerate(self._lanes):
            places[layer] = (*lane.places(), self._first(layer))

    def read(self, layer: int, first: int, end: int) -> tuple[Tensor, Tensor]:
        """A layer's keys and values at positions first to end, (heads, seen, head dim) each, float32.

        No copy if the storage is plain. Of a local layer only positions that its window still holds.
        """
        low = self._first(layer)
        if first < low:
            raise ValueError(f"position {first} of a local layer is gone; it holds those from {low} on")
        return self._lanes[layer].read(first - low, end - low)

    def advance(self, tokens: int) -> None:
        """Every layer has its `tokens` appended: they count from now on."""
        self.length += tokens

    def mark(self, positions: Iterable[int]) -> None:
        """Where a later sequence may part from this one, as turns do: keep what going back there takes."""
        self._past.mark([position for position in positions if position > NEAR])

    def reach(self, length: int) -> int:
        """The greatest length up to `length` that `truncate` can go back to."""
        held = _merged([*self._past.spans, (self._low, self.length)])
        for first, end in reversed(held):
            nearest = min(length, end)
            if nearest >= (first + self._reach if first else 0):
                return nearest
        return 0

    def truncate(self, length: int) -> None:
        """Forget the positions from `length` on; the room stays.

        The last `ROLLBACK` that were appended can always go. Further back, `reach` says how far.
        """
        length = min(self.length, length)
        if self.reach(length) != length:
            raise ValueError(f"local layers can't go back to {length}; the nearest is {self.reach(length)}")
        if self._low and length < self._low + self._reach:
            self._restore(length)
        self.length = length
        if self.aside is not None:
            self.aside.truncate(length)

    def copy(self, length: int) -> Kv:
        """A second one with this one's first `length` positions, as far as `reach` says."""
        other = Kv(self.shape, self.limit, self.storage, spare=self._spare, past_bytes=self._past.limit)
        other.reserve(length)
        other._low = max(0, length - self._reach) if self._locals else 0
        for lane, rows in zip(other._locals, self._locals_at(other._low, length), strict=True):
            lane.put(0, rows)
        for mine, theirs, local in zip(self._lanes, other._lanes, self._is_local, strict=True):
            if not local:
                theirs.put(0, mine.rows(0, length))
        other.length = length
        other.aside = None if self.aside is None else self.aside.copy(length)
        return other

    @property
    def bytes(self) -> int:
        """Bytes held, the empty room included."""
        beside = 0 if self.aside is None else self.aside.bytes
        return sum(lane.bytes for lane in self._lanes) + self._past.bytes + beside

    def _first(self, layer: int) -> int:
        return self._low if self._is_local[layer] else 0

    def _make_room(self, layer: int, count: int) -> int:
        """Room for `count` more rows; the first of them."""
        spare = max(self._spare, count)
        most = self.shape.rows(layer, self.limit + count, spare)
        if self._is_local[layer] and self.length - self._low + count > most:
            self._let_go(max(0, self.length - self._reach - ROLLBACK))
        used = self.length - self._first(layer)
        wanted = max(used + count, min(self.limit, used + count + (used + count) // 4))
        self._lanes[layer].grow(self.shape.rows(layer, wanted, spare), used)
        return used

    def _let_go(self, low: int) -> None:
        """Local layers move what they hold from position `low` on to the front of their room."""
        self._past.keep(self._low, low, self._held)
        for lane, rows in zip(self._locals, self._held(low, self.length), strict=True):
            lane.put(0, copied(rows))
        self._low = low

    def _restore(self, length: int) -> None:
        """Local layers take back from the past what a token at `length` sees."""
        low = max(0, length - self._reach)
        for lane, rows in zip(self._locals, self._locals_at(low, length), strict=True):
            lane.put(0, rows)
        self._past.cut(low)
        self._low = low

    def _held(self, first: int, end: int) -> list[Rows]:
        """Local layers' rows at these positions, which they hold; no copy."""
        return [lane.rows(first - self._low, end - self._low) for lane in self._locals]

    def _locals_at(self, first: int, end: int) -> list[Rows]:
        """Local layers' rows at these positions, wherever they are, in memory of their own."""
        pieces = [*self._past.parts(first, end), self._held(max(first, self._low), max(end, self._low))]
        return [joined(layer) for layer in zip(*pieces, strict=True)]


def _merged(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Spans in order, those that touch as one."""
    out = spans[:1]
    for first, end in spans[1:]:
        if first == out[-1][1]:
            out[-1] = (out[-1][0], end)
        else:
            out.append((first, end))
    return out
