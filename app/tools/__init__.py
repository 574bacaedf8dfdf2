"""The tools: one file each, found by walking this folder."""

from __future__ import annotations

import importlib
import pkgutil

from app.tool import Tool


def find() -> dict[str, Tool]:
    """Every tool by its name; two of one name are an error."""
    found: dict[str, Tool] = {}
    for info in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{info.name}")
        for each in vars(module).values():
            if not isinstance(each, Tool) or found.get(each.name) is each:
                continue
            if each.name in found:
                raise ValueError(f"two tools are called {each.name}")
            found[each.name] = each
    return found
