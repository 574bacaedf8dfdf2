"""An array of strings as it lies in a GGUF file; nothing is decoded before it is asked for."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import overload

from engine.api import BadModel

LENGTH_BYTES = 8  # every string follows its length


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
        return map(self._text, self._pieces())

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
