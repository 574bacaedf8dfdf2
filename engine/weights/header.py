"""The part of a GGUF file before its tensor data. Everything a file says is checked before it is believed."""

from __future__ import annotations

import struct
from array import array
from dataclasses import dataclass
from math import prod
from mmap import mmap

import numpy as np

from engine.api import BadModel
from engine.quant import Format, find_format
from engine.weights.ggml_types import TYPE_NAMES
from engine.weights.strings import LENGTH_BYTES, StringArray, find_ends

Value = bool | int | float | str | np.ndarray | StringArray

# What no honest file comes near; a hostile one cannot make us spend more.
HEADER_LIMIT = 256 << 20  # bytes
ENTRY_LIMIT = 100_000  # keys, and tensors
STRINGS_LIMIT = 1 << 22  # strings in one array
KEY_LIMIT = 65_535  # bytes, of the format's own making
DIMENSIONS_LIMIT = 4

BOOL, STRING, ARRAY = 7, 8, 9
NUMBERS: dict[int, np.dtype] = {
    0: np.dtype("<u1"),
    1: np.dtype("<i1"),
    2: np.dtype("<u2"),
    3: np.dtype("<i2"),
    4: np.dtype("<u4"),
    5: np.dtype("<i4"),
    6: np.dtype("<f4"),
    7: np.dtype("<u1"),
    10: np.dtype("<u8"),
    11: np.dtype("<i8"),
    12: np.dtype("<f8"),
}


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """Where a tensor lies. `shape` is in numpy's order: columns, which lie together, last."""

    name: str
    shape: tuple[int, ...]
    type: str  # "Q4_K"
    offset: int  # bytes from the start of the file
    size: int  # bytes
    elements: int


class Cursor:
    """Reads one value after another and never beyond the end; `name` is the file's, for errors."""

    def __init__(self, buffer: mmap, name: str) -> None:
        self.buffer, self.name, self.position = buffer, name, 0
        self.end = min(len(buffer), HEADER_LIMIT)

    def refuse(self, problem: str) -> BadModel:
        """The error that says what is wrong with the file."""
        return BadModel(f"{self.name}: {problem}.")

    @property
    def left(self) -> int:
        """Bytes not yet read."""
        return self.end - self.position

    def take(self, count: int, what: str) -> int:
        """Step over `count` bytes of `what` and return where they start."""
        if count > self.left:
            if self.end < len(self.buffer):
                raise self.refuse(f"{what} is larger than Sidelight reads")
            raise self.refuse(f"the file ends inside {what}; it is damaged or not fully downloaded")
        self.position += count
        return self.position - count

    def u32(self, what: str) -> int:
        """The next 32-bit count."""
        return int(struct.unpack_from("<I", self.buffer, self.take(4, what))[0])

    def u64(self, what: str) -> int:
        """The next 64-bit count."""
        return int(struct.unpack_from("<Q", self.buffer, self.take(8, what))[0])

    def text(self, what: str, limit: int = HEADER_LIMIT) -> str:
        """The next string."""
        length = self.u64(what)
        if length > limit:
            raise self.refuse(f"{what} says it is {length:,} bytes long")
        start = self.take(length, what)
        try:
            return self.buffer[start : start + length].decode()
        except UnicodeDecodeError:
            raise self.refuse(f"{what} is not UTF-8 text") from None

    def numbers(self, kind: int, count: int, what: str) -> np.ndarray:
        """The next `count` numbers, copied, so that they outlive the file."""
        dtype = NUMBERS[kind]
        start = self.take(count * dtype.itemsize, what)
        values = np.frombuffer(self.buffer, dtype, count, start).copy()
        if kind == BOOL:
            if values.size and values.max() > 1:
                raise self.refuse(f"{what} is neither true nor false")
            values = values.astype(np.bool_)
        values.flags.writeable = False
        return values

    def strings(self, count: int, what: str) -> StringArray:
        """The next `count` strings. Only their lengths are read: each says where the next one begins."""
        if count > STRINGS_LIMIT:
            raise self.refuse(f"{what} says it holds {count:,} texts")
        start = self.position
        ends = array("q", find_ends(self.buffer, start, self.end, count))
        position = start + (ends[-1] if ends else 0)
        last, buffer, unpack = self.end - LENGTH_BYTES, self.buffer, struct.Struct("<Q").unpack_from
        for _ in range(count - len(ends)):
            if position > last:
                break
            position += LENGTH_BYTES + unpack(buffer, position)[0]
            ends.append(min(position, self.end + 1) - start)
        if len(ends) < count or position > self.end:
            self.take(self.left + 1, what)
        self.position = position
        return StringArray(buffer[start:position], ends, f"{self.name}: {what}")


