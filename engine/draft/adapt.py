"""How many tokens to propose in a step: as many as give the most tokens a second, by what was measured.

What a step costs depends on the machine, what is accepted on the text; neither is known beforehand.
While nothing is gained the drafter is parked; from time to time it is tried again.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

FIRST = 4  # tokens proposed while nothing is known
NEWEST = 0.2  # weight of a step's time among those before it
HICCUP = 2.0  # times the usual: a step that took longer was disturbed, and counts as this much
MEMORY = 0.93  # of earlier steps' acceptances, with each step: some fourteen steps count
BELIEF = 1.0  # steps that an estimate from the neighbour before is worth
HOPE = 0.8  # share of first proposals accepted, before any was made
GAIN = 1.05  # times as quick as without proposals, or it isn't worth its while
PARKED, LONGEST_PARKED = 32, 256  # steps
TRIES = 3  # steps, when it is tried again
SPARED = 30  # times as long as a trial wastes at most it is parked: trials cost a thirtieth
REFRESH = 64  # steps with proposals, after which one without is measured again
RUNGS = (3, 7, 15)  # proposed tokens: what more of them cost is found out in these steps
QUICK = 0.7  # of earlier acceptances, with each step, where text turns from one token to the next
LIKELY = 0.5  # chance that all of a proposal are accepted, for more to be tried
AGAIN = 48  # steps, after which more are tried again, though they were not worth it


class Costs:
    """Seconds that steps take on this machine, by how many tokens they propose."""

    def __init__(self) -> None:
        self._seconds: dict[int, float] = {}
        self._seen: set[int] = set()

    def record(self, proposed: int, seconds: float) -> None:
        """A step was measured."""
        if proposed not in self._seen:  # memory is got, code is loaded: the first of a kind is no measure
            self._seen.add(proposed)
            return
        known = self._seconds.get(proposed)
        if known is None:
            self._seconds[proposed] = seconds
        else:
            self._seconds[proposed] = known + NEWEST * (min(seconds, HICCUP * known) - known)

    @property
    def plain(self) -> bool:
        """Whether steps without a proposal were measured."""
        return 0 in self._seconds

    @property
    def proposing(self) -> bool:
        """Whether steps with one were."""
        return any(proposed > 0 for proposed in self._seconds)

    def knows(self, proposed: int) -> bool:
        """Whether steps with so many were measured."""
        return proposed in self._seconds

    def estimate(self, proposed: int) -> float:
        """Seconds of such a step: as measured, or on the line through its measured neighbours."""
        points = sorted(self._seconds.items())
        below = [point for point in points if point[0] <= proposed]
        above = [point for point in points if point[0] >= proposed]
        if not above:  # beyond the last: on the line from the first
            below = [points[0], points[-1]]
            (low, least), (high, most) = below
            return most + max(0.0, most - least) / max(1, high - low) * (proposed - high)
        (low, least), (high, most) = below[-1] if below else above[0], above[0]
        return least + (most - least) * (proposed - low) / max(1, high - low)


class Acceptance:
    """How likely the first, second, third... proposed token is accepted, if those before it were."""

    def __init__(self, most: int, memory: float = MEMORY) -> None:
        self._tried, self._taken = [0.0] * most, [0.0] * most
        self._memory = memory

    def record(self, proposed: int, accepted: int) -> None:
        """A step's outcome: the token after the last accepted one was refused, and those behind it unseen."""
        self.fade(self._memory)
        for at in range(min(accepted + 1, proposed)):
            self._tried[at] += 1
            self._taken[at] += at < accepted

    def fade(self, share: float) -> None:
        """Let only a share of what was seen count."""
        self._tried = [share * tried for tried in self._tried]
        self._taken = [share * taken for taken in self._taken]

    def gains(self) -> list[float]:
        """Tokens that a step is expected to give, by how many it proposes: from none to all."""
        gains, rate, reached = [1.0], HOPE, 1.0
        for tried, taken in zip(self._tried, self._taken, strict=True):
            rate = (taken + BELIEF * rate) / (
                tried + BELIEF
            )  # a later one is hardly likelier than one before
            reached *= rate
            gains.append(gains[-1] + reached)
        return gains


