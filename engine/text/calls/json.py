"""Tool calls as JSON between `<tool_call>` and `</tool_call>`, for models without a way of their own too."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from typing import Any
from uuid import uuid4

from engine.api import BadRequest, Message, ToolCall, ToolSpec
from engine.text.markup import MarkupReader
from engine.text.reader import Reader, Setting
from engine.text.schema import as_rule, dump, whole

NAMES = ("json",)
OPENING, CLOSING = "<tool_call>", "</tool_call>"
NAME = re.compile(r"[A-Za-z0-9_.:/-]{1,128}")

DESCRIPTION = """You can call tools. To call one, write this on a line of its own, then wait for the result:
<tool_call>
{{"name": "the tool's name", "arguments": {{"the argument's name": "its value"}}}}
</tool_call>
Call a tool only if it is needed. These are the tools, with JSON schemas of their arguments:
{tools}"""


def recognises(template: str) -> bool:
    """Whether a chat template teaches this way."""
    return OPENING in template and "arguments" in template and "<function=" not in template


def describe(tools: Sequence[ToolSpec]) -> str:
    """What a system message says of the tools."""
    lines = [
        dump({"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)})
        for tool in tools
    ]
    return DESCRIPTION.format(tools="\n".join(lines))


def write(call: ToolCall) -> str:
    """A call as the model writes it."""
    body = dump({"name": call.name, "arguments": dict(call.arguments)})
    return f"{OPENING}\n{body}\n{CLOSING}"


def write_result(message: Message) -> str:
    """A tool's answer as the model reads it."""
    return f"<tool_response>\n{message.text}\n</tool_response>"


def reader(setting: Setting) -> Reader:
    """What takes an answer apart."""
    return MarkupReader(setting, (OPENING, CLOSING), read, grammar)


def grammar(tools: Sequence[ToolSpec], opened: bool = False) -> str:
    """One call; `opened`: the first marker has been written already."""
    for tool in tools:
        if not NAME.fullmatch(tool.name):
            raise BadRequest(f"{tool.name!r} can't be the name of a tool.")
    lines = [
        "start: call" if opened else f'start: "{OPENING}" call',
        f'call: /\\n?/ one /\\n?/ "{CLOSING}"',
        "one: " + " | ".join(f"tool{index}" for index in range(len(tools))),
    ]
    for index, tool in enumerate(tools):
        head = json.dumps(f'{{"name": "{tool.name}", "arguments": ')
        lines.append(f'tool{index}: {head} arguments{index} "}}"')
        lines.append(f"arguments{index}: {as_rule(_schema(tool))}")
    return "\n".join(lines) + "\n"


def read(body: str, names: Collection[str]) -> ToolCall | None:
    """The call that `body`, the text between the markers, is; None if it is none."""
    try:
        value = whole(json.loads(body))
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or value.get("name") not in names:
        return None
    arguments = value.get("arguments", {})
    if not isinstance(arguments, dict):
        return None
    return ToolCall(uuid4().hex[:9], value["name"], arguments)


def _schema(tool: ToolSpec) -> dict[str, Any]:
    return {"additionalProperties": False, **tool.parameters, "type": "object"}
