"""What is measured, the same for every engine; each returns seconds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from types import MappingProxyType
from typing import Any, Protocol

from engine.api import BadRequest

SHORTEST = 64  # tokens of a context
WARM = 4  # tokens decoded before the clock starts: whoever ran before has filled the caches
WIDTHS = (1, 2, 3, 4, 8, 16)  # tokens of one step
REPEATS = 5  # of each width in a round, in turns


class Stepper(Protocol):
    """An engine with one sequence, as the measures drive it."""

    def take(self, ids: Sequence[int], *, every: bool = False) -> int:
        """Take tokens in; the likeliest token after the last. `every`: all of them are rated, not only it."""

    def cut(self, length: int) -> int:
        """Forget the tokens from there on; how many are left, which may be fewer."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The tokens, and how many of them are what; cut to the model's context."""

    tokens: tuple[int, ...]
    start: int  # tokens before those that are decoded
    decoded: int
    prefilled: int
    far: int | None  # the same as `start`, a long way on; None: the model's context is too short

    @classmethod
    def fitting(cls, tokens: Sequence[int], context: int) -> Plan:
        """The usual numbers, or what fits a small context; `tokens` are repeated if they are too few."""
        if context < SHORTEST:
            raise BadRequest(f"A context of {context} tokens is too short to measure; it takes {SHORTEST}.")
        decoded = min(64, context // 4)
        room = context - decoded - WARM - max(WIDTHS)
        start, far = min(128, room), 4_096 if room >= 4_096 else None
        prefilled = min(512, room)
        longest = max(far or 0, prefilled) + max(WIDTHS)
        enough = tuple(tokens) * -(-longest // len(tokens))
        return cls(enough[:longest], start, decoded, prefilled, far)

    @property
    def context(self) -> int:
        """Tokens that the longest measure has in mind at once."""
        return max(self.far or 0, self.start, self.prefilled) + WARM + self.decoded + max(WIDTHS)


class Rater(Protocol):
    """An engine with one sequence, all of whose tokens are rated."""

    def rate(self, ids: Sequence[int]) -> Any:
        """(n, vocabulary) logits after each of the tokens, which follow those before."""


@dataclass(frozen=True, slots=True)
class Steppers:
    """Two sequences of one model: the second keeps its long beginning from round to round."""

    near: Stepper
    far: Stepper


@dataclass(frozen=True, slots=True)
class Opened:
    """A model in an engine."""

    steppers: Steppers
    begin: Callable[[int], Rater]  # a sequence of so many tokens
    seconds: float  # that opening it took, without the imports
    version: str
    features: str  # of the processor, those that the engine uses, if it says so
    bytes_per_token: int = 0  # of weights that are read for one; 0: it doesn't say


def decode(steppers: Steppers, plan: Plan) -> list[float]:
    """Seconds of one token, near the beginning."""
    return [_decode(steppers.near, plan.tokens[: plan.start], plan.decoded)]


def decode_far(steppers: Steppers, plan: Plan) -> list[float]:
    """Seconds of one token, after many."""
    return [_decode(steppers.far, plan.tokens[: plan.far], plan.decoded)]


def prefill(steppers: Steppers, plan: Plan) -> list[float]:
    """Seconds of one token of a prompt."""
    _settle(steppers.near, ())
    started = perf_counter()
    steppers.near.take(plan.tokens[: plan.prefilled])
    return [(perf_counter() - started) / plan.prefilled]


def widths(steppers: Steppers, plan: Plan) -> list[float]:
    """Seconds of a step that takes in so many tokens and rates all of them, for each of `WIDTHS`."""
    before, times = plan.tokens[: plan.start], [list[float]() for _ in WIDTHS]
    for _ in range(REPEATS):
        for width, seconds in zip(WIDTHS, times, strict=True):
            _settle(steppers.near, before)
            step = plan.tokens[plan.start : plan.start + width]
            started = perf_counter()
            steppers.near.take(step, every=width > 1)
            seconds.append(perf_counter() - started)
    return [median(seconds) for seconds in times]


MEASURES: Mapping[str, Callable[[Steppers, Plan], list[float]]] = MappingProxyType(
    {"decode": decode, "prefill": prefill, "decode_far": decode_far, "widths": widths}
)


def first(steppers: Steppers, plan: Plan) -> None:
    """One token: from then on all is in memory that will be."""
    steppers.near.take(plan.tokens[:1])


def chosen(plan: Plan) -> list[str]:
    """The measures that the plan has room for."""
    return [name for name in MEASURES if name != "decode_far" or plan.far is not None]


def _decode(stepper: Stepper, before: Sequence[int], count: int) -> float:
    _settle(stepper, before[:-1])
    token = stepper.take(before[-1:])
    for _ in range(WARM):
        token = stepper.take([token])
    started = perf_counter()
    for _ in range(count):
        token = stepper.take([token])
    return (perf_counter() - started) / count


def _settle(stepper: Stepper, tokens: Sequence[int]) -> None:
    """Have exactly these tokens taken in; they are the beginning of what was."""
    kept = stepper.cut(len(tokens))
    if kept < len(tokens):
        stepper.take(tokens[kept:])
