"""Architectures. Each file in this folder is one (or several that differ in name only), and names itself.

A member has `NAMES`; `configure(file) -> Config`, from its metadata; and `build(config, tensors) -> Decoder`.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import Protocol, cast

from engine.layers.decoder import Decoder
from engine.weights.config import Config
from engine.weights.gguf import GgufFile
from engine.weights.tensors import Tensors


class Architecture(Protocol):
    """A member of this folder."""

    NAMES: tuple[str, ...]

    def configure(self, file: GgufFile) -> Config:
        """The sizes and constants that the file states."""

    def build(self, config: Config, tensors: Tensors) -> Decoder:
        """The model, its weights in memory."""


@cache
def architectures() -> Mapping[str, Architecture]:
    """Every architecture by each of its names."""
    found: dict[str, Architecture] = {}
    for module in pkgutil.iter_modules(__path__, f"{__name__}."):
        member = cast(Architecture, import_module(module.name))
        for name in member.NAMES:
            if name in found:
                raise ValueError(f"two architectures are named {name}")
            found[name] = member
    return MappingProxyType(found)


def configure(file: GgufFile) -> Config:
    """What the model in a file is; refused by name if we can't run it."""
    name = file.text("general.architecture")
    known = architectures()
    if name not in known:
        ours = ", ".join(sorted(known))
        raise file.refuse(f"it has the architecture {name!r}, which Sidelight can't run yet (it runs {ours})")
    config = known[name].configure(file)
    if config.attention_softcap is not None:
        raise file.refuse("it softens attention scores, which Sidelight can't run yet")
    return config


def load(file: GgufFile, threads: int) -> tuple[Config, Decoder, int]:
    """Build the model that a file holds; also how many bytes its weights take.

    `BadModel` names what we can't run, what is missing and what doesn't fit.
    """
    config = configure(file)
    tensors = Tensors(file, threads)
    model = architectures()[config.architecture].build(config, tensors)
    tensors.finish()
    return config, model, tensors.bytes
