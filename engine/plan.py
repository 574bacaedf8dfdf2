"""Whether a model fits: bytes by part, the longest context, and what to give up when it doesn't."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from engine import kernels
from engine.api import BadRequest
from engine.planning.footprint import Kind
from engine.planning.parts import RESERVE, TURNS, Choices, Inventory, Machine, Part, Place
from engine.planning.subject import Subject, read

STEP = 256  # contexts are offered in multiples of this
SHORTEST = 8_192  # tokens: before the context becomes shorter than this, other things are given up
Offer = tuple[Choices, str]  # less, and what that means for the person


@dataclass(frozen=True, slots=True)
class Step:
    """Something given up: what, and the bytes that it frees."""

    words: str
    frees: int


@dataclass(frozen=True, slots=True)
class Layout:
    """Everything in its place. `greatest_context`: the longest that fits with all else as it is; 0: none."""

    choices: Choices
    parts: tuple[Part, ...]
    needed: int  # bytes of what is scarce: the card's memory if there is one
    fits: bool
    greatest_context: int


@dataclass(frozen=True, slots=True)
class Plan:
    """A model on a machine: as it was asked for, and as it fits after some steps, if it does."""

    model: str
    place: Place  # which memory is scarce
    budget: int  # bytes of it
    asked: Layout
    steps: tuple[Step, ...]
    settled: Layout
    loading: int  # bytes of main memory while the model is loaded, a tensor of its file among them
    tensors: tuple[Part, ...] = field(repr=False)  # the text model's, one by one

    def as_dict(self) -> dict[str, Any]:
        """The plan as JSON can hold it."""
        return asdict(self)


def plan_memory(
    model: Path,
    *,
    budget: int,
    place: Place = "card",
    context: int | None = None,
    mmproj: Path | None = None,
    drafter: Path | None = None,
    kv: Kind | None = None,
    reserve: int | None = None,
    quant: str | None = None,
    turns: int = TURNS,
    packs: bool | None = None,
) -> Plan:
    """Plan a GGUF file or a `config.json` for a graphics card or, `place` "memory", for the processor alone.

    `budget`: bytes of that memory. `context`: tokens; None: all that the model was trained for. `quant`: how
    a model that is only a `config.json` would be stored. `packs`: see `engine.loaded.load`.
    """
    subject = read(model, mmproj, drafter, quant)
    longest = subject.config.context_length
    if context is not None and not 2 <= context <= longest:
        raise BadRequest(f"A context of {context:,} tokens doesn't fit; the model takes 2 to {longest:,}.")
    machine = Machine(place, budget, RESERVE[place] if reserve is None else reserve)
    if place == "memory":
        machine = replace(machine, packs=kernels.chosen(packs))
    wish = Choices(context or longest, kv or Inventory(subject, machine).usual_kv, turns=turns)
    return make_plan(subject, machine, wish)


def make_plan(subject: Subject, machine: Machine, wish: Choices) -> Plan:
    """The plan for a wish. Pure."""
    stock = Inventory(subject, machine)
    choices = wish = replace(wish, drafter=wish.drafter and subject.drafter is not None)
    steps = []
    for give_up in GIVE_UPS:
        if stock.fits(choices):
            break
        if (offer := give_up(stock, choices)) is not None:
            less, words = offer
            steps.append(Step(words, stock.needed(choices) - stock.needed(less)))
            choices = less
    return Plan(
        model=subject.name,
        place=machine.place,
        budget=machine.budget,
        asked=_layout(stock, wish),
        steps=tuple(steps),
        settled=_layout(stock, choices),
        loading=stock.loading(choices),
        tensors=tuple(stock.tensors(choices)),
    )


def greatest_context(stock: Inventory, choices: Choices) -> int:
    """The longest context that fits with all else as it is; 0: none."""
    longest = stock.subject.config.context_length
    low, high = 0, -(-longest // STEP)
    while low < high:  # the greatest number of steps that fits
        middle = (low + high + 1) // 2
        if stock.fits(replace(choices, context=min(middle * STEP, longest))):
            low = middle
        else:
            high = middle - 1
    return min(low * STEP, longest)


def _layout(stock: Inventory, choices: Choices) -> Layout:
    return Layout(
        choices=choices,
        parts=tuple(part for part in stock.parts(choices) if part.bytes),
        needed=stock.needed(choices),
        fits=stock.fits(choices),
        greatest_context=greatest_context(stock, choices),
    )


def _stream_vision(stock: Inventory, choices: Choices) -> Offer | None:
    if stock.subject.vision is None or choices.vision == "streamed" or stock.place != "card":
        return None
    words = "Keep the vision part in main memory and bring it over for each picture, which takes longer then."
    return replace(choices, vision="streamed"), words


def _halve_cache(stock: Inventory, choices: Choices) -> Offer | None:
    if choices.kv == "q8":
        return None
    was = {"f16": "16", "bf16": "16", "f32": "32"}[choices.kv]
    words = f"Hold keys and values in 8 bits instead of {was}, which makes answers a little less exact."
    return replace(choices, kv="q8"), words


def _shorten(stock: Inventory, choices: Choices) -> Offer | None:
    context = max(greatest_context(stock, choices), min(SHORTEST, choices.context))
    if context >= choices.context:
        return None
    words = f"See {context:,} tokens of the conversation at once instead of {choices.context:,}."
    return replace(choices, context=context), words


def _drop_drafter(stock: Inventory, choices: Choices) -> Offer | None:
    if not choices.drafter:
        return None
    return replace(choices, drafter=False), "Do without the drafter, so that answers come more slowly."


def _move_layers(stock: Inventory, choices: Choices) -> Offer | None:
    """As few layers as are enough; all of them if none is."""
    if stock.place != "card":
        return None
    count = stock.subject.config.layers
    options = (replace(choices, moved_layers=moved) for moved in range(1, count + 1))
    less = next(filter(stock.fits, options), replace(choices, moved_layers=count))
    words = f"Run {less.moved_layers} of {count} layers on the processor; answers come much more slowly then."
    return less, words


# In order: what is missed least comes first.
GIVE_UPS: tuple[Callable[[Inventory, Choices], Offer | None], ...] = (
    _stream_vision,
    _halve_cache,
    _shorten,
    _drop_drafter,
    _move_layers,
)
