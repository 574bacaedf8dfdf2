"""The ways models write tool calls, one file each, found by walking this folder.

A member declares `NAMES`; `recognises(template)`, whether a chat template teaches this way; `describe(tools)`
for a system message; `write(call)` and `write_result(message)` for the history; `grammar(tools)`, one call in
llguidance's Lark; and `reader(setting)`, what takes an answer apart. It may declare `ARCHITECTURES`, whose
files get its `TEMPLATE` if they have none; and `PICTURE`, the control tokens before, in and after a picture.
Files whose names begin with `_` are parts of members.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Protocol, cast

from engine.api import Message, ToolCall, ToolSpec
from engine.text.reader import Reader, Setting

DEFAULT = "json"


class Syntax(Protocol):
    """A member of this folder."""

    NAMES: tuple[str, ...]

    def recognises(self, template: str) -> bool:
        """Whether a chat template teaches this way."""

    def describe(self, tools: Sequence[ToolSpec]) -> str:
        """What a system message says of the tools."""

    def write(self, call: ToolCall) -> str:
        """A call as the model writes it."""

    def write_result(self, message: Message) -> str:
        """A tool's answer as the model reads it."""

    def grammar(self, tools: Sequence[ToolSpec]) -> str:
        """One call."""

    def reader(self, setting: Setting) -> Reader:
        """What takes an answer apart."""


@cache
def members() -> dict[str, Syntax]:
    """Every way by its names; two of one name are an error."""
    found: dict[str, Syntax] = {}
    for info in sorted(pkgutil.iter_modules(__path__), key=lambda info: info.name):
        if info.name.startswith("_"):
            continue
        member = cast(Syntax, import_module(f"{__name__}.{info.name}"))
        for name in member.NAMES:
            if name in found:
                raise ValueError(f"two ways of writing tool calls are named {name!r}")
            found[name] = member
    return found


def choose(template: str) -> Syntax:
    """The way that a chat template teaches, or the plain one."""
    for member in members().values():
        if member.recognises(template):
            return member
    return members()[DEFAULT]


def picture_marks(syntax: Syntax) -> tuple[str, ...]:
    """The control tokens before, in and after a picture; none if models of this way see nothing."""
    return getattr(syntax, "PICTURE", ())


def template_for(architecture: str) -> str | None:
    """The template of a way that models of this architecture were taught, if there is one."""
    for member in members().values():
        if architecture in getattr(member, "ARCHITECTURES", ()):
            template: str = getattr(member, "TEMPLATE")  # noqa: B009 - only such members have one
            return template
    return None
