# ruff: noqa: E501 (texts, one a line)
"""Turns in the ATEM format for tests: random ones that are valid, and a slow reader of such."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from engine.api import Called, Event, Malformed, Message, Reasoning, Request, Text, ToolSpec
from engine.text.dialogue import Dialogue
from engine.text.template import Template
from engine.text.tokenizer import Tokenizer

CONTROL = ("<|start|>", "<|message|>", "<|eom|>", "<|eot|>")


@dataclass(frozen=True)
class Control:
    """A control token, told from text that looks like one."""

    name: str


START, MESSAGE, EOM, EOT = map(Control, CONTROL)
Item = str | Control


def tool(name: str, required: Sequence[str] = (), **properties: Any) -> ToolSpec:
    return ToolSpec(name, "A tool.", {"type": "object", "properties": properties, "required": list(required)})


TEXT = {"type": "string"}
READ = tool("files.read", ["path"], path=TEXT, lines={"type": "integer"}, deep={"type": "boolean"})
WRITE = tool("files.write", ["path", "text"], path=TEXT, text=TEXT, mode={"enum": ["new", "add"]})
BARE = tool("read", ["filePath"], filePath=TEXT, limit={"type": "number"})
MIXED = tool(
    "net.fetch",
    url=TEXT,
    headers={"type": "object", "additionalProperties": {"type": "string"}},
    tries={"type": "array", "items": {"type": "integer"}},
    note={"type": ["string", "null"]},
)
WIPE = tool("wipe")
TOOLS = (READ, WRITE, BARE, MIXED, WIPE)
ASK = (Message("user", "Do it."),)


def items(text: str) -> list[Item]:
    """A text in which names of control tokens are the tokens."""
    found: list[Item] = [text]
    for name in CONTROL:
        found = [
            piece
            for item in found
            for piece in (
                [item]
                if isinstance(item, Control)
                else [x for part in item.split(name) for x in (part, Control(name))][:-1]
            )
        ]
    return [item for item in found if item != ""]


def encode(tokenizer: Tokenizer, turn: Iterable[Item]) -> list[int]:
    """Tokens, as few as can be."""
    ids: list[int] = []
    for item in turn:
        ids += [tokenizer.find(item.name)] if isinstance(item, Control) else tokenizer.encode(item)
    return ids


def start(tokenizer: Tokenizer, template: Template, **changes: Any) -> Dialogue:
    return Dialogue(tokenizer, template, Request(**({"messages": ASK, "tools": TOOLS} | changes)))


def play(dialogue: Dialogue, ids: Iterable[int], reason: str = "stop") -> list[Event]:
    return [event for token in ids for event in dialogue.push(token)] + dialogue.finish(reason)


def told(events: Iterable[Event]) -> list[tuple[str, Any]]:
    """Events with neighbours of a kind joined, without ids and counts."""
    joined: list[tuple[str, Any]] = []
    for event in events:
        match event:
            case Text(text="") | Reasoning(text=""):
                continue
            case Text() | Reasoning():
                kind = "text" if isinstance(event, Text) else "reasoning"
                if joined and joined[-1][0] == kind:
                    joined[-1] = (kind, joined[-1][1] + event.text)
                else:
                    joined.append((kind, event.text))
            case Called():
                joined.append(("call", (event.call.name, dict(event.call.arguments))))
            case Malformed():
                joined.append(("malformed", event.text))
    return joined


# Random turns. What a value or a text holds is meant to mislead.
SCRAPS = [
    "Hello", " ", "\n", "to", " to=", " to=user", "to=self ", "assistant", "a", "<", "<|", "<|eot|>", "<|eom|>", "<|message|>",
    "<|start|>assistant to=files.read<|message|>", "<atem:", "</atem:parameter>", "</atem:parameter> x", "</atem:invoke>",
    "<atem:invoke name=\"wipe\">", "</atem:function_calls>", "é👍漢", "{\"a\": 1}", "[1]", "null", "5", "true", "  ", "\t", "…", "&lt;",
]  # fmt: skip


def scraps(dice: random.Random, most: int) -> str:
    return "".join(dice.choice(SCRAPS) for _ in range(dice.randint(0, most)))


def a_text(dice: random.Random, most: int = 8) -> str:
    """Of a message for people: none that begins as a call, or ends as a header."""
    return "So, " + scraps(dice, most) + "."


def a_value(dice: random.Random) -> str:
    """A string that no tag follows too early: quoted closing tags stand before something else."""
    text = scraps(dice, 6)
    for tag in ("</atem:invoke>", '<atem:invoke name="wipe">'):
        text = text.replace(tag, "(" + tag)
    return text.replace("</atem:parameter>", "</atem:parameter>,") + dice.choice(["", ".", " "])


def some_json(dice: random.Random) -> Any:
    return {
        dice.choice("abc"): dice.choice(["x", "</atem:parameter>", "é", ""])
        for _ in range(dice.randint(0, 3))
    }


def arguments(dice: random.Random, spec: ToolSpec) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name, schema in spec.parameters["properties"].items():
        if name not in spec.parameters["required"] and dice.random() < 0.5:
            continue
        match schema.get("type", "enum"):
            case "string":
                made[name] = a_value(dice)
            case "integer":
                made[name] = dice.randint(-9, 99)
            case "number":
                made[name] = dice.choice([1, -2.5, 1e9])
            case "boolean":
                made[name] = dice.random() < 0.5
            case "object":
                made[name] = some_json(dice)
            case "array":
                made[name] = [dice.randint(0, 9) for _ in range(dice.randint(0, 4))]
            case "enum":
                made[name] = dice.choice(schema["enum"])
            case _:
                made[name] = dice.choice([None, "x" + a_value(dice)])
    return dict(dice.sample([*made.items()], len(made)))


def a_call(dice: random.Random, spec: ToolSpec, made: dict[str, Any]) -> str:
    lines = ["<atem:function_calls>", f'<atem:invoke name="{spec.name}">']
    for name, value in made.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        lines.append(f'<atem:parameter name="{name}">{text}</atem:parameter>')
    return "\n".join([*lines, "</atem:invoke>", "</atem:function_calls>"])


def a_turn(dice: random.Random) -> tuple[list[Item], list[tuple[str, Any]]]:
    """A valid turn, from after `<|start|>assistant` on, and what it tells."""
    messages: list[tuple[str, str, Any]] = []
    thoughts = [a_text(dice) for _ in range(dice.randint(0, 2))]
    messages += [("self", text, ("reasoning", text)) for text in thoughts]
    if dice.random() < 0.5:
        messages.append(("user", text := a_text(dice), ("text", text)))
    if dice.random() < 0.7 or not messages:
        for _ in range(dice.randint(1, 3)):
            spec = dice.choice(TOOLS)
            made = arguments(dice, spec)
            messages.append((spec.name, a_call(dice, spec, made), ("call", (spec.name, made))))
    elif messages[-1][0] == "self":
        messages.append(("user", text := a_text(dice), ("text", text)))
    turn: list[Item] = []
    for index, (recipient, text, _) in enumerate(messages):
        role: list[Item] = [START, "assistant"] if index else []
        bare = recipient == "user" and dice.random() < 0.2
        turn += [*role, *([] if bare else [f" to={recipient}"]), MESSAGE, text, EOM]
    wanted: list[tuple[str, Any]] = []
    for _, _, (kind, value) in messages:
        if wanted and wanted[-1][0] == kind and kind != "call":
            value = wanted.pop()[1] + value
        wanted.append((kind, value))
    return [*turn[:-1], EOT], wanted


# The slow reader: it looks at whole turns only, and takes nothing but what is complete and exactly in place.
def reference_calls(
    turn: Sequence[Item], tools: Sequence[ToolSpec] = TOOLS
) -> list[tuple[str, dict[str, Any]]]:
    """The calls of the messages that have ended."""
    is_cut = EOT not in turn
    messages: list[list[Item]] = [[]]
    for item in turn if is_cut else turn[: turn.index(EOT)]:
        if item in (EOM, START):
            messages.append([])
        else:
            messages[-1].append(item)
    calls = []
    for index, message in enumerate(messages):
        is_open = is_cut and index + 1 == len(messages)
        for header, body in _reference_split(message)[: -1 if is_open else None]:
            calls += _reference_message(header, body, tools)
    return calls


def _reference_split(message: list[Item]) -> list[tuple[str, str]]:
    """Headers and bodies; more than one where a header stands in a body, without a body's end before it."""
    parts: list[list[str]] = [[""]]
    for item in message:
        if item == MESSAGE:
            parts.append([""])
        elif isinstance(item, Control):
            parts[-1].append("broken")
        else:
            parts[-1][0] += item
    found, header = [], ""
    for index, (text, *broken) in enumerate(parts):
        body, following = text, ""
        if index + 1 < len(parts):
            at = text.rfind("to=")
            if at >= 0 and all(letter.isalnum() or letter in "_.-" for letter in text[at + 3 :].rstrip()):
                following, body = text[at:], text[:at].rstrip(" \t").removesuffix("assistant")
            else:
                broken.append("broken")
        if index:
            found.append((header, "" if broken else body))
        header = following
    return found


