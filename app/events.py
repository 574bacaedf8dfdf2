"""Everything a turn can report, as one closed union of frozen values."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from app.history import DeniedBy
from app.permissions.action import Answer, Ask

EndReason = Literal["complete", "length", "stopped", "failed"]


@dataclass(frozen=True, slots=True)
class ContextUse:
    """Prompt tokens by part, and the limit they share, for the panel."""

    system: int = 0
    tools: int = 0
    history: int = 0
    screen: int = 0
    reply: int = 0  # reserved for the answer
    limit: int = 0
    left_out: int = 0  # oldest messages that did not fit


@dataclass(frozen=True, slots=True)
class TurnStarted:
    """The question is stored as `question_id`; the answer grows in `answer_id`."""

    conversation_id: str
    question_id: str
    answer_id: str


@dataclass(frozen=True, slots=True)
class ScreenRead:
    """What was read from the screen and attached to the question: text as the model gets it."""

    text: str
    source: str  # "Screen 1, 1920x1080"
    words: int


@dataclass(frozen=True, slots=True)
class ContextMeasured:
    """How the context of the coming request is used."""

    use: ContextUse


@dataclass(frozen=True, slots=True)
class PromptAdvanced:
    """Prompt tokens computed so far, of how many."""

    done: int
    total: int


@dataclass(frozen=True, slots=True)
class TextArrived:
    """More of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningArrived:
    """More of the reasoning."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolRequested:
    """The model asks for a tool; it has not run."""

    call_id: str
    tool: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PermissionAsked:
    """Somebody must answer: `answer.set_result(Answer(...))`. Cancelled when the turn ends first."""

    ask: Ask
    answer: asyncio.Future[Answer] = field(compare=False)


@dataclass(frozen=True, slots=True)
class ToolFinished:
    """A tool ran, or was denied; `result` is what the model is told."""

    call_id: str
    tool: str
    result: str
    ok: bool
    denied_by: DeniedBy = ""


@dataclass(frozen=True, slots=True)
class NoticeRaised:
    """Something the person should know, in a sentence (history left out, output cut)."""

    text: str


@dataclass(frozen=True, slots=True)
class SpeedMeasured:
    """Speed of the last generation."""

    prompt_tokens: int
    cached_tokens: int
    generated_tokens: int
    prefill_per_second: float
    decode_per_second: float


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """The last event of every turn. `message` is a sentence when it failed."""

    reason: EndReason
    message: str = ""


Event = (
    TurnStarted
    | ScreenRead
    | ContextMeasured
    | PromptAdvanced
    | TextArrived
    | ReasoningArrived
    | ToolRequested
    | PermissionAsked
    | ToolFinished
    | NoticeRaised
    | SpeedMeasured
    | TurnEnded
)