class Pace:
    """One sequence's choice. `count` begins a step and its measurement, `record` ends it."""

    def __init__(self, costs: Costs, most: int, clock: Callable[[], float] = perf_counter) -> None:
        self._costs, self._most, self._clock = costs, most, clock
        self._acceptance = Acceptance(most)
        self._parked, self._next_parked = 0, PARKED  # steps left, and how many it will be next time
        self._trying = TRIES
        self._since_plain = 0
        self._started = 0.0

    def count(self, limit: int) -> int:
        """How many tokens to propose now, at most `limit`."""
        self._started = self._clock()
        return max(0, min(self._choose(), limit, self._most))

    def record(self, proposed: int, accepted: int) -> None:
        """The step is over."""
        self._costs.record(proposed, self._clock() - self._started)
        if proposed:
            self._acceptance.record(proposed, accepted)
            self._trying -= self._trying > 0
            self._since_plain += 1
        else:
            self._parked -= self._parked > 0
            self._since_plain = 0

    @property
    def speed(self) -> float:
        """Tokens a second that proposals are expected to give; 0 while that isn't known, or none are made."""
        if self._parked or self._trying or not (self._costs.plain and self._costs.proposing):
            return 0.0
        return max(self._speeds())

    def _choose(self) -> int:
        if not self._costs.plain or self._parked:
            return 0
        if self._trying or not self._costs.proposing:
            return FIRST
        if self._since_plain >= REFRESH:
            return 0
        best = self._best()
        if best == 0:
            self._park()
        elif self._since_plain >= PARKED:
            self._next_parked = PARKED  # it has paid for a while
        return best

    def _best(self) -> int:
        """What gives the most tokens a second; none unless clearly better than that."""
        speeds = self._speeds()
        best = max(range(len(speeds)), key=speeds.__getitem__)
        return best if speeds[best] > GAIN * speeds[0] else 0

    def _speeds(self) -> list[float]:
        return [gain / self._costs.estimate(count) for count, gain in enumerate(self._acceptance.gains())]

    def _park(self) -> None:
        plain, proposing = self._costs.estimate(0), self._costs.estimate(FIRST)
        wasted = TRIES * max(0.0, proposing / plain - 1)  # steps without a proposal in the same time
        self._parked = max(self._next_parked, int(SPARED * wasted))
        self._next_parked = min(LONGEST_PARKED, 2 * self._next_parked)
        self._trying = TRIES
        self._acceptance.fade(0.3)  # the text may be another by then


class Ramp:
    """One sequence's choice among proposals that cost nothing to make, so that none is ever parked.

    Whether they are right is seen even of those that weren't checked: by what was said instead.
    """

    def __init__(self, costs: Costs, most: int) -> None:
        self._costs, self._most = costs, most
        self._acceptance = Acceptance(most, QUICK)
        self._waited = 0  # steps since more were tried than was best

    def count(self, limit: int, rival: float = 0.0) -> int:
        """How many to propose, at most `limit`; none unless quicker than `rival`, in tokens a second."""
        if not self._costs.plain:
            return 0
        gains = self._acceptance.gains()
        return max(0, min(self._choose(gains, rival), limit))

    def record(self, proposed: int, accepted: int) -> None:
        """So many were proposed, or would have been, and so many were right."""
        self._acceptance.record(proposed, accepted)

    def _choose(self, gains: list[float], rival: float) -> int:
        known = max((rung for rung in RUNGS if self._costs.knows(rung)), default=0)
        speeds = [gains[count] / self._costs.estimate(count) for count in range(known + 1)]
        best = max(range(len(speeds)), key=speeds.__getitem__)
        if speeds[best] <= GAIN * max(speeds[0], rival):
            best = 0
        more = next((rung for rung in RUNGS if best < rung <= self._most), None)
        self._waited += 1
        if more is None or gains[more] - gains[more - 1] < LIKELY:
            return best
        if not self._costs.knows(more) or self._waited >= AGAIN:
            self._waited = 0
            return more
        return best
