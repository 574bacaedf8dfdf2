"""How many tokens are proposed: on machines and texts that are made up, by a clock that is."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from engine.draft.adapt import FIRST, LONGEST_PARKED, PARKED, TRIES, Acceptance, Costs, Pace

MOST = 15
Cost = Callable[[int], float]  # seconds of a step, by how many tokens it proposes
Rate = Callable[[int], float]  # chance that a token is proposed rightly, by its place in the text

MACHINES: dict[str, Cost] = {
    "more cost nothing": lambda count: 1 + (0.15 + 0.01 * count) * (count > 0),
    "each costs as much": lambda count: 1 + (0.3 + 0.25 * count) * (count > 0),
    "more than four cost": lambda count: 1 + (0.2 + 0.05 * count + 0.3 * max(0, count - 4)) * (count > 0),
    "never worth it": lambda count: 1 + (0.5 + 1.2 * count) * (count > 0),
}


@dataclass
class Machine:
    """Makes steps that take what they cost, and some noise."""

    cost: Cost
    costs: Costs = field(default_factory=Costs)
    now: float = 0.0
    chance: random.Random = field(default_factory=lambda: random.Random(0))
    noise: float = 0.1

    def pace(self) -> Pace:
        return Pace(self.costs, MOST, lambda: self.now)

    def step(self, pace: Pace, rate: Rate, at: int, limit: int = MOST) -> tuple[int, int]:
        """Proposed and accepted."""
        count = pace.count(limit)
        accepted = 0
        while accepted < count and self.chance.random() < rate(at + accepted):
            accepted += 1
        self.now += self.cost(count) * (1 + self.noise * self.chance.random())
        pace.record(count, accepted)
        return count, accepted

    def write(self, pace: Pace, rate: Rate, tokens: int, start: int = 0) -> list[int]:
        """How many were proposed in each step."""
        at, counts = start, []
        while at < start + tokens:
            count, accepted = self.step(pace, rate, at)
            counts.append(count)
            at += accepted + 1
        return counts


def seconds_at_best(cost: Cost, rate: float) -> tuple[float, int]:
    """Seconds a token by always proposing the best number, and that number."""
    gains = [sum(rate**power for power in range(count + 1)) for count in range(MOST + 1)]
    found = [(1.05 * cost(count) / gain, count) for count, gain in enumerate(gains)]
    return min(found)


@pytest.mark.parametrize("rate", [0.0, 0.2, 0.5, 0.7, 0.85, 0.95, 1.0])
@pytest.mark.parametrize("name", MACHINES)
def test_it_is_nearly_as_quick_as_the_best_fixed_number(name: str, rate: float) -> None:
    machine = Machine(MACHINES[name])
    machine.write(machine.pace(), lambda at: rate, 3_000)
    best, _ = seconds_at_best(machine.cost, rate)
    plain, _ = seconds_at_best(machine.cost, 0)
    spent = machine.now / 3_000
    print(f"\n{name}, {rate:.0%}: {spent / best:.3f} of the best, {spent / plain:.3f} of none")
    assert spent < 1.15 * best
    assert spent < 1.05 * plain


def test_few_are_proposed_where_more_cost_and_all_where_they_don_t() -> None:
    steep, flat = Machine(MACHINES["more than four cost"]), Machine(MACHINES["more cost nothing"])
    some = steep.write(steep.pace(), lambda at: 0.8, 1_000)
    assert 3 <= sorted(some)[len(some) // 2] <= 5
    many = flat.write(flat.pace(), lambda at: 0.97, 1_000)
    assert sorted(many)[len(many) // 2] == MOST


def test_a_bad_drafter_is_parked_ever_longer_and_tried_again() -> None:
    machine = Machine(MACHINES["each costs as much"])
    counts = machine.write(machine.pace(), lambda at: 0.0, 3_000)
    rests, run = [], 0
    for count in counts[10:]:
        if count:
            rests += [run] if run else []
            run = 0
        else:
            run += 1
    assert rests[0] >= PARKED
    assert max(rests) == pytest.approx(LONGEST_PARKED, abs=1)
    assert rests == sorted(rests)
    assert sum(map(bool, counts)) / len(counts) < 0.03


def test_it_comes_back_when_the_text_changes() -> None:
    machine = Machine(MACHINES["more cost nothing"])
    pace = machine.pace()
    assert sum(machine.write(pace, lambda at: 0.02, 600)[-100:]) < 100
    machine.write(pace, lambda at: 0.95, 800)
    late = machine.write(pace, lambda at: 0.95, 400)
    assert sum(late) / len(late) > 8
    machine.write(pace, lambda at: 0.02, 100)
    assert sum(map(bool, machine.write(pace, lambda at: 0.02, 200))) < 60


def test_it_follows_a_machine_that_becomes_slow_at_many_rows() -> None:
    machine = Machine(MACHINES["more cost nothing"])
    pace = machine.pace()
    machine.write(pace, lambda at: 0.8, 500)
    machine.cost = MACHINES["more than four cost"]
    machine.write(pace, lambda at: 0.8, 300)
    counts = machine.write(pace, lambda at: 0.8, 500)
    assert sum(counts) / len(counts) < 6


def test_the_next_sequence_knows_what_steps_cost() -> None:
    machine = Machine(MACHINES["never worth it"])
    assert machine.write(machine.pace(), lambda at: 0.7, 200)[0] == 0
    counts = machine.write(machine.pace(), lambda at: 0.7, 200)
    assert counts[:TRIES] == [FIRST] * TRIES
    assert sum(counts[TRIES:]) <= 2 * TRIES * FIRST


def test_never_more_than_there_is_room_for() -> None:
    machine = Machine(MACHINES["more cost nothing"])
    pace = machine.pace()
    machine.write(pace, lambda at: 1.0, 400)
    assert machine.step(pace, lambda at: 1.0, 0)[0] == MOST
    assert machine.step(pace, lambda at: 1.0, 0, limit=3)[0] == 3
    assert machine.step(pace, lambda at: 1.0, 0, limit=0)[0] == 0
    assert machine.step(pace, lambda at: 1.0, 0, limit=-1)[0] == 0


def test_costs_are_read_off_the_line_between_what_was_measured() -> None:
    costs = Costs()
    for proposed, seconds in ((0, 9.0), (0, 1.0), (4, 9.0), (4, 3.0), (10, 9.0), (10, 6.0)):
        costs.record(proposed, seconds)  # the first of each kind is not counted
    assert [costs.estimate(count) for count in (0, 2, 4, 7, 10)] == pytest.approx([1, 2, 3, 4.5, 6])
    assert costs.estimate(14) == pytest.approx(8)
    costs.record(4, 1_000.0)
    assert costs.estimate(4) < 4


def test_gains_are_those_of_what_was_seen() -> None:
    acceptance = Acceptance(4)
    assert acceptance.gains()[0] == 1
    for _ in range(400):
        acceptance.record(2, 1)
    assert acceptance.gains()[:3] == pytest.approx([1, 2, 2], abs=0.15)
    for _ in range(400):
        acceptance.record(4, 4)
    assert acceptance.gains() == pytest.approx([1, 2, 3, 4, 5], abs=0.1)