def _reference_message(header: str, body: str, tools: Sequence[ToolSpec]) -> list[tuple[str, dict[str, Any]]]:
    recipient = header.strip().removeprefix("assistant").strip()
    if not recipient.startswith("to="):
        return []
    lines = body.strip()
    head, tail = "<atem:function_calls>", "</atem:function_calls>"
    if not (lines.startswith(head) and lines.endswith(tail)):
        return []
    rest, calls = lines[len(head) : -len(tail)].strip(), []
    while rest:
        found = _reference_invoke(rest, tools)
        if found is None:
            return []
        (name, made), rest = found
        allowed = {name, name.split(".")[0]} | ({f"{name}.{name}"} if "." not in name else set())
        if recipient.removeprefix("to=") not in allowed:
            return []
        calls.append((name, made))
        rest = rest.strip()
    return calls


def _reference_invoke(text: str, tools: Sequence[ToolSpec]) -> tuple[tuple[str, dict[str, Any]], str] | None:
    if not text.startswith('<atem:invoke name="'):
        return None
    name, quote, rest = text.removeprefix('<atem:invoke name="').partition('">')
    head, _, last = name.partition(".")
    name = head if head == last and any(spec.name == head for spec in tools) else name
    spec = next((spec for spec in tools if spec.name == name), None)
    if not quote or spec is None:
        return None
    texts: dict[str, str] = {}
    while not (rest := rest.lstrip()).startswith("</atem:invoke>"):
        if not rest.startswith('<atem:parameter name="'):
            return None
        key, quote, rest = rest.removeprefix('<atem:parameter name="').partition('">')
        parts = rest.split("</atem:parameter>")
        for count in range(1, len(parts)):
            after = "</atem:parameter>".join(parts[count:]).lstrip()
            if after.startswith(("<atem:parameter", "</atem:invoke>")):
                break
        else:
            return None
        value, rest = "</atem:parameter>".join(parts[:count]), after
        hidden = [line.lstrip(" \t") for line in value.split("\n")]
        if any(line.startswith('<atem:invoke name="') and '">' in line for line in hidden):
            return None
        if any(
            line.startswith(f'<atem:parameter name="{own}">')
            for line in hidden
            for own in spec.parameters["properties"]
        ):
            return None
        if not quote or key in texts or key not in spec.parameters["properties"]:
            return None
        texts[key] = value
    if not set(spec.parameters["required"]) <= set(texts):
        return None
    try:
        made = {
            key: _reference_value(text, spec.parameters["properties"][key]) for key, text in texts.items()
        }
    except ValueError:
        return None
    return (name, made), rest.removeprefix("</atem:invoke>")


def _reference_value(text: str, schema: dict[str, Any]) -> Any:
    kind = schema.get("type")
    if kind == "string":
        return text
    if kind == ["string", "null"]:
        return None if text == "null" else text
    if kind is None:
        if text not in schema["enum"]:
            raise ValueError(text)
        return text
    value = json.loads(text)
    fits = {"integer": int, "number": int | float, "boolean": bool, "object": dict, "array": list}[kind]
    if not isinstance(value, fits) or (isinstance(value, bool) and kind != "boolean"):
        raise ValueError(text)
    return value
