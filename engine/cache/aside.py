"""What may lie beside a sequence's cache, and is rolled back, copied and kept with it."""

from __future__ import annotations

from typing import Protocol


class Aside(Protocol):
    """Something made of the same tokens. While the cache takes in more, it may lag behind."""

    @property
    def length(self) -> int:
        """Tokens that it knows."""

    @property
    def bytes(self) -> int:
        """Bytes held."""

    def truncate(self, length: int) -> None:
        """Forget the tokens from `length` on."""

    def copy(self, length: int) -> Aside:
        """A second one that knows the first `length` tokens."""
