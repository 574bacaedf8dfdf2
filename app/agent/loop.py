"""One turn: the model answers, asks for tools, is told what came of them, and goes on."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from app.agent.context import SHARE, Fitted, Given, TooLong, cut, fit
from app.agent.prompt import result_message
from app.backends import Backend
from app.events import (
    ContextMeasured,
    Event,
    NoticeRaised,
    PermissionAsked,
    PromptAdvanced,
    ReasoningArrived,
    SpeedMeasured,
    TextArrived,
    ToolFinished,
    ToolRequested,
    TurnEnded,
)
from app.permissions.action import Answer, Ask
from app.permissions.gate import Decision, Gate, Outcome
from app.tool import Tool, ToolContext
from engine import Called, Done, Malformed, Message, Prefill, Reasoning, Text, ToolCall, ToolSpec, Usage

MOST_STEPS = 8  # times a turn may come back with calls; then it must answer without
MOST_SAME = 3  # times the same call may give the same
MOST_FAILURES = 5  # calls in a row may come to nothing
SAID = 300  # letters of the model's own words shown beside a question

CUT_OFF = "The answer was cut off in the middle of a request for a tool, so the tool was not run."
ENOUGH = f"The model used tools {MOST_STEPS} times in one turn; it now has to answer without more."
LOOP = f"The model was stopped: {MOST_SAME} times it asked for the same ({{tool}}), and got the same."
FAILING = f"The model was stopped: {MOST_FAILURES} requests for tools in a row came to nothing."
LEFT_OUT = "This chat is longer than the model can take in: its oldest {count:,} messages were left out."
RESULTS_LEFT_OUT = "To make room, results of earlier steps of this turn were left out."
FORGOTTEN = "[Left out to make room.]"
NOT_A_CALL = "(Not from the user: no tool was run. {reason})"
TOLD = "The model asked for a tool in a way that can't be read, so nothing was run. It was told: {reason}"
NO_SUCH = "There is no tool {name!r} here. The tools are: {tools}."


@dataclass
class Play:
    """One turn's state."""

    given: Given  # its last turn is the one being played
    context: ToolContext
    title: str
    tainted: bool
    limit: int = 0
    steps: int = 0
    left_out: int = 0  # messages, as the person was told
    forgotten: int = 0  # results of this turn
    failures: int = 0  # calls in a row that came to nothing
    seen: Counter[tuple[str, str, str]] = field(default_factory=Counter)

    def add(self, *messages: Message) -> None:
        """Put more messages into the turn that is being played."""
        *before, last = self.given.turns
        self.given = replace(self.given, turns=[*before, (*last, *messages)])

    def forget_a_result(self) -> bool:
        """Leave out the oldest result of this turn that is still there; False when there is none."""
        *before, last = self.given.turns
        for index, message in enumerate(last):
            if message.role == "tool" and message.text != FORGOTTEN:
                shorter = (*last[:index], replace(message, text=FORGOTTEN), *last[index + 1 :])
                self.given = replace(self.given, turns=[*before, shorter])
                self.forgotten += 1
                return True
        return False

    def why_stop(self, call: ToolCall, outcome: Outcome) -> str:
        """A sentence when the model goes in circles, by what came of this call; else empty."""
        return self.circles(call.name, json.dumps(dict(call.arguments), sort_keys=True), outcome)

    def circles(self, tool: str, asked: str, outcome: Outcome) -> str:
        """The same for a request that may not even be a call."""
        self.failures = 0 if outcome.ok else self.failures + 1
        self.seen[tool, asked, outcome.text] += 1
        if self.seen[tool, asked, outcome.text] >= MOST_SAME:
            return LOOP.format(tool=tool)
        return FAILING if self.failures >= MOST_FAILURES else ""

    def told(self, left_out: int) -> list[str]:
        """Sentences on what is newly left out."""
        notices = []
        if left_out > self.left_out:
            notices.append(LEFT_OUT.format(count=left_out))
        if self.forgotten:
            notices.append(RESULTS_LEFT_OUT)
        self.left_out, self.forgotten = max(left_out, self.left_out), 0
        return notices


@dataclass
class Said:
    """What one generation gave."""

    text: str = ""
    reasoning: str = ""
    calls: list[ToolCall] = field(default_factory=list)
    malformed: list[Malformed] = field(default_factory=list)
    done: Done | None = None


