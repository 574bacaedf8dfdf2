"""The gate every call passes: judge it, ask if need be, log it, and run exactly what was judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.permissions.action import Action, Answer, Ask
from app.permissions.audit import Audit
from app.permissions.grants import Grants
from app.permissions.policy import Effect, Mode
from app.tool import Tool, ToolContext


@dataclass(frozen=True, slots=True)
class Decision:
    """What is to happen with a call. `reason` is for the model when it is denied; `ask` is set when it must be asked."""

    effect: Effect
    action: Action | None  # None: the call was malformed, so there is nothing to run
    reason: str = ""
    ask: Ask | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a call gave: the text the model is told."""

    ok: bool
    text: str


class Gate:
    """Judges calls by the rules and runs those that were allowed, each once."""

    def __init__(self, tools: Mapping[str, Tool], grants: Grants, audit: Audit, mode: Mode = "ask") -> None:
        self._tools, self._grants, self._audit, self._mode = tools, grants, audit, mode

    async def judge(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        context: ToolContext,
        *,
        chat_title: str = "",
        tainted: bool = False,
        why: str = "",
    ) -> Decision:
        """Allow, deny or ask. A malformed or unknown call is denied, with a reason the model can act on."""
        raise NotImplementedError

    async def answered(self, ask: Ask, answer: Answer, conversation_id: str) -> Decision:
        """The person's answer as a decision (allow or deny); a lasting yes is stored as a rule."""
        raise NotImplementedError

    async def run(self, action: Action, context: ToolContext) -> Outcome:
        """Run an allowed action, once, with the arguments that were judged; log how it ended. Never raises ToolError."""
        raise NotImplementedError

    async def withdrawn(self, ask: Ask, conversation_id: str) -> None:
        """The turn ended before an answer came; nothing runs any more."""
        raise NotImplementedError
