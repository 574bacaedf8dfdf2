"""A conversation as it is stored and shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

State = Literal["streaming", "complete", "length", "stopped", "failed", "interrupted"]
DeniedBy = Literal["", "person", "rule", "default"]  # empty: nobody; default: our own limits


@dataclass(frozen=True, slots=True)
class TextBlock:
    """What was written: markdown."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningBlock:
    """What the model thought before it answered."""

    text: str


@dataclass(frozen=True, slots=True)
class ScreenBlock:
    """What was read from the screen and attached to a question."""

    text: str
    source: str
    words: int


@dataclass(frozen=True, slots=True)
class ToolBlock:
    """A tool call and, once it ended, what came of it. One that was denied never ran."""

    call_id: str
    tool: str
    arguments: Mapping[str, Any]
    result: str | None = None
    ok: bool = False
    denied_by: DeniedBy = ""  # not kept by the first versions: theirs read as not denied


@dataclass(frozen=True, slots=True)
class NoticeBlock:
    """Something the person was told on the way."""

    text: str


Block = TextBlock | ReasoningBlock | ScreenBlock | ToolBlock | NoticeBlock


@dataclass(frozen=True, slots=True)
class Entry:
    """One message. `state` says how an answer ended; "interrupted" means the app did not live to see it."""

    id: str
    role: Literal["user", "assistant"]
    blocks: tuple[Block, ...]
    state: State = "complete"
    error: str = ""

    @property
    def text(self) -> str:
        """The written part alone."""
        return "".join(block.text for block in self.blocks if isinstance(block, TextBlock))


@dataclass(frozen=True, slots=True)
class Conversation:
    """A chat without its messages. Times are seconds since the epoch."""

    id: str
    title: str
    created: float
    updated: float
    entries: tuple[Entry, ...] = field(default=(), compare=False)
