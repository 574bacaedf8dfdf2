"""What a file of weights offers, whatever its format: tensors by name, and facts by key."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from math import isfinite
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from engine.api import BadModel


class Stored(Protocol):
    """A tensor as it is stored. `shape` is in numpy's order: columns, which lie together, last."""

    @property
    def name(self) -> str:
        """Its name in the file."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Its sizes."""

    @property
    def type(self) -> str:
        """How its values are stored, such as "BF16": a name that `engine.quant` knows."""

    @property
    def size(self) -> int:
        """Bytes."""

    @property
    def elements(self) -> int:
        """Values."""


class WeightFile(Protocol):
    """An open file of weights, or a folder of such files."""

    path: Path
    file_bytes: int

    @property
    def tensors(self) -> Mapping[str, Stored]:
        """Every tensor by its name."""

    def tensor(self, name: str) -> Stored:
        """A tensor that must be there."""

    def raw(self, name: str) -> np.ndarray:
        """A tensor's bytes as they lie in the file: uint8, read-only, not copied."""

    def release(self, name: str) -> None:
        """Let the memory go in which a tensor's bytes have been read; `raw` arrays stay good."""

    def refuse(self, problem: str) -> BadModel:
        """The error that names this file and says what is wrong with it."""


class Facts:
    """Values under keys, each asked for with its type; wrong or missing: `BadModel`, by the key."""

    @abstractmethod
    def has(self, key: str) -> bool:
        """Whether the file says anything under `key`."""

    @abstractmethod
    def refuse(self, problem: str) -> BadModel:
        """The error that names this file and says what is wrong with it."""

    @abstractmethod
    def _value(self, key: str) -> Any: ...

    def number(self, key: str) -> float:
        """A finite number, whole or not."""
        value = self._value(key)
        if isinstance(value, bool) or not isinstance(value, int | float) or not _is_finite(value):
            raise self.refuse(f"{key} is not a number")
        return float(value)

    def integer(self, key: str) -> int:
        """A whole number."""
        value = self._value(key)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.refuse(f"{key} is not a whole number")
        return value

    def text(self, key: str) -> str:
        """A text."""
        value = self._value(key)
        if not isinstance(value, str):
            raise self.refuse(f"{key} is not a text")
        return value

    def flag(self, key: str) -> bool:
        """True or false."""
        value = self._value(key)
        if not isinstance(value, bool):
            raise self.refuse(f"{key} is neither true nor false")
        return value


def _is_finite(value: float) -> bool:
    try:
        return isfinite(value)
    except OverflowError:  # a whole number beyond what a float holds
        return False
