"""The gate every call passes: judge it, ask if need be, log it, and run exactly what was judged."""

from __future__ import annotations

import asyncio
import difflib
import hashlib
import json
import logging
import secrets
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from app.history import DeniedBy
from app.permissions.action import Action, Answer, Ask, Scope
from app.permissions.audit import Audit, AuditEvent
from app.permissions.grants import Grants
from app.permissions.policy import By, Effect, Match, Mode, Rule, Verdict, decide
from app.tool import Refused, Tool, ToolContext, ToolError

LOG = logging.getLogger(__name__)
UNTRUSTED = "Text from the screen, a file or a tool was read before this, and may have led to it."
NOBODY = "Nobody is there to allow this, so it was not run."
EXPIRED = "This question is no longer open, so nothing was run."


@dataclass(frozen=True, slots=True)
class Decision:
    """What is to happen with a call. `reason` is for the model when it is denied."""

    effect: Effect
    action: Action | None  # None: the call was malformed, so there is nothing to run
    reason: str = ""
    ask: Ask | None = None  # set when the effect is "ask"
    denied_by: DeniedBy = ""  # empty too for a call that makes no sense: nobody had to deny it


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a call gave: the text the model is told."""

    ok: bool
    text: str
    denied_by: DeniedBy = ""


class Gate:
    """Judges calls by the rules, and runs those that were allowed, each once."""

    def __init__(self, tools: Mapping[str, Tool], grants: Grants, audit: Audit, mode: Mode = "ask") -> None:
        self._tools, self._grants, self._audit, self._mode = tools, grants, audit, mode
        self._open: dict[str, Ask] = {}
        self._cleared: Counter[tuple[Action, str]] = Counter()

    async def judge(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        context: ToolContext,
        *,
        chat_title: str = "",
        tainted: bool = False,
        why: str = "",
        said: str = "",
    ) -> Decision:
        """Allow, deny or ask. A malformed or unknown call is denied, with a reason the model can act on."""
        log = partial(self._log, conversation_id=context.conversation_id, tainted=tainted)
        try:
            known = self._tool(tool)
            action = await asyncio.to_thread(known.describe, context, arguments)
        except ToolError as error:
            detail = json.dumps(arguments, sort_keys=True, default=str)
            await log(
                "refused" if isinstance(error, Refused) else "failed",
                tool,
                detail,
                "default",
                reason=str(error),
            )
            return Decision("deny", None, str(error), denied_by=denier(error))
        verdict = decide(
            action,
            self._grants.rules(),
            conversation_id=context.conversation_id,
            mode=self._mode,
            read_only=known.read_only,
            tainted=tainted,
        )
        if verdict.effect == "ask":
            return await self._ask(known, action, log, chat_title, tainted, why, said)
        words = verdict.rule.words if verdict.rule else ""
        if verdict.effect == "allow":
            await log(
                "allowed", action.tool, action.detail, verdict.by, reason=words, arguments=action.arguments
            )
            self._cleared[action, context.conversation_id] += 1
            return Decision("allow", action)
        reason = _denial(verdict)
        await log("denied", action.tool, action.detail, verdict.by, reason=reason, arguments=action.arguments)
        return Decision("deny", action, reason, denied_by=verdict.by)

    def _tool(self, name: str) -> Tool:
        if name in self._tools:
            return self._tools[name]
        near = difflib.get_close_matches(name, self._tools, n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise ToolError(f"There is no tool {name!r}.{hint} The tools are: {', '.join(sorted(self._tools))}.")

    async def _ask(
        self, tool: Tool, action: Action, log: Any, chat_title: str, tainted: bool, why: str, said: str
    ) -> Decision:
        offers = tool.offers(action)
        if tainted and not tool.read_only:  # a lasting yes may not grow out of somebody else's words
            offers = tuple(offer for offer in offers if offer.scope is Scope.ONCE)
        ask = Ask(
            id=secrets.token_hex(16),
            action=action,
            why=f"{why} {UNTRUSTED}".strip() if tainted else why,
            offers=offers,
            chat=chat_title,
            tainted=tainted,
            said=said,
        )
        await log("asked", action.tool, action.detail, "default", reason=ask.why, arguments=action.arguments)
        self._open[ask.id] = ask
        return Decision("ask", action, ask=ask)

    async def answered(self, ask: Ask, answer: Answer, conversation_id: str) -> Decision:
        """The answer as a decision (allow or deny); a question takes one. A lasting answer is stored."""
        if self._open.pop(ask.id, None) is not ask:
            return Decision("deny", ask.action, EXPIRED, denied_by="default")
        action = ask.action
        offer = next((each for each in ask.offers if each.scope is answer.scope), None)
        lasting = offer is not None and offer.scope is not Scope.ONCE
        words = offer.words if offer and lasting else "this call, once"
        await self._log(
            "allowed" if answer.allow else "denied",
            action.tool,
            action.detail,
            "person",
            reason=answer.note or words,
            conversation_id=conversation_id,
            arguments=action.arguments,
            tainted=ask.tainted,
        )
        if lasting:
            rule = _rule(action, answer, words, conversation_id)
            await asyncio.to_thread(self._grants.add, rule)
        if not answer.allow:
            note = f" {answer.note}" if answer.note else ""
            return Decision("deny", action, f"The user said no.{note}", denied_by="person")
        self._cleared[action, conversation_id] += 1
        return Decision("allow", action)

    async def withdrawn(self, ask: Ask, conversation_id: str) -> None:
        """The turn ended before an answer came; a late one does nothing."""
        if self._open.pop(ask.id, None) is not None:
            await self._log(
                "denied",
                ask.action.tool,
                ask.action.detail,
                "default",
                reason="The turn ended before an answer came.",
                conversation_id=conversation_id,
                tainted=ask.tainted,
            )

    async def run(self, action: Action, context: ToolContext) -> Outcome:
        """Run an allowed action, once, with the arguments that were judged; log how it ended."""
        if not self._cleared[action, context.conversation_id]:
            raise PermissionError(f"{action.tool} was not allowed")
        self._cleared[action, context.conversation_id] -= 1
        tool, arguments = self._tool(action.tool), json.loads(action.arguments)
        try:
            if await asyncio.to_thread(tool.describe, context, arguments) != action:
                raise ToolError(
                    "What this call would do has changed since it was allowed, so it was not run."
                )
            outcome = Outcome(True, await tool.run(context, arguments))
        except ToolError as error:
            outcome = Outcome(False, str(error), denier(error))
        except asyncio.CancelledError:
            self._record("failed", action, "Stopped before it ended.", context.conversation_id)
            raise
        except Exception:  # the one place where a tool's bug is caught: the turn goes on
            LOG.exception("%s failed", action.tool)
            outcome = Outcome(False, f"{action.tool} failed by a fault of its own; the log has the details.")
        await asyncio.to_thread(self._finish, action, outcome, context.conversation_id)
        return outcome

    def _finish(self, action: Action, outcome: Outcome, conversation_id: str) -> None:
        digest = hashlib.sha256(outcome.text.encode(errors="surrogatepass")).hexdigest()
        summary = f"{len(outcome.text):,} letters, sha256 {digest}" if outcome.ok else outcome.text
        self._record("finished" if outcome.ok else "failed", action, summary, conversation_id)

    def _record(self, event: AuditEvent, action: Action, reason: str, conversation_id: str) -> None:
        self._audit.record(
            event, action.tool, action.detail, "default", reason=reason, conversation_id=conversation_id
        )

    async def _log(self, event: AuditEvent, tool: str, detail: str, by: By, **more: Any) -> None:
        await asyncio.to_thread(self._audit.record, event, tool, detail, by, **more)


def denier(error: ToolError) -> DeniedBy:
    """Who denied a call that ended so: our own limits, or nobody."""
    return "default" if isinstance(error, Refused) else ""


def _denial(verdict: Verdict) -> str:
    return f"A rule of the user forbids this: {verdict.rule.words}" if verdict.rule else NOBODY


def _rule(action: Action, answer: Answer, words: str, conversation_id: str) -> Rule:
    """The rule an answer makes: it covers calls with this very subject and no other."""
    subject: dict[str, Any] = json.loads(action.subject)
    return Rule(
        id=secrets.token_hex(8),
        effect="allow" if answer.allow else "deny",
        tool=action.tool,
        match=tuple(Match(key, "is", value) for key, value in subject.items()),
        scope=answer.scope,
        words=words,
        created=time.time(),
        conversation_id=conversation_id if answer.scope is Scope.CHAT else "",
    )
