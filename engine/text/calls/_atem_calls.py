"""Reads the text of a tool's message in the ATEM format: calls whose values are written as they are.

A value ends at the first closing tag that another tag follows, so a closing tag may be quoted within one.
Everything else has to be exactly in its place: what is cut short, merged or unclear is no call.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from engine.api import ToolCall, ToolSpec
from engine.text.schema import Unfit, decode, follow

BLOCK, END_BLOCK = "<atem:function_calls>", "</atem:function_calls>"
END_INVOKE, END_PARAMETER = "</atem:invoke>", "</atem:parameter>"
GAP = r"[ \t\r\n]*"
NAME = r'name="([^"<>\n]{0,256})">'
OPENS = re.compile(f"{GAP}{BLOCK}")
ENDS = re.compile(f"{GAP}{END_BLOCK}{GAP}")
INVOKE = re.compile(f"{GAP}<atem:invoke {NAME}")
PARAMETER = re.compile(f"{GAP}<atem:parameter {NAME}")
INVOKE_ENDS = re.compile(f"{GAP}{END_INVOKE}")
VALUE_ENDS = re.compile(f"{END_PARAMETER}(?={GAP}(?:<atem:parameter|{END_INVOKE}))")
LOST = re.compile(rf"(?:\A|\n)[ \t]*<atem:(parameter|invoke) {NAME}")
SHOWN = 60  # letters of what the model wrote, in a sentence to it


class Unreadable(ValueError):
    """A text that is no call; the sentence says why, to the model."""


def resolve(name: str, tools: Mapping[str, ToolSpec]) -> str | None:
    """The tool that a name means. A bare `read` is offered as `read.*`, so it may come as `read.read`."""
    if name in tools:
        return name
    head, _, tail = name.partition(".")
    return head if head == tail and head in tools else None


def addressed(recipient: str, tools: Mapping[str, ToolSpec]) -> list[str]:
    """The tools that a message to `recipient` may call: one, or those of a namespace."""
    if (name := resolve(recipient, tools)) is not None:
        return [name]
    return [name for name in tools if "." in name and name.partition(".")[0] == recipient]


def read_calls(body: str, recipient: str, tools: Mapping[str, ToolSpec]) -> list[ToolCall]:
    """The calls, at least one, that a message to `recipient` makes; `Unreadable` if it is anything else."""
    if not tools:
        raise Unreadable("There are no tools to call now.")
    allowed = addressed(recipient, tools)
    if not allowed:
        raise Unreadable(f"There is no tool {_shown(recipient)}. The tools are: {', '.join(tools)}.")
    if (opened := OPENS.match(body)) is None:
        raise Unreadable(f"A message to a tool has to be a call, which begins with {BLOCK}.")
    at, calls = opened.end(), []
    while (ended := ENDS.match(body, at)) is None:
        call, at = _Invoke(body, at, tools).read()
        if call.name not in allowed:
            raise Unreadable(
                f"The message is addressed to {_shown(recipient)}, but calls {_shown(call.name)}."
            )
        calls.append(call)
    if ended.end() != len(body):
        raise Unreadable(
            f"Something follows after {END_BLOCK}; only one block of calls may stand in a message."
        )
    if not calls:
        raise Unreadable(f"No tool is called between {BLOCK} and {END_BLOCK}.")
    return calls


class _Invoke:
    """One call, from a place in a text on."""

    def __init__(self, body: str, at: int, tools: Mapping[str, ToolSpec]) -> None:
        self._body, self._at, self._tools = body, at, tools

    def read(self) -> tuple[ToolCall, int]:
        """The call, and where it ends."""
        written = self._expect(INVOKE, '<atem:invoke name="...">')
        tool, texts = self._named(written)
        while not (ended := INVOKE_ENDS.match(self._body, self._at)):
            name = self._expect(PARAMETER, '<atem:parameter name="...">')
            if name in texts:
                raise Unreadable(f"The parameter {_shown(name)} is given twice.")
            texts[name] = self._value(tool)
        return ToolCall(uuid4().hex[:9], tool.name, _arguments(tool, texts)), ended.end()

    def _named(self, written: str) -> tuple[ToolSpec, dict[str, str]]:
        """The tool; with it the first parameter if that has lost its opening tag and stands in the name."""
        if (name := resolve(written, self._tools)) is not None:
            return self._tools[name], {}
        halves = {
            (name, written[dot.end() :])
            for dot in re.finditer(r"\.", written)
            if (name := resolve(written[: dot.start()], self._tools)) is not None
        }
        fitting = [(self._tools[name], parameter) for name, parameter in halves]
        fitting = [(tool, parameter) for tool, parameter in fitting if parameter in properties(tool)]
        if len(fitting) != 1 or PARAMETER.match(self._body, self._at):
            raise Unreadable(f"There is no tool {_shown(written)}. The tools are: {', '.join(self._tools)}.")
        (tool, parameter), = fitting  # fmt: skip
        return tool, {parameter: self._value(tool)}

    def _value(self, tool: ToolSpec) -> str:
        """The text up to where the value ends. A tag that begins a line within it tells of a lost end."""
        if (ended := VALUE_ENDS.search(self._body, self._at)) is None:
            raise Unreadable(f"A value does not end with {END_PARAMETER}: the call is cut short.")
        value, self._at = self._body[self._at : ended.start()], ended.end()
        if any(tag[1] == "invoke" or tag[2] in properties(tool) for tag in LOST.finditer(value)):
            raise Unreadable(f"A value does not end with {END_PARAMETER} before the next tag.")
        return value

    def _expect(self, tag: re.Pattern[str], words: str) -> str:
        found = tag.match(self._body, self._at)
        if found is None:
            there = self._body[self._at :].lstrip()
            raise Unreadable(
                f"{words} should stand where " + (f"{_shown(there)} does." if there else "it ends.")
            )
        self._at = found.end()
        return found[1]


def properties(tool: ToolSpec) -> Mapping[str, Any]:
    """The schemas of a tool's parameters by name."""
    found = follow(tool.parameters, tool.parameters).get("properties", {})
    return found if isinstance(found, Mapping) else {}


def required(tool: ToolSpec) -> list[str]:
    """Parameters without which a tool can't be called."""
    return list(follow(tool.parameters, tool.parameters).get("required", ()))


def additional(tool: ToolSpec) -> Any:
    """The schema of parameters that are not named; False if there can be none."""
    schema = follow(tool.parameters, tool.parameters)
    return schema.get("additionalProperties", "properties" not in schema)


def _arguments(tool: ToolSpec, texts: Mapping[str, str]) -> dict[str, Any]:
    missing = [name for name in required(tool) if name not in texts]
    if missing:
        raise Unreadable(f"{tool.name} needs the parameter {_shown(missing[0])}, which is missing.")
    return {name: _typed(tool, name, text) for name, text in texts.items()}


def _typed(tool: ToolSpec, name: str, text: str) -> Any:
    known = properties(tool)
    schema = known[name] if name in known else additional(tool)
    if schema is False:
        ours = ", ".join(known) or "none"
        raise Unreadable(f"{tool.name} has no parameter {_shown(name)}. Its parameters are: {ours}.")
    try:
        return decode(text, schema if isinstance(schema, Mapping) else {}, tool.parameters)
    except Unfit as error:
        raise Unreadable(f"The parameter {_shown(name)} of {tool.name} has to be {error}.") from None


def _shown(text: str) -> str:
    return repr(text if len(text) <= SHOWN else text[:SHOWN] + "…")
