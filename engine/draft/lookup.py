"""Proposals from the context itself: when the last tokens stood there before, what followed them then."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from itertools import takewhile
from time import perf_counter

from engine.cache.kv import ROLLBACK
from engine.draft.adapt import Costs, Pace, Ramp

RUN = 8  # tokens that have to stand there before
MOST = ROLLBACK - 1  # tokens of a proposal; local layers can't take back more
ITEM = array("i").itemsize


class Index:
    """A sequence's tokens, and where the latest of each run of `RUN` ends, but for the very last."""

    def __init__(self) -> None:
        self._ids = array("i")
        self._ends: dict[bytes, int] = {}

    def follow(self, tokens: Sequence[int]) -> None:
        """Take in what of a sequence is new since the last time."""
        known, ids = len(self._ids), self._ids
        ids.extend(tokens[known:])
        ends = range(max(known, RUN), len(ids))
        data = ids[ends.start - RUN :].tobytes()
        runs = (data[at : at + ITEM * RUN] for at in range(0, ITEM * len(ends), ITEM))
        self._ends.update(zip(runs, ends, strict=True))

    def following(self, count: int) -> list[int]:
        """`count` tokens that followed the last run before; a loop goes on as it went. None if it is new."""
        end = self._ends.get(self._ids[-RUN:].tobytes())
        if end is None:
            return []
        found = self._ids[end : end + count].tolist()
        while len(found) < count:
            found += found[: count - len(found)]
        return found


class Lookup:
    """One sequence's proposals. `propose` begins a step and its measurement, `learn` ends it."""

    def __init__(self, costs: Costs, clock: Callable[[], float] = perf_counter) -> None:
        self._costs, self._clock = costs, clock
        self._index, self._ramp = Index(), Ramp(costs, MOST)
        self._found: list[int] = []
        self._count, self._started = 0, 0.0

    def propose(self, tokens: Sequence[int], limit: int, rival: Pace | None = None) -> list[int]:
        """Up to `limit` tokens that may follow; none unless they promise more than a drafter's."""
        self._index.follow(tokens)  # of a long prompt, once, it takes longer than a step
        self._started = self._clock()
        self._found = self._index.following(MOST) if limit > 0 else []
        self._count = 0
        if self._found:
            self._count = self._ramp.count(limit, 0.0 if rival is None else rival.speed)
        return self._found[: self._count]

    def learn(self, said: Sequence[int], *, is_plain: bool) -> None:
        """What was said in the step, whoever proposed it; `is_plain`: nobody proposed anything."""
        if self._count or is_plain:
            self._costs.record(self._count, self._clock() - self._started)
        if self._found:
            tried = self._count or min(len(said), MOST)
            pairs = zip(said, self._found[:tried], strict=False)
            self._ramp.record(tried, sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs)))
