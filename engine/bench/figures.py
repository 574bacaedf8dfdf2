"""Many measurements of one thing in a few numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True, slots=True)
class Spread:
    """What the rounds found, and its middle and ends."""

    median: float
    low: float
    high: float
    rounds: tuple[float, ...]

    @classmethod
    def of(cls, rounds: Sequence[float]) -> Spread:
        """At least one."""
        return cls(median(rounds), min(rounds), max(rounds), tuple(rounds))


def ratios(ours: Spread, theirs: Spread) -> Spread:
    """Ours in units of theirs, round by round: what slows both down for a while cancels out."""
    return Spread.of([a / b for a, b in zip(ours.rounds, theirs.rounds, strict=True)])
