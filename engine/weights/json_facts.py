"""Facts from a JSON object, as `config.json` holds them: "text_config.hidden_size" is a key inside a key."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from engine.api import BadModel
from engine.weights.source import Facts

LIMIT = 64 << 20  # bytes


class JsonFacts(Facts):
    """Values of a JSON object under their keys; `name` is the file's, for errors."""

    def __init__(self, values: Mapping[str, Any], name: str, prefix: str = "") -> None:
        self.values, self.name, self.prefix = values, name, prefix

    @classmethod
    def open(cls, path: Path) -> Self:
        """The facts of a file; `BadModel` if it isn't there or isn't a JSON object."""
        try:
            if path.stat().st_size > LIMIT:
                raise BadModel(f"{path} is larger than Sidelight reads.")
            values = json.loads(path.read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            raise BadModel(f"There is no file {path}.") from None
        except OSError as error:
            raise BadModel(f"{path} can't be opened: {error.strerror or error}.") from None
        except (ValueError, RecursionError):  # ValueError: also bytes that are not UTF-8
            raise BadModel(f"{path.name}: it is not JSON.") from None
        if not isinstance(values, dict):
            raise BadModel(f"{path.name}: it is not a JSON object.")
        return cls(values, path.name)

    def has(self, key: str) -> bool:
        """Whether there is anything under `key`; null is nothing."""
        return self._look(key) is not None

    def under(self, key: str) -> JsonFacts:
        """The object under `key`, as facts of its own; these themselves if there is none."""
        inner = self._look(key)
        if not isinstance(inner, Mapping):
            return self
        return JsonFacts(inner, self.name, f"{self.prefix}{key}.")

    def list(self, key: str) -> tuple[Any, ...]:
        """A list, of whatever."""
        value = self._value(key)
        if not isinstance(value, list | tuple):
            raise self.refuse(f"{self.prefix}{key} is not a list")
        return tuple(value)

    def refuse(self, problem: str) -> BadModel:
        """The error that names this file and says what is wrong with it."""
        return BadModel(f"{self.name}: {problem}.")

    def _look(self, key: str) -> Any:
        if key in self.values:
            return self.values[key]
        value: Any = self.values
        for part in key.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        return value

    def _value(self, key: str) -> Any:
        value = self._look(key)
        if value is None:
            raise self.refuse(f"{self.prefix}{key} is missing")
        return value
