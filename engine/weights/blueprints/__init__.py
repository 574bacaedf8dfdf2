"""What a model's file would hold, from its configuration alone: keys, and tensors with their shapes.

Each file in this folder is an architecture. A member has `NAMES` (in GGUF files), `MODEL_TYPES` (in the
`config.json` of a model folder), `metadata(config) -> keys` and `parts(keys) -> tensors`.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import Any, Protocol, cast

import numpy as np

from engine.weights.blueprints._parts import Blueprint, Part
from engine.weights.config import Keys
from engine.weights.gguf_writer import Writable
from engine.weights.json_facts import JsonFacts

__all__ = ["Blueprint", "Member", "Part", "draw", "members"]

ARCHITECTURE, MODEL_TYPE = "general.architecture", "model_type"


class Member(Protocol):
    """A file of this folder."""

    NAMES: tuple[str, ...]
    MODEL_TYPES: tuple[str, ...]

    def metadata(self, config: JsonFacts) -> dict[str, Writable]:
        """A `config.json` as a GGUF file would put it."""

    def parts(self, keys: Keys) -> list[Part]:
        """The tensors, in the order of the file."""


@cache
def members() -> Mapping[str, Member]:
    """Every architecture by each of its names, of both kinds."""
    found: dict[str, Member] = {}
    for module in pkgutil.iter_modules(__path__, f"{__name__}."):
        if module.name.rpartition(".")[2].startswith("_"):
            continue
        member = cast(Member, import_module(module.name))
        for name in {*member.NAMES, *member.MODEL_TYPES}:
            if name in found:
                raise ValueError(f"two blueprints are named {name}")
            found[name] = member
    return MappingProxyType(found)


def draw(config: JsonFacts, name: str | None = None) -> Blueprint:
    """The blueprint of a configuration: a folder's `config.json`, or an object of GGUF keys.

    `name` picks one of several models that a `config.json` describes, such as "clip" for its vision half.
    """
    if config.has(ARCHITECTURE):
        member, name = _member(config, config.text(ARCHITECTURE)), config.text(ARCHITECTURE)
        metadata = {key: _writable(config, key, value) for key, value in config.values.items()}
    else:
        member = _member(config, name or config.text(MODEL_TYPE))
        name, metadata = member.NAMES[0], {}
        metadata = {ARCHITECTURE: name, **member.metadata(config)}
    keys = Keys(JsonFacts(metadata, config.name), name)
    return Blueprint(name, metadata, tuple(member.parts(keys)))


def _member(config: JsonFacts, name: str) -> Member:
    if name not in members():
        ours = ", ".join(sorted(members()))
        raise config.refuse(f"it describes a model of the kind {name!r}; known are {ours}")
    return members()[name]


def _writable(config: JsonFacts, key: str, value: Any) -> Writable:
    """A value of a JSON object as a GGUF file may hold it."""
    if isinstance(value, list):
        array = np.array(value)
        if array.dtype.kind not in "bif" or array.ndim != 1:
            raise config.refuse(f"{key} is not a list of numbers")
        return array.astype({"b": np.bool_, "i": np.int32, "f": np.float32}[array.dtype.kind])
    if not isinstance(value, bool | int | float | str):
        raise config.refuse(f"{key} is not a value that a model file can hold")
    return value
