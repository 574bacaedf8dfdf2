"""What proposes tokens, as the runner sees it: one for the model, and one for each sequence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor

from engine.cache.aside import Aside


class Proposer(Aside, Protocol):
    """Proposes how one sequence goes on. It lies beside the sequence's cache and follows its length."""

    def note(self, states: Sequence[Tensor]) -> None:
        """Take in the next tokens: their (n, width) states after each of the drafter's layers."""

    def propose(self, token: int, count: int) -> list[int]:
        """Up to `count` tokens that may follow `token`, which itself follows all that was taken in."""

    def copy(self, length: int) -> Proposer:
        """A second one that has taken in the first `length` tokens."""


class Drafter(Protocol):
    """Goes with a model: which of its layers' states it wants, and the `most` tokens of a proposal."""

    layers: tuple[int, ...]
    most: int

    def begin(self, at: int) -> Proposer:
        """A proposer for a sequence whose first `at` tokens it won't hear of."""
