"""A conversation as the model was trained to read it: the model file's chat template, or a plain one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from jinja2 import meta
from jinja2.exceptions import TemplateError

from engine.api import BadModel, BadRequest, Message, ReasoningStrength, ToolSpec
from engine.text import calls
from engine.text.sandbox import Refused, Sandbox
from engine.text.tokenizer import Tokenizer
from engine.weights.gguf import GgufFile

KEY = "tokenizer.chat_template"
PICTURES = "pictures"  # how many a turn shows
# For models that were never taught to converse: they continue what reads as the record of a conversation.
PLAIN = (
    "{% for message in messages %}"
    "{% if message.role == 'system' %}{{ message.content }}\n\n"
    "{% elif message.role == 'assistant' %}Assistant: {{ message.content }}\n"
    "{% else %}User: {{ message.content }}\n{% endif %}"
    "{% endfor %}Assistant:"
)
PLAIN_STOPS = ("\nUser:", "\nSystem:", "\nAssistant:")
FAILURES = (
    AssertionError,
    TemplateError,
    ArithmeticError,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
    RecursionError,
    MemoryError,
)
Turn = dict[str, Any]


class Template:
    """Turns messages into prompt tokens. `stops`: texts that end an answer, beside the end tokens."""

    def __init__(self, source: str | None, model: str) -> None:
        self.source = PLAIN if source is None else source
        self.stops = PLAIN_STOPS if source is None else ()
        self.has_reasoning = "</think>" in self.source
        self._model, self._sandbox = model, Sandbox()
        try:
            self._template = self._sandbox.build(self.source)
            names = meta.find_undeclared_variables(self._sandbox.parse(self.source))
        except FAILURES as error:
            raise self._broken(error) from None
        self.syntax: calls.Syntax = calls.choose(self.source)
        self.shows_tools = "tools" in names and self.syntax.recognises(self.source)

    @classmethod
    def from_gguf(cls, file: GgufFile) -> Template:
        """A file's template; else its architecture's; else a plain one for models that only continue text."""
        fallback = calls.template_for(file.text("general.architecture"))
        return cls(file.text(KEY) if file.has(KEY) else fallback, file.path.name)

    def encode(
        self,
        tokenizer: Tokenizer,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec] = (),
        *,
        reasoning: ReasoningStrength | None = None,
    ) -> tuple[list[int], str]:
        """Prompt tokens up to where the answer begins, and the same as text."""
        shield = tokenizer.shield
        turns = self._turns(messages, tools)
        specs = [_describe(tool) for tool in tools] if tools and self.shows_tools else None
        sentinel = shield.sentinel(json.dumps([turns, specs], ensure_ascii=False, default=str))
        turns, specs = shield.protect(turns, sentinel), shield.protect(specs, sentinel)
        values = {
            "tools": specs,
            "add_generation_prompt": True,
            **({} if reasoning is None else {"reasoning_strength": reasoning}),
            "bos_token": _name(tokenizer, tokenizer.bos_id),
            "eos_token": _name(tokenizer, tokenizer.eos_id),
        }
        rendered = self._render(turns, values)
        ids: list[int] = []
        for piece in shield.split(rendered, sentinel):
            ids += [piece] if isinstance(piece, int) else tokenizer.encode(piece)
        bos = tokenizer.bos_id
        if tokenizer.add_bos and bos is not None and ids[:1] != [bos]:
            ids.insert(0, bos)
        return ids, rendered.replace(sentinel, "")

    def _render(self, turns: list[Turn], values: Turn) -> str:
        try:
            return self._run(turns, values)
        except Refused as refusal:
            # Many templates know no system message, or want users and assistants to take turns.
            simpler = _simplify(turns)
            if simpler == turns:
                raise BadRequest(f"The model can't take this conversation: {refusal.message}.") from None
        try:
            return self._run(simpler, values)
        except Refused as refusal:
            raise BadRequest(f"The model can't take this conversation: {refusal.message}.") from None

    def _run(self, turns: list[Turn], values: Turn) -> str:
        try:
            return self._sandbox.run(self._template, values | {"messages": [_shown(turn) for turn in turns]})
        except Refused:
            raise
        except FAILURES as error:
            raise self._broken(error) from None

    def _turns(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> list[Turn]:
        if self.shows_tools:
            return [_turn(message) for message in messages]
        turns = [self._spelt_out(message) for message in messages]
        if tools:
            description = self.syntax.describe(tools)
            if turns and turns[0]["role"] == "system":
                turns[0]["content"] += "\n\n" + description
            else:
                turns.insert(0, {"role": "system", "content": description})
        return _joined(turns, "user") if any(message.role == "tool" for message in messages) else turns

    def _spelt_out(self, message: Message) -> Turn:
        """A turn for a template that knows nothing of tools."""
        if message.role == "tool":
            return {"role": "user", "content": self.syntax.write_result(message)}
        parts = [message.text] if message.text else []
        parts += [self.syntax.write(call) for call in message.calls]
        return {"role": message.role, "content": "\n".join(parts)} | _pictures(message)

    def _broken(self, error: BaseException) -> BadModel:
        line = f"line {lineno}: " if (lineno := getattr(error, "lineno", None)) else ""
        return BadModel(f"{self._model}: its chat template can't be used ({line}{error}).")


def _name(tokenizer: Tokenizer, token: int | None) -> str:
    return "" if token is None else tokenizer.token_bytes(token).decode(errors="replace")


def _describe(tool: ToolSpec) -> Turn:
    function = {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
    return {"type": "function", "function": function}


def _turn(message: Message) -> Turn:
    """A turn for a template that knows of tools."""
    turn: Turn = {"role": message.role, "content": message.text} | _pictures(message)
    if message.reasoning:
        turn["reasoning_content"] = message.reasoning
    if message.calls:
        turn["tool_calls"] = [
            {
                "type": "function",
                "id": call.id,
                "function": {"name": call.name, "arguments": dict(call.arguments)},
            }
            for call in message.calls
        ]
    if message.role == "tool":
        turn |= {"tool_call_id": message.call_id, "name": message.name}
    return turn


def _pictures(message: Message) -> Turn:
    return {PICTURES: len(message.pictures)} if message.pictures else {}


def _shown(turn: Turn) -> Turn:
    """The turn with its pictures in its content, before the text, as templates expect them."""
    if PICTURES not in turn:
        return turn
    rest = {key: value for key, value in turn.items() if key != PICTURES}
    images = [{"type": "image"}] * turn[PICTURES]
    return rest | {"content": [*images, {"type": "text", "text": turn["content"]}]}


def _joined(turns: list[Turn], role: str | None = None) -> list[Turn]:
    """`turns` with neighbours of one role (of `role`, or of any) made one."""
    joined: list[Turn] = []
    for turn in turns:
        last = joined[-1] if joined else None
        if (
            last
            and last["role"] == turn["role"]
            and role in (None, turn["role"])
            and "tool_calls" not in turn
        ):
            last["content"] += "\n\n" + turn["content"]
            if PICTURES in last or PICTURES in turn:
                last[PICTURES] = last.get(PICTURES, 0) + turn.get(PICTURES, 0)
        else:
            joined.append(dict(turn))
    return joined


def _simplify(turns: list[Turn]) -> list[Turn]:
    """The system message said by the user, and nobody speaking twice in a row."""
    return _joined([turn | {"role": "user"} if turn["role"] == "system" else turn for turn in turns])
