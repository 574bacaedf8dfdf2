"""What the context proposes: found where it stood last, as many as pay, and nothing where it doesn't pay."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from time import perf_counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.draft.adapt import AGAIN, Costs, Pace, Ramp
from engine.draft.lookup import MOST, RUN, Index, Lookup


def oracle(tokens: list[int], count: int) -> list[int]:
    """The same, by looking at every position."""
    run, end = tokens[-RUN:], len(tokens)
    if end < RUN:
        return []
    for at in range(end - 1, RUN - 1, -1):
        if tokens[at - RUN : at] == run:
            out = list(tokens)
            for place in range(count):
                out.append(out[at + place])
            return out[end:]
    return []


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.integers(0, 1), max_size=120),
    st.lists(st.integers(1, 9), min_size=1, max_size=40),
    st.integers(1, MOST),
)
def test_what_followed_last_is_found_however_tokens_come(
    tokens: list[int], pieces: list[int], count: int
) -> None:
    index, end = Index(), 0
    while end < len(tokens):
        end = min(len(tokens), end + pieces[end % len(pieces)])
        index.follow(tokens[:end])
        assert index.following(count) == oracle(tokens[:end], count)


def test_copies_with_changes_are_found_as_by_looking_everywhere() -> None:
    chance = random.Random(0)
    tokens = chance.choices(range(50_000), k=60)
    index, found = Index(), 0
    for _ in range(60):
        start = chance.randrange(len(tokens) - 20)
        tokens += tokens[start : start + chance.randint(1, 30)]
        tokens += chance.choices(range(50_000), k=chance.randint(0, 2))
        index.follow(tokens)
        assert index.following(MOST) == oracle(tokens, MOST)
        found += bool(index.following(1))
    assert found > 10


def test_a_loop_goes_on_as_it_went() -> None:
    index = Index()
    index.follow([7] * 9)
    assert index.following(5) == [7] * 5
    index.follow([7] * 9 + [1, 2, 3] * 4)
    assert index.following(7) == [1, 2, 3, 1, 2, 3, 1]


def test_a_long_prompt_is_taken_in_at_once() -> None:
    tokens, seconds = random.Random(1).choices(range(50_000), k=100_000), []
    for _ in range(5):
        index, started = Index(), perf_counter()
        index.follow(tokens)
        seconds.append(perf_counter() - started)
    print(f"\n{1_000 * min(seconds):.0f} ms")
    assert min(seconds) < 0.2
    index.follow([*tokens, *tokens[5_000:5_008]])
    assert index.following(3) == tokens[5_008:5_011]


# ---------------------------------------------------------------------------------------------------------
# How many: on machines that are made up.

MACHINES = {
    "nearly free": [1 + 0.05 * count for count in range(MOST + 1)],
    "few are cheap": [1 + 0.1 * count + 0.8 * max(0, count - 7) for count in range(MOST + 1)],
    "all cost as much": [1.0 + count for count in range(MOST + 1)],
}


@dataclass
class Writer:
    """Says what `text` says, on a machine whose steps take as long as `seconds` has it."""

    seconds: list[float]
    costs: Costs = field(default_factory=Costs)
    now: float = 0.0

    def write(self, prompt: list[int], text: list[int], rival: Pace | None = None) -> list[int]:
        """How many were proposed in each step."""
        lookup, tokens, counts = Lookup(self.costs, lambda: self.now), list(prompt), []
        end = len(prompt) + len(text)
        text = [*prompt, *text, *[-1] * MOST]
        while len(tokens) < end:
            length = len(tokens)
            proposed = lookup.propose(tokens, min(MOST, end - length - 1), rival)
            counts.append(len(proposed))
            for guess in [*proposed, None]:
                tokens.append(text[len(tokens)])
                if guess != tokens[-1]:
                    break
            self.now += self.seconds[len(proposed)]
            lookup.learn(tokens[length:], is_plain=not proposed)
        return counts


def words(seed: int, count: int) -> list[int]:
    return random.Random(seed).choices(range(1_000), k=count)


@pytest.mark.parametrize("name", MACHINES)
def test_copying_is_as_quick_as_the_machine_allows(name: str) -> None:
    writer, document = Writer(MACHINES[name]), words(0, 1_500)
    counts = writer.write(document, document)
    best = min(seconds / (count + 1) for count, seconds in enumerate(MACHINES[name]))
    assert writer.now < 1.2 * best * len(document) + 60
    proposing = sorted(filter(None, counts))
    if name == "all cost as much":
        assert len(proposing) < 0.05 * len(counts)
    else:
        assert proposing[len(proposing) // 2] == (MOST if name == "nearly free" else 7)


def test_the_full_width_is_reached_within_a_few_steps() -> None:
    writer, document = Writer(MACHINES["nearly free"]), words(0, 1_500)
    counts = writer.write(document, document)
    proposing = [count for count in counts if count]
    assert proposing.index(MOST) <= 4
    again = [count for count in writer.write(document, document) if count]
    assert again.index(MOST) <= 2  # what steps cost is known by then
    assert sorted(again)[len(again) // 2] == MOST


def test_nothing_is_proposed_where_nothing_stood_before() -> None:
    writer = Writer(MACHINES["nearly free"])
    assert not any(writer.write(words(0, 1_000), words(1, 1_000)))


def test_what_always_goes_another_way_is_soon_let_be() -> None:
    """A phrase that comes again and again, and never goes on as before."""
    writer, chance = Writer(MACHINES["few are cheap"]), random.Random(3)
    phrase = words(2, RUN)
    text = [
        token for _ in range(100) for token in (*phrase, chance.randrange(1_000), chance.randrange(1_000))
    ]
    counts = writer.write(words(0, 100), text)
    assert 0 < sum(map(bool, counts)) < 10
    assert writer.now < 1.02 * len(text)


def test_it_comes_back_when_the_text_does() -> None:
    """What would have been right is seen without being checked."""
    writer, chance = Writer(MACHINES["few are cheap"]), random.Random(3)
    phrase, document = words(2, RUN), words(4, 400)
    noise = [token for _ in range(40) for token in (*phrase, chance.randrange(1_000))]
    counts = writer.write([*document, 0], [*noise, *document])
    assert sum(counts[-40:]) > 6 * 40


def test_a_drafter_that_is_quicker_goes_first() -> None:
    class Quick(Pace):
        speed = 1e9

    writer, document = Writer(MACHINES["nearly free"]), words(0, 300)
    writer.write(document, document)
    costs = writer.costs
    counts = Writer(writer.seconds, costs).write(document, document, Quick(Costs(), MOST))
    assert sum(map(bool, counts)) <= len(counts) / AGAIN


def test_more_are_tried_again_after_a_step_was_disturbed() -> None:
    costs = Costs()
    for proposed, seconds in ((0, 1.0), (3, 1.2), (7, 60.0), (15, 90.0)):
        costs.record(proposed, seconds)
        costs.record(proposed, seconds)
    ramp, counts = Ramp(costs, MOST), []
    for _ in range(20 * AGAIN):
        count = ramp.count(MOST)
        costs.record(count, 1 + 0.05 * count)
        ramp.record(count, count)
        counts.append(count)
    assert counts[0] == 3
    assert counts[-1] == MOST


def test_never_more_than_there_is_room_for() -> None:
    lookup, tokens = Lookup(Costs(), lambda: 0.0), [5] * 20
    for limit in (0, -1):
        assert lookup.propose(tokens, limit) == []
        lookup.learn([5], is_plain=True)
    costs = Costs()
    for count in (0, 0, 3, 3, 7, 7, 15, 15):
        costs.record(count, 1 + count / 100)
    lookup = Lookup(costs, lambda: 0.0)
    for limit in (4, 1, 0):
        assert len(lookup.propose(tokens, limit)) == limit
        lookup.learn([5] * 16, is_plain=False)
