"""What fits: a conversation cut to the context, oldest turns first, and counted by part."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

from app.agent.prompt import CLOSE, OPEN, Turn
from app.backends import Backend
from app.errors import UserError
from app.events import ContextUse
from engine import Message, Request, Sampling, ToolSpec

PER_MESSAGE = 8  # tokens a template puts around a message, about
STEPS = 4  # turns are left out a quarter of the room at a time, so that what stays is cached for some turns
LETTERS = 32  # in a token at the most, about: longer text is cut before it is counted
SHARE = (
    4  # one part in so many of the context is the most one tool's result may take, and the least a reply has
)


class TooLong(UserError):
    """A question that does not fit, even alone."""

    def __init__(self, needed: int, room: int) -> None:
        super().__init__(
            f"This is too long to send: it needs {needed:,} tokens, and there is room for {room:,}."
        )


@dataclass(frozen=True, slots=True)
class Given:
    """What a request is made from, before anything is cut."""

    system: str
    turns: Sequence[Turn]
    tools: tuple[ToolSpec, ...] = ()
    sampling: Sampling = field(default_factory=Sampling)
    reply: int = 1_024  # the longest answer


@dataclass(frozen=True, slots=True)
class Fitted:
    """A request that fits, and how it uses the context."""

    request: Request
    use: ContextUse


def reserved(reply: int, limit: int) -> int:
    """Tokens kept free for the answer."""
    return max(1, min(reply, limit // SHARE))


async def fit(backend: Backend, given: Given, limit: int) -> Fitted:
    """Leave out the oldest turns until the request fits; UserError when the newest alone does not."""
    room = limit - reserved(given.reply, limit)
    first = first_kept(await costs(backend, given), room)
    while True:
        request = build(given, first)
        needed = await backend.measure(request)
        if needed <= room:
            break
        if first == len(given.turns) - 1:
            raise TooLong(needed, room)
        first += 1
    request = replace(request, max_tokens=min(given.reply, limit - needed))
    return Fitted(request, await use_of(backend, given, first, request, needed, limit))


def build(given: Given, first: int) -> Request:
    """The request from turn number `first` on."""
    system = (Message("system", given.system),) if given.system else ()
    messages = tuple(message for turn in given.turns[first:] for message in turn)
    return Request(messages=system + messages, tools=given.tools, sampling=given.sampling)


async def costs(backend: Backend, given: Given) -> list[int]:
    """About how many tokens each turn takes, after what is always there."""
    fixed = [given.system, *(_schema(tool) for tool in given.tools)]
    texts = ["\n".join(_written(message) for message in turn) for turn in given.turns]
    counts = await backend.count([*fixed, *texts])
    turns = zip(counts[len(fixed) :], given.turns, strict=True)
    return [sum(counts[: len(fixed)]), *(count + PER_MESSAGE * len(turn) for count, turn in turns)]


def first_kept(costs: Sequence[int], room: int) -> int:
    """The first turn that stays. It moves in steps, not with every turn."""
    fixed, *turns = costs
    left = max(1, room - fixed)
    total = sum(turns)
    if total <= left:
        return 0
    step = max(1, left // STEPS)
    needed = -(-(total - left) // step) * step  # what must go, rounded up to whole steps
    for index, gone in enumerate(accumulate(turns)):
        if gone >= needed:
            return min(index + 1, len(turns) - 1)
    return len(turns) - 1


async def use_of(
    backend: Backend, given: Given, first: int, request: Request, needed: int, limit: int
) -> ContextUse:
    """The prompt's tokens by part."""
    read = [piece for turn in given.turns[first:] for message in turn for piece in _read(message)]
    system, *screens = await backend.count([given.system, *read])
    tools = needed - await backend.measure(replace(request, tools=())) if given.tools else 0
    screen = min(sum(screens), needed)
    return ContextUse(
        system=system,
        tools=max(0, tools),
        history=max(0, needed - system - max(0, tools) - screen),
        screen=screen,
        reply=request.max_tokens or 0,
        limit=limit,
        left_out=sum(len(turn) for turn in given.turns[:first]),
    )


async def cut(backend: Backend, text: str, most: int) -> str:
    """The beginning of `text`, at most `most` tokens of it."""
    kept = text[: most * LETTERS]
    while kept and (count := (await backend.count([kept]))[0]) > most:
        kept = kept[: min(int(len(kept) * most / count), len(kept) - 1)]
    return kept


def _schema(tool: ToolSpec) -> str:
    return f"{tool.name} {tool.description} {json.dumps(dict(tool.parameters))}"


def _written(message: Message) -> str:
    calls = "".join(f"{call.name}{json.dumps(dict(call.arguments))}" for call in message.calls)
    return message.reasoning + message.text + calls


def _read(message: Message) -> list[str]:
    """The parts of a question that were read from a screen."""
    if message.role != "user":
        return []
    return [piece.split(CLOSE)[0] for piece in message.text.split(OPEN)[1:]]