class Agent:
    """Plays turns. It holds no conversation."""

    def __init__(self, backend: Backend, gate: Gate, tools: Mapping[str, Tool]) -> None:
        self._backend, self._gate, self._tools = backend, gate, tools

    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools as the model is told of them."""
        return tuple(ToolSpec(tool.name, tool.description, tool.parameters) for tool in self._tools.values())

    async def play(self, play: Play) -> AsyncGenerator[Event, None]:
        """Events of a turn, up to and with TurnEnded; raises UserError and EngineError."""
        play.limit = (await self._backend.load()).context
        while True:
            said = Said()
            async with aclosing(self._generate(play, said)) as events:
                async for event in events:
                    yield event
            assert said.done is not None
            asks = bool(said.calls or said.malformed)
            if not asks or said.done.reason in ("length", "cancelled"):
                if asks:
                    yield NoticeRaised(CUT_OFF)
                yield _end(said.done)
                return
            async with aclosing(self._run_all(play, said)) as events:
                async for event in events:
                    yield event
                    if isinstance(event, TurnEnded):
                        return
            play.steps += 1
            if play.steps == MOST_STEPS:
                yield NoticeRaised(ENOUGH)

    async def _generate(self, play: Play, said: Said) -> AsyncGenerator[Event, None]:
        fitted = await self._fit(play)
        for notice in play.told(fitted.use.left_out):
            yield NoticeRaised(notice)
        yield ContextMeasured(fitted.use)
        request = fitted.request
        if play.steps >= MOST_STEPS:
            request = replace(request, tool_choice="none")
        async with aclosing(self._backend.stream(request)) as events:
            async for event in events:
                match event:
                    case Prefill():
                        yield PromptAdvanced(event.done, event.total)
                    case Text():
                        said.text += event.text
                        if event.text:  # tokens that show nothing are counted by a text without text
                            yield TextArrived(event.text)
                    case Reasoning():
                        said.reasoning += event.text
                        yield ReasoningArrived(event.text)
                    case Called():
                        said.calls.append(event.call)
                    case Malformed():
                        said.malformed.append(event)
                    case Done():
                        said.done = event
                        yield speed(event.usage)

    async def _fit(self, play: Play) -> Fitted:
        while True:
            try:
                return await fit(self._backend, play.given, play.limit)
            except TooLong:
                if not play.forget_a_result():
                    raise

    async def _run_all(self, play: Play, said: Said) -> AsyncGenerator[Event, None]:
        wrote = said.text + "".join(each.text for each in said.malformed)
        play.add(Message("assistant", wrote, calls=tuple(said.calls), reasoning=said.reasoning))
        for call in said.calls:
            async with aclosing(self._run(play, call, said.text)) as events:
                async for event in events:
                    yield event
                    if isinstance(event, TurnEnded):
                        return

        for each in said.malformed:
            play.add(Message("user", NOT_A_CALL.format(reason=each.reason)))
            yield NoticeRaised(TOLD.format(reason=each.reason))
            if reason := play.circles("no call", each.text, Outcome(False, each.reason)):
                yield TurnEnded("failed", reason)
                return

    async def _run(self, play: Play, call: ToolCall, said: str) -> AsyncGenerator[Event, None]:
        yield ToolRequested(call.id, call.name, call.arguments)
        decision = await self._judge(play, call, said)
        if (ask := decision.ask) is not None:
            answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
            try:
                yield PermissionAsked(ask, answer)
                decision = await self._answered(ask, answer, play)
            finally:
                answer.cancel()  # nothing, where it was given
                await self._gate.withdrawn(ask, play.context.conversation_id)
        outcome = Outcome(False, decision.reason, decision.denied_by)
        if decision.effect == "allow" and decision.action is not None:
            play.tainted = True  # from here on somebody else's text is part of it
            outcome = await self._gate.run(decision.action, play.context)
        text = await cut(self._backend, outcome.text, play.limit // SHARE)
        if len(text) < len(outcome.text):
            kept = f"the first {len(text):,} of {len(outcome.text):,} letters"
            yield NoticeRaised(f"Of what {call.name} gave, the model sees {kept}.")
            text += f"\n[Cut here: these are {kept}.]"
        play.add(result_message(call, text, outcome.ok))
        yield ToolFinished(call.id, call.name, text, outcome.ok, outcome.denied_by)
        if reason := play.why_stop(call, outcome):
            yield TurnEnded("failed", reason)

    async def _judge(self, play: Play, call: ToolCall, said: str) -> Decision:
        offered = [tool.name for tool in play.given.tools]
        if call.name not in offered:
            names = ", ".join(offered) or "none"
            return Decision("deny", None, NO_SUCH.format(name=call.name, tools=names))
        return await self._gate.judge(
            call.name,
            call.arguments,
            play.context,
            chat_title=play.title,
            tainted=play.tainted,
            why="The model asked for this while it was answering you.",
            said=said[-SAID:].strip(),
        )

    async def _answered(self, ask: Ask, answer: asyncio.Future[Answer], play: Play) -> Decision:
        try:
            given = await answer
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            given = Answer(False)  # the dialog was closed without a word
        return await self._gate.answered(ask, given, play.context.conversation_id)


def speed(usage: Usage) -> SpeedMeasured:
    """Tokens a second, computed ones only."""
    computed = usage.prompt_tokens - usage.cached_tokens
    return SpeedMeasured(
        usage.prompt_tokens,
        usage.cached_tokens,
        usage.generated_tokens,
        computed / usage.prefill_seconds if usage.prefill_seconds > 0 else 0.0,
        usage.generated_tokens / usage.decode_seconds if usage.decode_seconds > 0 else 0.0,
    )


def _end(done: Done) -> TurnEnded:
    match done.reason:
        case "length":
            return TurnEnded("length")
        case "cancelled":
            return TurnEnded("stopped")
        case _:
            return TurnEnded("complete")
