"""The latest finished sequences, kept so that a request that continues one computes only what is new."""

from __future__ import annotations

from collections.abc import Sequence as Run
from dataclasses import dataclass

from engine.cache.kv import Kv


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """Tokens, and their keys and values: as many positions as there are tokens."""

    tokens: tuple[int, ...]
    kv: Kv


class Prefixes:
    """Sequences by age, within a bound of bytes. Not safe for threads: the engine thread's alone."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._kept: list[Kept] = []  # oldest first

    @property
    def bytes(self) -> int:
        """Bytes of all that is kept."""
        return sum(kept.kv.bytes for kept in self._kept)

    def keep(self, tokens: Run[int], kv: Kv) -> None:
        """Keep a sequence that has ended; the oldest make way, and one larger than the bound isn't kept."""
        if not kv.length:
            return
        self._kept.append(Kept(tuple(tokens[: kv.length]), kv))
        while self._kept and self.bytes > self.max_bytes:
            self._kept.pop(0)

    def take(self, tokens: Run[int]) -> Kv | None:
        """The longest kept beginning of `tokens`, for the caller to own; never all of them.

        The last token is always left to compute, since its logits are wanted. A beginning may have to end
        sooner, at a mark: see `Kv.reach`. A kept sequence is handed over when most of it serves, else
        copied: a short side request must not cost the conversation its cache.
        """
        best, length = None, 0
        wanted = tuple(tokens[:-1])
        for kept in reversed(self._kept):
            if (common := kept.kv.reach(shared(kept.tokens, wanted))) > length:
                best, length = kept, common
        if best is None:
            return None
        if 2 * length < best.kv.length:
            return best.kv.copy(length)
        self._kept.remove(best)
        best.kv.truncate(length)
        return best.kv

    def clear(self) -> None:
        """Forget all of it."""
        self._kept.clear()


def shared(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    """How many leading tokens two runs have in common."""
    most = min(len(one), len(other))
    low = 0
    while low < most:  # compare by slices, in C: bisect on the longest equal beginning
        half = (low + most + 1) // 2
        if one[low:half] == other[low:half]:
            low = half
        else:
            most = half - 1
    return low
