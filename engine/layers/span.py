"""A run of tokens: where it lies in its sequence, and which positions each token sees."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from engine.layers.rope import Rope, Rotation


@dataclass(slots=True, eq=False)
class Span:
    """Where a run of tokens lies in its sequence, and what all layers need of that, made once."""

    start: int
    count: int
    _rotations: dict[Rope, Rotation] = field(default_factory=dict)
    _masks: dict[tuple[int | None, int, int], Tensor | None] = field(default_factory=dict)

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

    def mask(self, window: int | None, first: int | None = None, end: int | None = None) -> Tensor | None:
        """(count, end - first): 0 where a token sees a position, else -inf. None: all is seen.

        Without `first` and `end`: all positions that any of the tokens sees.
        """
        if self.count == 1:
            return None
        key = window, self.first(window) if first is None else first, self.end if end is None else end
        if key not in self._masks:
            self._masks[key] = self._make_mask(*key)
        return self._masks[key]

    def _make_mask(self, window: int | None, first: int, end: int) -> Tensor | None:
        if end <= self.start + 1 and (window is None or first >= self.end - window):
            return None
        token = torch.arange(self.start, self.end)[:, None]
        seen = torch.arange(first, end)[None]
        hidden = seen > token
        if window is not None:
            hidden |= seen <= token - window
        return torch.zeros(hidden.shape).masked_fill_(hidden, float("-inf"))