def read_metadata(cursor: Cursor, count: int) -> dict[str, Value]:
    """The `count` keys and values that follow."""
    values: dict[str, Value] = {}
    _check_count(cursor, count, least_bytes=13, what="keys")
    for index in range(count):
        key = cursor.text(f"the name of key {index + 1}", KEY_LIMIT)
        if key in values:
            raise cursor.refuse(f"the key {shown(key)} is there twice")
        values[key] = _value(cursor, shown(key))
    return values


def _value(cursor: Cursor, key: str) -> Value:
    kind = cursor.u32(key)
    if kind == STRING:
        return cursor.text(key)
    if kind == ARRAY:
        return _array(cursor, key)
    if kind not in NUMBERS:
        raise cursor.refuse(f"{key} has a value of the unknown kind {kind}")
    value: bool | int | float = cursor.numbers(kind, 1, key)[0].item()
    return value


def _array(cursor: Cursor, key: str) -> np.ndarray | StringArray:
    kind, count = cursor.u32(key), cursor.u64(key)
    if kind == STRING:
        return cursor.strings(count, key)
    if kind == ARRAY:
        raise cursor.refuse(f"{key} holds lists inside a list, which Sidelight can't read")
    if kind not in NUMBERS:
        raise cursor.refuse(f"{key} has values of the unknown kind {kind}")
    return cursor.numbers(kind, count, key)


def read_tensors(cursor: Cursor, count: int) -> list[TensorInfo]:
    """The `count` descriptions of tensors that follow, with offsets from where the data starts."""
    _check_count(cursor, count, least_bytes=32, what="tensors")
    return [_tensor(cursor, index) for index in range(count)]


def _tensor(cursor: Cursor, index: int) -> TensorInfo:
    name = cursor.text(f"the name of tensor {index + 1}", KEY_LIMIT)
    what = f"the tensor {shown(name)}"
    dimensions = cursor.u32(what)
    if not 1 <= dimensions <= DIMENSIONS_LIMIT:
        raise cursor.refuse(f"{what} has {dimensions} dimensions")
    shape = tuple(cursor.u64(what) for _ in range(dimensions))[::-1]
    type_id = cursor.u32(what)
    offset = cursor.u64(what)
    if 0 in shape:
        raise cursor.refuse(f"{what} has a dimension of 0")
    storage = _format(cursor, type_id, what)
    if shape[-1] % storage.block:
        raise cursor.refuse(
            f"{what} has rows of {shape[-1]:,} values, which {TYPE_NAMES[type_id]} can't hold"
        )
    elements = prod(shape)
    return TensorInfo(
        name, shape, TYPE_NAMES[type_id], offset, elements // storage.block * storage.bytes, elements
    )


def _format(cursor: Cursor, type_id: int, what: str) -> Format:
    if type_id not in TYPE_NAMES:
        raise cursor.refuse(f"{what} has the unknown storage type {type_id}")
    found = find_format(TYPE_NAMES[type_id])
    if found is None:
        raise cursor.refuse(f"{what} uses {TYPE_NAMES[type_id]}, which Sidelight can't read yet")
    return found


def _check_count(cursor: Cursor, count: int, least_bytes: int, what: str) -> None:
    if count > min(ENTRY_LIMIT, cursor.left // least_bytes):
        raise cursor.refuse(f"it says it holds {count:,} {what}, which can't be; it is damaged")


def shown(name: str) -> str:
    """A name from the file as it may stand in a sentence: short, and without control characters."""
    plain = "".join(letter if letter.isprintable() else "?" for letter in name[:80])
    return f"{plain}..." if len(name) > 80 else plain or "(without a name)"
