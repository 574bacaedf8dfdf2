"""Made-up model files of any size: valid in every way, with random weights, for tests, speed and planning."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from math import prod
from pathlib import Path

import numpy as np

from engine.api import BadRequest
from engine.quant import find_format, format_of
from engine.quant._random import random_blocks
from engine.weights.blueprints import Blueprint, Part, draw
from engine.weights.gguf_writer import NewTensor, Writable, write_gguf
from engine.weights.json_facts import JsonFacts
from engine.weights.toy_tokenizer import toy_tokenizer

__all__ = ["TYPES", "Mixture", "stored_type", "synthesise"]

# Storage types, and the number by which a file says that it is mostly of this type.
TYPES = {
    "F32": 0, "F16": 1, "Q4_0": 2, "Q4_1": 3, "Q8_0": 7, "Q5_0": 8, "Q5_1": 9, "Q2_K": 10, "Q3_K": 12,
    "Q4_K": 15, "Q5_K": 17, "Q6_K": 18, "BF16": 32,
}  # fmt: skip
# What takes a format's place in rows that its blocks don't divide.
FALLBACKS = {
    "Q2_K": "Q4_0", "Q3_K": "Q4_0", "Q4_K": "Q5_0", "Q5_K": "Q5_1", "Q6_K": "Q8_0",
    "Q4_0": "F16", "Q4_1": "F16", "Q5_0": "F16", "Q5_1": "F16", "Q8_0": "F16",
}  # fmt: skip
PUBLISHED = {"Q4_K_M": "Q4_K+Q6_K", "Q5_K_M": "Q5_K+Q6_K"}
LAYER = re.compile(r"\bblk\.(\d+)\.")
PIECE = 1 << 20  # values made at a time


@dataclass(frozen=True, slots=True)
class Mixture:
    """How a file stores its matrices: mostly as `main`; as `fine` the head, and in about half of the layers,
    as published mixtures do, values and down-projections.
    """

    main: str
    fine: str

    @classmethod
    def parse(cls, text: str) -> Mixture:
        """One type for all such as "Q8_0", or two: "Q4_K+Q6_K", which is also known as Q4_K_M."""
        main, _, fine = PUBLISHED.get(text.upper(), text.upper()).partition("+")
        for name in (main, fine or main):
            if name not in TYPES or find_format(name) is None:
                ours = ", ".join(TYPES)
                raise BadRequest(f"{name} isn't a storage type that can be written; known are {ours}.")
        return cls(main, fine or main)


def stored_type(part: Part, mixture: Mixture, layers: int, *, is_tied: bool) -> str:
    """The storage type of a tensor: float32 for vectors, else what the mixture says and its rows allow."""
    if part.kind == "vector":
        return "F32"
    is_fine = (
        part.kind == "output"
        or (part.kind == "embedding" and is_tied)  # it is the output matrix too
        or (part.kind == "fine" and _is_favoured(_layer(part), layers))
    )
    kind = mixture.fine if is_fine else mixture.main
    while part.shape[-1] % format_of(kind).block:
        kind = FALLBACKS[kind]
    return kind


def synthesise(config: JsonFacts, quant: str, path: Path, *, seed: int = 0, kind: str | None = None) -> int:
    """Write a model of this configuration, and return its bytes. The same arguments give the same file.

    `kind`: which of several models that the configuration describes, such as "clip".
    """
    if seed < 0:
        raise BadRequest(f"The seed can't be negative, as {seed} is.")
    blueprint, mixture = draw(config, kind), Mixture.parse(quant)
    tensors = plan_tensors(blueprint, mixture)
    parts = dict(zip((tensor.name for tensor in tensors), blueprint.parts, strict=True))
    # Each tensor has a generator of its own, so that its values don't depend on what is written before it.
    seeds = dict(zip(parts, count(), strict=False))

    def data(tensor: NewTensor) -> Iterator[np.ndarray]:
        chance = np.random.Generator(np.random.SFC64([seed, seeds[tensor.name]]))
        return _values(tensor, parts[tensor.name], chance)

    return write_gguf(path, _metadata(blueprint, mixture, path), tensors, data)


def plan_tensors(blueprint: Blueprint, mixture: Mixture) -> list[NewTensor]:
    """The tensors of a file, each with its storage type."""
    is_tied = not any(part.kind == "output" for part in blueprint.parts)
    layers = max(map(_layer, blueprint.parts)) + 1
    return [
        NewTensor(part.name, part.shape, stored_type(part, mixture, layers, is_tied=is_tied))
        for part in blueprint.parts
    ]


def _layer(part: Part) -> int:
    """Which layer a tensor belongs to; -1 for none."""
    found = LAYER.search(part.name)
    return int(found[1]) if found else -1


def _is_favoured(layer: int, layers: int) -> bool:
    """The first and the last eighth of the layers, and every third in between."""
    eighth = layers // 8
    return not eighth <= layer < 7 * layers // 8 or (layer - eighth) % 3 == 2


def _metadata(blueprint: Blueprint, mixture: Mixture, path: Path) -> dict[str, Writable]:
    keys: dict[str, Writable] = {
        "general.architecture": blueprint.architecture,
        "general.name": f"Synthetic {path.stem}",
        "general.file_type": TYPES[mixture.main],
        "general.quantization_version": 2,
    }
    keys |= blueprint.metadata
    if blueprint.vocab_size is not None:
        keys |= toy_tokenizer(blueprint.architecture, blueprint.vocab_size)
    return keys


def _values(tensor: NewTensor, part: Part, chance: np.random.Generator) -> Iterator[np.ndarray]:
    """A tensor's bytes, piece by piece."""
    spread = part.shape[-1] ** -0.5 if part.spread is None else part.spread
    storage, left = format_of(tensor.type), prod(tensor.shape)
    while left:
        values = min(left, PIECE // storage.block * storage.block)
        raw = random_blocks(tensor.type, values // storage.block, spread, chance)
        if part.mean:
            raw = (raw.view(np.float32) + np.float32(part.mean)).view(np.uint8)
        yield raw
        left -= values
