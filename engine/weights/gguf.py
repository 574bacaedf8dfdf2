"""GGUF model files, versions 2 and 3, little-endian: opened without reading the weights."""

from __future__ import annotations

import mmap
import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Self

import numpy as np

from engine.api import BadModel
from engine.weights.header import Cursor, TensorInfo, Value, read_metadata, read_tensors, shown
from engine.weights.source import Facts
from engine.weights.strings import StringArray

__all__ = ["GgufFile", "StringArray", "TensorInfo"]

VERSIONS = (2, 3)
DEFAULT_ALIGNMENT = 32


class GgufFile(Facts):
    """An open model file. Anything wrong with it raises `BadModel` when it is opened."""

    path: Path
    metadata: Mapping[str, Value]
    tensors: Mapping[str, TensorInfo]

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        self._map = _map(self.path)
        self.file_bytes = len(self._map)
        cursor = Cursor(self._map, self.path.name)
        try:
            tensor_count, key_count = _read_start(cursor)
            self.metadata = MappingProxyType(read_metadata(cursor, key_count))
            if self.has("split.count") and self.integer("split.count") > 1:
                raise cursor.refuse("it is one part of a split model, which Sidelight can't read yet")
            self.tensors = MappingProxyType(
                _place(cursor, read_tensors(cursor, tensor_count), self._alignment())
            )
        except BadModel:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file. Arrays that `raw` gave stay good; the last of them to go frees the mapping."""
        with suppress(BufferError):
            self._map.close()

    def raw(self, name: str) -> np.ndarray:
        """A tensor's bytes as they lie in the file: uint8, read-only, not copied."""
        tensor = self.tensor(name)
        self._advise(tensor, "MADV_SEQUENTIAL")  # it is about to be read, front to back
        return np.frombuffer(self._map, np.uint8, tensor.size, tensor.offset)

    def release(self, name: str) -> None:
        """Let a tensor's pages go for now; what is read again comes from the file again."""
        self._advise(self.tensor(name), "MADV_DONTNEED")

    def tensor(self, name: str) -> TensorInfo:
        """A tensor that must be there."""
        if name not in self.tensors:
            raise self.refuse(f"the tensor {name} is missing")
        return self.tensors[name]

    def has(self, key: str) -> bool:
        """Whether the file says anything under `key`."""
        return key in self.metadata

    def strings(self, key: str) -> StringArray:
        """A list of texts."""
        value = self._value(key)
        if not isinstance(value, StringArray):
            raise self.refuse(f"{key} is not a list of texts")
        return value

    def numbers(self, key: str) -> np.ndarray:
        """A list of numbers, as a read-only array of the file's own type."""
        value = self._value(key)
        if not isinstance(value, np.ndarray):
            raise self.refuse(f"{key} is not a list of numbers")
        return value

    def refuse(self, problem: str) -> BadModel:
        """The error that names this file and says what is wrong with it."""
        return BadModel(f"{self.path.name}: {problem}.")

    def _value(self, key: str) -> Value:
        if key not in self.metadata:
            raise self.refuse(f"{key} is missing")
        return self.metadata[key]

    def _alignment(self) -> int:
        alignment = self.integer("general.alignment") if self.has("general.alignment") else DEFAULT_ALIGNMENT
        if alignment < 1 or alignment & (alignment - 1):
            raise self.refuse(f"general.alignment is {alignment}, which is not a power of two")
        return alignment

    def _advise(self, tensor: TensorInfo, advice: str) -> None:
        """Tell the system how a tensor's pages are used; Windows doesn't want to know."""
        if hasattr(mmap, advice):
            start = tensor.offset - tensor.offset % mmap.PAGESIZE
            self._map.madvise(getattr(mmap, advice), start, tensor.offset + tensor.size - start)


def _map(path: Path) -> mmap.mmap:
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise BadModel(f"{path} is not a file.")
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_size == 0:
                raise BadModel(f"{path.name} is empty.")
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (FileNotFoundError, NotADirectoryError):
        raise BadModel(f"There is no file {path}.") from None
    except PermissionError:
        raise BadModel(f"{path} can't be opened: permission denied.") from None
    except (OSError, ValueError) as error:  # ValueError: a name no system accepts
        raise BadModel(f"{path} can't be opened: {getattr(error, 'strerror', None) or error}.") from None


def _read_start(cursor: Cursor) -> tuple[int, int]:
    """Counts of tensors and of keys, once this is known to be a GGUF file of a kind we read."""
    if cursor.left < 4 or cursor.buffer[:4] != b"GGUF":
        raise cursor.refuse("it is not a GGUF model file")
    cursor.take(4, "its first bytes")
    version = cursor.u32("its version")
    if version & 0xFFFF == 0:
        raise cursor.refuse("it is a big-endian GGUF file, which Sidelight can't read")
    if version not in VERSIONS:
        raise cursor.refuse(f"it is GGUF version {version}; Sidelight reads versions 2 and 3")
    return cursor.u64("its count of tensors"), cursor.u64("its count of keys")


def _place(cursor: Cursor, tensors: list[TensorInfo], alignment: int) -> dict[str, TensorInfo]:
    """Tensors by name, with offsets from the start of the file; all inside it, aligned and apart."""
    start = -(-cursor.position // alignment) * alignment
    file_bytes = len(cursor.buffer)
    placed: dict[str, TensorInfo] = {}
    for tensor in tensors:
        if tensor.name in placed:
            raise cursor.refuse(f"the tensor {shown(tensor.name)} is there twice")
        if tensor.offset % alignment:
            raise cursor.refuse(
                f"the tensor {shown(tensor.name)} does not start at a multiple of {alignment}"
            )
        if start + tensor.offset + tensor.size > file_bytes:
            raise cursor.refuse(
                f"the file ends inside the tensor {shown(tensor.name)}; it is damaged or not fully downloaded"
            )
        placed[tensor.name] = replace(tensor, offset=start + tensor.offset)
    _check_apart(cursor, list(placed.values()))
    return placed


def _check_apart(cursor: Cursor, tensors: list[TensorInfo]) -> None:
    ordered = sorted(tensors, key=lambda tensor: tensor.offset)
    for before, after in pairwise(ordered):
        if before.offset + before.size > after.offset:
            raise cursor.refuse(f"the tensors {shown(before.name)} and {shown(after.name)} overlap")
