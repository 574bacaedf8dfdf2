"""The ways models write tool calls, one file each, found by walking this folder.

A member declares `NAMES`; `OPENING` and `CLOSING`, the texts around a call; `recognises(template)`, whether
a chat template teaches this way; `describe(tools)` for a system message; `write(call)` and
`write_result(message)` for the history; `grammar(tools, opened)` in llguidance's Lark; `read(body, names)`,
the call between the markers.
"""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module
from types import ModuleType

DEFAULT = "json"


@cache
def members() -> dict[str, ModuleType]:
    """Every way by its names; two of one name are an error."""
    found: dict[str, ModuleType] = {}
    for info in sorted(pkgutil.iter_modules(__path__), key=lambda info: info.name):
        member = import_module(f"{__name__}.{info.name}")
        for name in member.NAMES:
            if name in found:
                raise ValueError(f"two ways of writing tool calls are named {name!r}")
            found[name] = member
    return found


def choose(template: str) -> ModuleType:
    """The way that a chat template teaches, or the plain one."""
    for member in members().values():
        if member.recognises(template):
            return member
    return members()[DEFAULT]
