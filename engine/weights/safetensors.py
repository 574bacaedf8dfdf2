"""Models as folders of safetensors files with a config.json: opened without reading the weights."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Self

import numpy as np
import torch
from safetensors import SafetensorError, safe_open

from engine.api import BadModel
from engine.quant import find_format
from engine.weights.header import shown
from engine.weights.source import Facts

__all__ = ["SafetensorsFolder", "TensorInfo"]

CONFIG, INDEX, WHOLE = "config.json", "model.safetensors.index.json", "model.safetensors"
JSON_LIMIT = 64 << 20  # bytes; a folder's two JSON files are read whole
SHARDS_LIMIT = 1_000
TENSORS_LIMIT = 100_000


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """A tensor of one of the folder's files."""

    name: str
    shape: tuple[int, ...]
    type: str  # "BF16"
    size: int  # bytes
    elements: int
    shard: str  # the file's name


class SafetensorsFolder(Facts):
    """An open model folder, with the look of a `GgufFile`; keys are config.json's: "text_config.hidden_size".

    Anything wrong with it raises `BadModel` when it is opened.
    """

    path: Path
    config: Mapping[str, Any]
    tensors: Mapping[str, TensorInfo]

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        if not self.path.is_dir():
            raise BadModel(f"There is no folder {path}.")
        self.config = MappingProxyType(_read_json(self.path / CONFIG))
        places = _places(self.path)
        self._shards = {shard: _open(self.path / shard) for shard in _shards(self, places)}
        self.file_bytes = sum((self.path / shard).stat().st_size for shard in self._shards)
        self.tensors = MappingProxyType(self._find(places))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the files. Arrays that `raw` gave stay good; the last of them to go frees its mapping."""
        self._shards.clear()

    def tensor(self, name: str) -> TensorInfo:
        """A tensor that must be there."""
        if name not in self.tensors:
            raise self.refuse(f"the tensor {name} is missing")
        return self.tensors[name]

    def raw(self, name: str) -> np.ndarray:
        """A tensor's bytes as they lie in the file: uint8, read-only, not copied."""
        stored: torch.Tensor = self._shards[self.tensor(name).shard].get_tensor(name)
        out: np.ndarray = stored.reshape(-1).view(torch.uint8).numpy()
        out.flags.writeable = False
        return out

    def release(self, name: str) -> None:
        """Nothing: the library that maps the files takes no advice."""

    def has(self, key: str) -> bool:
        """Whether config.json says anything under `key`; null is nothing."""
        return self._look(key) is not None

    def list(self, key: str) -> tuple[Any, ...]:
        """A list, of whatever."""
        value = self._value(key)
        if not isinstance(value, list):
            raise self.refuse(f"{key} is not a list")
        return tuple(value)

    def refuse(self, problem: str) -> BadModel:
        """The error that names this folder and says what is wrong with it."""
        return BadModel(f"{self.path.name}: {problem}.")

    def _look(self, key: str) -> Any:
        value: Any = self.config
        for part in key.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        return value

    def _value(self, key: str) -> Any:
        value = self._look(key)
        if value is None:
            raise self.refuse(f"{key} is missing in {CONFIG}")
        return value

    def _find(self, places: dict[str, str] | None) -> dict[str, TensorInfo]:
        """Every tensor, as its own file describes it."""
        if places is None:
            places = {name: shard for shard, file in self._shards.items() for name in file.keys()}  # noqa: SIM118
        there = {shard: frozenset(file.keys()) for shard, file in self._shards.items()}
        for name, shard in places.items():
            if name not in there[shard]:
                raise self.refuse(f"the tensor {shown(name)} is missing in {shard}, where {INDEX} places it")
        return {name: self._describe(name, shard) for name, shard in places.items()}

    def _describe(self, name: str, shard: str) -> TensorInfo:
        part = self._shards[shard].get_slice(name)
        shape, kind = tuple(part.get_shape()), str(part.get_dtype())
        storage, elements = find_format(kind), prod(shape)
        if storage is None:
            raise self.refuse(f"the tensor {shown(name)} uses {kind}, which Sidelight can't read yet")
        if not elements:
            raise self.refuse(f"the tensor {shown(name)} has a dimension of 0")
        return TensorInfo(name, shape, kind, elements * storage.bytes, elements, shard)


def _places(folder: Path) -> dict[str, str] | None:
    """Which file holds which tensor, if the folder has an index."""
    if not (folder / INDEX).exists():
        return None
    places = _read_json(folder / INDEX).get("weight_map")
    if not isinstance(places, dict) or not all(isinstance(shard, str) for shard in places.values()):
        raise BadModel(f"{folder.name}: {INDEX} does not say which file holds which tensor.")
    if len(places) > TENSORS_LIMIT:
        raise BadModel(f"{folder.name}: {INDEX} says it holds {len(places):,} tensors.")
    return places


def _shards(folder: SafetensorsFolder, places: dict[str, str] | None) -> list[str]:
    """The names of the folder's weight files, in order; an index may not point outside."""
    shards = sorted(set(places.values())) if places is not None else [WHOLE]
    if len(shards) > SHARDS_LIMIT:
        raise folder.refuse(f"{INDEX} names {len(shards):,} files")
    for shard in shards:
        if Path(shard).name != shard or "\\" in shard or not shard.endswith(".safetensors"):
            raise folder.refuse(f"{INDEX} names the file {shown(shard)}, which is not one of this folder's")
    return shards


def _open(path: Path) -> Any:
    try:
        return safe_open(path, framework="pt")
    except FileNotFoundError:
        raise BadModel(f"There is no file {path}.") from None
    except PermissionError:
        raise BadModel(f"{path} can't be opened: permission denied.") from None
    except (SafetensorError, OSError, ValueError, RuntimeError):
        problem = "it is not a safetensors file, is damaged, or is not fully downloaded"
        raise BadModel(f"{path.name}: {problem}.") from None


def _read_json(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > JSON_LIMIT:
            raise BadModel(f"{path} is larger than Sidelight reads.")
        value = json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        raise BadModel(f"There is no file {path}.") from None
    except OSError as error:
        raise BadModel(f"{path} can't be opened: {error.strerror or error}.") from None
    except (ValueError, RecursionError):  # ValueError: also bytes that are not UTF-8
        raise BadModel(f"{path.name}: it is not JSON.") from None
    if not isinstance(value, dict):
        raise BadModel(f"{path.name}: it is not a JSON object.")
    return value
