"""Writes GGUF files, version 3, little-endian: the header, then tensor after tensor as its data comes."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import BinaryIO

import numpy as np

from engine.api import EngineError
from engine.quant import format_of
from engine.weights.ggml_types import TYPE_NAMES
from engine.weights.header import ARRAY, BOOL, NUMBERS, STRING

__all__ = ["NewTensor", "Writable", "write_gguf"]

Writable = bool | int | float | str | Sequence[str] | np.ndarray
MAGIC, VERSION, ALIGNMENT = b"GGUF", 3, 32
TYPE_IDS = {name: number for number, name in TYPE_NAMES.items()}
# The formats' numbers for values; a plain whole number is the narrowest of these that holds it.
WHOLE = ((4, 0, 1 << 32), (5, -(1 << 31), 1 << 31), (10, 0, 1 << 64), (11, -(1 << 63), 1 << 63))
FLOAT = 6
NUMBER_KINDS = {kind: number for number, kind in reversed(NUMBERS.items()) if number != BOOL}


@dataclass(frozen=True, slots=True)
class NewTensor:
    """A tensor to write. `shape` is in numpy's order: columns, which lie together, last."""

    name: str
    shape: tuple[int, ...]
    type: str  # "Q4_K"

    @property
    def size(self) -> int:
        """Bytes."""
        storage = format_of(self.type)
        return prod(self.shape) // storage.block * storage.bytes


def write_gguf(
    path: Path,
    metadata: Mapping[str, Writable],
    tensors: Sequence[NewTensor],
    data: Callable[[NewTensor], Iterable[np.ndarray]],
) -> int:
    """Write a model file and return its bytes; `data` gives a tensor's bytes in pieces, asked for in order.

    Until it is complete, the file carries another name: a half-written one is never taken for a model.
    """
    if path.exists() and not path.is_file():
        raise EngineError(f"{path} can't be written: it is there already, and is not a file.")
    partial = path.with_name(f"{path.name}.partial")
    try:
        with partial.open("wb") as file:
            file.write(_header(metadata, tensors))
            for tensor in tensors:
                _write_tensor(file, tensor, data(tensor))
            size = file.tell()
        os.replace(partial, path)
    except OSError as error:
        raise EngineError(f"{path} can't be written: {error.strerror or error}.") from None
    finally:
        with suppress(OSError):
            partial.unlink()
    return size


def _header(metadata: Mapping[str, Writable], tensors: Sequence[NewTensor]) -> bytes:
    out = bytearray(MAGIC)
    out += struct.pack("<IQQ", VERSION, len(tensors), len(metadata))
    for key, value in metadata.items():
        out += _text(key)
        out += _value(key, value)
    offset = 0
    for tensor in tensors:
        if tensor.shape[-1] % format_of(tensor.type).block:
            raise ValueError(f"{tensor.name}: rows of {tensor.shape[-1]} values can't be {tensor.type}")
        out += _text(tensor.name)
        out += struct.pack(f"<I{len(tensor.shape)}Q", len(tensor.shape), *reversed(tensor.shape))
        out += struct.pack("<IQ", TYPE_IDS[tensor.type], offset)
        offset += tensor.size + -tensor.size % ALIGNMENT
    return bytes(out) + bytes(-len(out) % ALIGNMENT)


def _write_tensor(file: BinaryIO, tensor: NewTensor, pieces: Iterable[np.ndarray]) -> None:
    written = 0
    for piece in pieces:
        written += file.write(np.ascontiguousarray(piece).data.cast("B"))
    if written != tensor.size:
        raise ValueError(f"{tensor.name}: {written} bytes were given for {tensor.size}")
    file.write(bytes(-written % ALIGNMENT))


def _text(text: str) -> bytes:
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def _value(key: str, value: Writable) -> bytes:
    if isinstance(value, bool):
        return struct.pack("<I?", BOOL, value)
    if isinstance(value, int):
        kind = next((kind for kind, low, high in WHOLE if low <= value < high), None)
        if kind is None:
            raise ValueError(f"{key}: no whole number of the format holds {value}")
        return struct.pack("<I", kind) + np.array(value, NUMBERS[kind]).tobytes()
    if isinstance(value, float):
        return struct.pack("<If", FLOAT, value)
    if isinstance(value, str):
        return struct.pack("<I", STRING) + _text(value)
    return struct.pack("<I", ARRAY) + _array(value)


def _array(values: Sequence[str] | np.ndarray) -> bytes:
    if isinstance(values, np.ndarray):
        kind = BOOL if values.dtype == np.bool_ else NUMBER_KINDS[values.dtype.newbyteorder("<")]
        return struct.pack("<IQ", kind, values.size) + np.ascontiguousarray(values).tobytes()
    return struct.pack("<IQ", STRING, len(values)) + b"".join(map(_text, values))
