"""The ATEM form of a call as a grammar: llguidance's Lark, one chain of parameters for each tool.

A string is free text up to a closing tag that a tag follows: `</atem:parameter>` alone may be quoted within
it, as in the reading. The parameters come in the order of the schema, and none that is required is left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from engine.api import BadRequest, ToolSpec
from engine.text.calls._atem_calls import (
    BLOCK,
    END_BLOCK,
    END_INVOKE,
    END_PARAMETER,
    additional,
    properties,
    required,
)
from engine.text.schema import as_rule, choices, encode, kinds

NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
PARAMETER_NAME = re.compile(r'[^"<>\s]{1,128}')
TAKEN = ("self", "user", "assistant")
# What the reading takes for the end of a value, or for the sign of a lost one, is not in a free text.
FREE = (
    r"FREE: /(?s:.*)/ & ~/(?s:.*)<\/atem:parameter>[ \t\r\n]*<(atem:parameter|\/atem:invoke>)(?s:.*)/"
    r" & ~/((?s:.*)\n)?[ \t]*<atem:(parameter|invoke) name=(?s:.*)/"
)
INVOKE, PARAMETER, CLOSES = '<atem:invoke name="', '<atem:parameter name="', '">'


def call(tools: Sequence[ToolSpec]) -> str:
    """One whole block with one call of one of the tools."""
    lines = [f"start: {literal(BLOCK + chr(10))} one {literal(chr(10) + END_BLOCK)}"]
    lines.append("one: " + " | ".join(f"tool{index}" for index in range(len(tools))))
    for index, tool in enumerate(tools):
        _check(tool)
        names = " | ".join(literal(name) for name in recipients(tool))
        invoke = f"{literal(INVOKE)} ({names}) {literal(CLOSES + chr(10))}"
        lines += [f"tool{index}: {invoke} tool{index}_line0", *_Chain(f"tool{index}_", tool).lines()]
    return "\n".join([*lines, FREE]) + "\n"


def recipients(tool: ToolSpec) -> list[str]:
    """What a message that calls the tool may be addressed to."""
    return [tool.name] if "." in tool.name else [tool.name, f"{tool.name}.{tool.name}"]


class _Chain:
    """The rules of a tool's parameters. `line{i}`: what may stand where parameter i begins."""

    def __init__(self, prefix: str, tool: ToolSpec) -> None:
        self._prefix, self._tool = prefix, tool
        self._schemas = list(properties(tool).items())
        needed = set(required(tool))
        self._is_needed = [name in needed for name, _ in self._schemas]

    def lines(self) -> list[str]:
        """All rules."""
        if additional(self._tool) is not False:
            return [f"{self._prefix}line0[lazy]: /(?s:.*){_pattern(END_INVOKE)}/"]
        lines = []
        for index in range(len(self._schemas) + 1):
            options = (
                [f"{literal(PARAMETER)} {self._prefix}name{index}"] if index < len(self._schemas) else []
            )
            options += [literal(END_INVOKE)] if self._may_end(index) else []
            lines.append(f"{self._prefix}line{index}: {' | '.join(options)}")
        for index, (_, schema) in enumerate(self._schemas):
            lines += self._parameter(index, schema)
        return lines

    def _may_end(self, index: int) -> bool:
        return not any(self._is_needed[index:])

    def _reachable(self, index: int) -> range:
        """Parameters of which one may come next: up to the first that is required."""
        end = next(
            (at for at in range(index, len(self._schemas)) if self._is_needed[at]), len(self._schemas) - 1
        )
        return range(index, end + 1)

    def _parameter(self, index: int, schema: Any) -> list[str]:
        heads = " | ".join(
            f"{literal(self._schemas[at][0] + CLOSES)} {self._prefix}value{at}"
            for at in self._reachable(index)
        )
        return [f"{self._prefix}name{index}: {heads}", *self._value(index, schema)]

    def _value(self, index: int, schema: Any) -> list[str]:
        prefix, root = self._prefix, self._tool.parameters
        allowed = kinds(schema, root)
        line = f"{literal(END_PARAMETER + chr(10))} {prefix}line{index + 1}"
        if (listed := choices(schema, root)) is not None:
            options = " | ".join(literal(encode(choice)) for choice in listed)
            return [f"{prefix}value{index}: ({options}) {line}"]
        if "string" not in allowed:
            return [
                f"{prefix}value{index}: {prefix}json{index} {line}",
                f"{prefix}json{index}: {as_rule(schema, root)}",
            ]
        return self._text(index)

    def _text(self, index: int) -> list[str]:
        name, has_more = f"{self._prefix}value{index}", index + 1 < len(self._schemas)
        options, lines = [], []
        if has_more:
            options.append(f"{name}_more {self._prefix}name{index + 1}")
            lines.append(f"{name}_more[lazy]: FREE {literal(END_PARAMETER + chr(10) + PARAMETER)}")
        if self._may_end(index + 1):
            options.append(f"{name}_last")
            lines.append(f"{name}_last[lazy]: FREE {literal(END_PARAMETER + chr(10) + END_INVOKE)}")
        return [f"{name}: {' | '.join(options)}", *lines]


def _check(tool: ToolSpec) -> None:
    if not NAME.fullmatch(tool.name) or tool.name in TAKEN:
        raise BadRequest(f"{tool.name!r} can't be the name of a tool.")
    for name in properties(tool):
        if not PARAMETER_NAME.fullmatch(name):
            raise BadRequest(f"{tool.name}: {name!r} can't be the name of a parameter.")
    missing = [name for name in required(tool) if name not in properties(tool) and additional(tool) is False]
    if missing:
        raise BadRequest(f"{tool.name} requires {missing[0]!r}, and does not say what it is.")


def literal(text: str) -> str:
    """A text in Lark."""
    return json.dumps(text)


def _pattern(text: str) -> str:
    return re.escape(text).replace("/", r"\/").replace('"', r"\"")
