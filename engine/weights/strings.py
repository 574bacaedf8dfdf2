"""An array of strings as it lies in a GGUF file; nothing is decoded before it is asked for."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from itertools import chain
from mmap import mmap
from typing import overload

import numpy as np

from engine.api import BadModel

LENGTH_BYTES = 8  # every string follows its length
WINDOW = 1 << 15  # bytes looked at together


class StringArray(Sequence[str]):
    """Strings that lie end to end, each after its length. `where` names file and key in errors."""

    def __init__(self, data: bytes, ends: array[int], where: str) -> None:
        self._data, self._ends, self._where = data, ends, where

    def __len__(self) -> int:
        return len(self._ends)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(len(self)))]
        at = range(len(self))[index]  # negative and outside indices as in a list
        start = self._ends[at - 1] if at else 0
        return self._text(self._data[start + LENGTH_BYTES : self._ends[at]])

    def __iter__(self) -> Iterator[str]:
        return iter(self.to_list())

    def to_list(self) -> list[str]:
        """Every string; quickly, unless one holds a zero byte."""
        values, starts = np.frombuffer(self._data, np.uint8).copy(), np.zeros(len(self) + 1, np.int64)
        starts[1:] = np.frombuffer(self._ends, np.int64) if len(self) else 0
        for place in range(LENGTH_BYTES):
            values[starts[:-1] + place] = 0
        try:
            texts = values.tobytes().replace(bytes(LENGTH_BYTES), b"\0").decode().split("\0")
        except UnicodeDecodeError:
            texts = []
        return texts[1:] if len(texts) == len(self) + 1 else list(map(self._text, self._pieces()))

    def to_bytes(self) -> list[bytes]:
        """Every string as its bytes, which need not be UTF-8."""
        return list(self._pieces())

    def _pieces(self) -> Iterator[bytes]:
        data = self._data
        starts = chain((0,), self._ends)
        return (data[start + LENGTH_BYTES : end] for start, end in zip(starts, self._ends, strict=False))

    def _text(self, piece: bytes) -> str:
        try:
            return piece.decode()
        except UnicodeDecodeError:
            raise BadModel(f"{self._where} holds a text that is not UTF-8.") from None


def find_ends(buffer: mmap, start: int, end: int, count: int) -> list[int]:
    """Where the first of `count` strings end, counted from `start`: those that are quickly found, maybe none.

    A string shorter than 256 bytes begins with its length and seven zeros. Such places are found many at a
    time; the first that doesn't follow the one before ends the search.
    """
    found, position, goes_on = list[int](), start, True
    while goes_on and len(found) < count:
        values = np.frombuffer(buffer, np.uint8, min(WINDOW, end - position), position)
        ends, goes_on = _chain(values)
        inside = ends[ends <= end - position]
        goes_on = goes_on and len(inside) == len(ends)
        found += (inside[: count - len(found)] + (position - start)).tolist()
        position = start + found[-1] if found else start
    return found


def _chain(values: np.ndarray) -> tuple[np.ndarray, bool]:
    """Where strings end that follow each other from the first byte on; whether there may be more of them."""
    zero = values == 0
    two = zero[:-1] & zero[1:]
    four = two[:-2] & two[2:]
    places = np.flatnonzero(four[1:-3] & four[4:])  # of lengths: seven zeros follow
    ends = places + LENGTH_BYTES + values[places]
    if not len(places) or places[0] != 0:
        return ends[:0], False
    broken = np.flatnonzero(ends[:-1] != places[1:])
    return (ends[: int(broken[0]) + 1], False) if len(broken) else (ends, True)
