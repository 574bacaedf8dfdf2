"""A model file that isn't there: what a configuration alone says of it, with the look of an open file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

import numpy as np

from engine.api import BadModel
from engine.weights.blueprints import Blueprint, draw
from engine.weights.gguf import GgufFile
from engine.weights.header import TensorInfo
from engine.weights.json_facts import JsonFacts
from engine.weights.source import Facts
from engine.weights.synth import Mixture, plan_tensors

__all__ = ["Sketch", "is_sketched", "open_or_sketch"]

DTYPES = {"bfloat16": "BF16", "float16": "F16", "float32": "F32"}
CONFIG = "config.json"
TOKENS = "tokenizer.ggml.tokens"


class Sketch(Facts):
    """Keys, and tensors without values. What asks a file for its metadata can be given this."""

    metadata: Mapping[str, Any]
    tensors: Mapping[str, TensorInfo]

    def __init__(self, path: Path, blueprint: Blueprint, mixture: Mixture) -> None:
        self.path = path
        self.metadata = MappingProxyType({"general.name": path.stem, **blueprint.metadata})
        self._tokens = ("",) * (blueprint.vocab_size or 0)
        parts = {part.name: part for part in blueprint.parts}
        self.tensors = MappingProxyType(
            {
                new.name: TensorInfo(new.name, new.shape, new.type, 0, new.size, parts[new.name].elements)
                for new in plan_tensors(blueprint, mixture)
            }
        )
        self.file_bytes = sum(tensor.size for tensor in self.tensors.values())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is open."""

    def has(self, key: str) -> bool:
        """Whether the file would say anything under `key`."""
        return key in self.metadata

    def tensor(self, name: str) -> TensorInfo:
        """A tensor that must be there."""
        if name not in self.tensors:
            raise self.refuse(f"the tensor {name} is missing")
        return self.tensors[name]

    def strings(self, key: str) -> Sequence[str]:
        """A list of texts: only the vocabulary, whose texts are not known but their number is."""
        if key != TOKENS:
            raise self.refuse(f"{key} is not a list of texts")
        return self._tokens

    def numbers(self, key: str) -> np.ndarray:
        """A list of numbers."""
        value = self._value(key)
        if not isinstance(value, np.ndarray):
            raise self.refuse(f"{key} is not a list of numbers")
        return value

    def refuse(self, problem: str) -> BadModel:
        """The error that names the configuration and says what is wrong with it."""
        return BadModel(f"{self.path.name}: {problem}.")

    def _value(self, key: str) -> Any:
        if key not in self.metadata:
            raise self.refuse(f"{key} is missing")
        return self.metadata[key]


def is_sketched(path: Path) -> bool:
    """Whether it is a configuration, or a folder around one."""
    return path.is_dir() or path.suffix.lower() == ".json"


def open_or_sketch(path: Path, quant: str | None = None, kind: str | None = None) -> GgufFile | Sketch:
    """A GGUF file; or what a `config.json`, or the folder around one, says of the model.

    `quant` is how such a model would be stored, as `Mixture` reads it; None: as the configuration says.
    """
    if not is_sketched(path):
        return GgufFile(path)
    config = JsonFacts.open(path / CONFIG if path.is_dir() else path)
    return Sketch(path, draw(config, kind), Mixture.parse(quant or _stated_type(config)))


def _stated_type(config: JsonFacts) -> str:
    """How the weights beside a `config.json` are stored; today's are bfloat16 unless it says otherwise."""
    for key in ("dtype", "torch_dtype", "text_config.dtype", "text_config.torch_dtype"):
        if config.has(key):
            name = config.text(key)
            if name not in DTYPES:
                raise config.refuse(f"{key} is {name!r}, which Sidelight can't read yet")
            return DTYPES[name]
    return "BF16"
