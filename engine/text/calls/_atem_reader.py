"""Reads an answer in the ATEM format token by token, and says what its headers, calls and answer must be."""

from __future__ import annotations

from collections.abc import Collection

from engine.api import BadRequest, Called, Malformed, Reasoning, Text
from engine.text.calls._atem_calls import Unreadable, addressed, read_calls
from engine.text.calls._atem_channels import ROLE, SELF, USER, Body, Channels, Mark, Part, Piece
from engine.text.calls._atem_grammar import call, literal, recipients
from engine.text.detokenizer import Detokenizer
from engine.text.reader import MOST_CALLS, Found, Rule, Setting
from engine.text.schema import as_rule

BROKEN = "A control token stands inside the call."
UNADDRESSED = "A call has to be in a message to its tool; this one was in a message to the user."
MARKS: dict[str, Mark] = {"<|start|>": "start", "<|message|>": "message", "<|eom|>": "end"}


class AtemReader:
    """A reader. Control tokens count by their ids alone: names of them that are typed as text are text."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._tools = {tool.name: tool for tool in setting.tools}
        self._ids = {mark: _find(setting, name) for name, mark in MARKS.items()}
        self._marks = {token: mark for mark, token in self._ids.items()}
        self._detokenizer = Detokenizer(setting.tokenizer)
        self._channels = Channels(has_tools=bool(setting.tools), knows=self._knows)
        self._is_first = True  # the prompt ends where the first header goes on
        self._reasoned = self._calls = 0  # tokens of reasoning; calls
        self._known_rule: tuple[object, Rule | None] = (None, None)

    @property
    def is_over(self) -> bool:
        """Whether somebody else begins to speak, or an answer begins as if the calls had been answered."""
        goes_on = self._calls > 0 and self._channels.channel == USER
        return self._channels.is_over or goes_on or self._calls >= MOST_CALLS

    @property
    def rule(self) -> Rule | None:
        """What a header, a call, an answer with a schema, or the end of the reasoning is held to."""
        key = self._place()
        if key != self._known_rule[0]:
            self._known_rule = key, self._make_rule()
        return self._known_rule[1]

    @property
    def forbidden(self) -> Collection[int]:
        """The reasoning can't end the turn while something else has to come."""
        return self._setting.tokenizer.eos_ids if self._channels.channel == SELF and self._is_held else ()

    def push(self, token: int) -> list[Found]:
        """What the next token makes known."""
        if self._channels.channel == SELF:
            self._reasoned += 1
        mark = self._marks.get(token)
        if mark is None and not self._setting.tokenizer.is_control(token):
            return self._found(self._channels.feed(self._detokenizer.push(token)))
        parts = self._channels.feed(self._detokenizer.finish())
        parts += self._channels.mark(mark or "other")
        self._is_first = self._is_first and self._channels.channel is None and mark not in ("start", "end")
        return self._found(parts)

    def finish(self, is_cut: bool) -> list[Found]:
        """What was held back."""
        parts = self._channels.feed(self._detokenizer.finish())
        return self._found(parts + self._channels.finish(is_cut))

    @property
    def _is_spent(self) -> bool:
        limit = self._setting.request.reasoning_limit
        return limit is not None and self._reasoned >= limit

    @property
    def _needs_call(self) -> bool:
        return self._setting.request.tool_choice == "required" and not self._calls

    @property
    def _is_held(self) -> bool:
        """Whether the next message can't be left to the model."""
        return self._needs_call or (self._setting.request.answer_schema is not None and not self._calls)

    def _knows(self, recipient: str) -> bool:
        return recipient in (SELF, USER) or bool(addressed(recipient, self._tools))

    def _place(self) -> object:
        """Where we are, as far as rules depend on it."""
        channels = self._channels
        header = (channels.names_role, self._is_first) if channels.channel is None else None
        return channels.channel, header, self._is_spent, self._is_held

    def _make_rule(self) -> Rule | None:
        match self._channels.channel:
            case None:
                return Rule(self._header()) if self._is_held or self._is_spent else None
            case "self":
                return Rule(f"start: <[{self._ids['end']}]>\n") if self._is_spent else None
            case "user":
                schema = self._setting.request.answer_schema
                return None if schema is None else Rule(f"start: {as_rule(schema)}\n", ends=True)
            case recipient:
                tools = [self._tools[name] for name in addressed(recipient, self._tools)]
                return Rule(call(tools)) if tools else None

    def _header(self) -> str:
        """The grammar of the next header, or of the token that begins it."""
        if not self._is_first and not self._channels.names_role:
            return f"start: <[{self._ids['start']}]>\n"
        names = [] if self._is_spent else [SELF]
        names += [] if self._needs_call else [USER]
        names += [name for tool in self._tools.values() for name in recipients(tool)]
        role = "" if self._is_first else literal(ROLE)
        options = " | ".join(map(literal, names))
        return f"start: {role} {literal(' to=')} ({options}) <[{self._ids['message']}]>\n"

    def _found(self, parts: list[Part]) -> list[Found]:
        found: list[Found] = []
        for part in parts:
            match part:
                case Piece(channel="self"):
                    found.append(Reasoning(part.text, 0))
                case Piece():
                    found.append(Text(part.text, 0))
                case Body():
                    found += self._called(part)
        return found

    def _called(self, body: Body) -> list[Found]:
        try:
            if body.is_broken:
                raise Unreadable(BROKEN)
            if body.recipient == USER:
                raise Unreadable(UNADDRESSED)
            calls = read_calls(body.text, body.recipient, self._tools)
        except Unreadable as error:
            return [Malformed(body.text.strip(), str(error))]
        calls = calls[: MOST_CALLS - self._calls]
        self._calls += len(calls)
        return [Called(one) for one in calls]


def _find(setting: Setting, name: str) -> int:
    token = setting.tokenizer.find(name)
    if token is None:
        raise BadRequest(f"The model's vocabulary lacks {name}, so its answers can't be read.")
    return token
