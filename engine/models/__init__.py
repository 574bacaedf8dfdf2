"""Architectures. Each file in this folder is one (or several that differ in name only), and names itself.

A member has `NAMES`; `configure(file) -> Config`, from its metadata; and `build(config, tensors) -> Decoder`.
If it reads folders of safetensors too, it has `FOLDERS`: each `model_type`, and how its tensors' names begin.
It may have `SAMPLING`, what its makers advise.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import Any, Protocol, cast

from engine import kernels
from engine.api import Sampling
from engine.layers.block import Block
from engine.layers.decoder import Decoder
from engine.layers.fused import Fused, can_fuse
from engine.weights.config import Config
from engine.weights.gguf import GgufFile
from engine.weights.safetensors import SafetensorsFolder
from engine.weights.tensors import Tensors


class Architecture(Protocol):
    """A member of this folder."""

    NAMES: tuple[str, ...]

    def configure(self, file: Any) -> Config:
        """The sizes and constants that the file states: a `GgufFile`, or a folder if it is in `FOLDERS`."""

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


@cache
def folders() -> Mapping[str, tuple[Architecture, tuple[str, ...]]]:
    """Who reads model folders: by `model_type`, the architecture and how its tensors' names begin."""
    members = {id(member): member for member in architectures().values()}.values()
    return MappingProxyType(
        {kind: (member, ours) for member in members for kind, ours in getattr(member, "FOLDERS", {}).items()}
    )


def advised(architecture: str) -> Sampling | None:
    """How tokens of such a model are best chosen, if its makers say so."""
    sampling: Sampling | None = getattr(architectures()[architecture], "SAMPLING", None)
    return sampling


def configure(file: GgufFile | SafetensorsFolder) -> Config:
    """What the model in a file or a folder is; refused by name if we can't run it."""
    return _configure(file, _member(file)[0])


def load(
    file: GgufFile | SafetensorsFolder, threads: int, *, packs: bool | None = None
) -> tuple[Config, Decoder, int]:
    """Build the model that a file or a folder holds; also how many bytes its weights take.

    `packs`: matrices stay as they are stored and activations are rounded to 8 bits, which is quicker; else
    all is decoded to float32. None: if the processor has what that needs. `BadModel` names what we can't run,
    what is missing and what doesn't fit.
    """
    member, ours = _member(file)
    config, tensors = _configure(file, member), Tensors(file, threads, packs=kernels.chosen(packs))
    model = member.build(config, tensors)
    tensors.finish(*ours)
    if can_fuse(model.blocks):
        model = replace(model, fused=Fused(cast(Sequence[Block], model.blocks), model.norm, config.width))
    return config, model, tensors.bytes


def _configure(file: GgufFile | SafetensorsFolder, member: Architecture) -> Config:
    config = member.configure(file)
    if config.attention_softcap is not None:
        raise file.refuse("it softens attention scores, which Sidelight can't run yet")
    return config


def _member(file: GgufFile | SafetensorsFolder) -> tuple[Architecture, tuple[str, ...]]:
    """Who reads it, and how the names of its own tensors begin, if there are others."""
    if isinstance(file, SafetensorsFolder):
        kind, known = file.text("model_type"), folders()
        if kind in known:
            return known[kind]
        ours = ", ".join(sorted(known))
    else:
        kind, files = file.text("general.architecture"), architectures()
        if kind in files:
            return files[kind], ()
        ours = ", ".join(sorted(files))
    raise file.refuse(f"it has the architecture {kind!r}, which Sidelight can't run yet (it runs {ours})")
