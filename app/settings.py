"""The person's settings: every option declared once, kept in a TOML file they may edit."""

from __future__ import annotations

import math
import os
import time
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.errors import UserError

Value = str | int | float | bool


@dataclass(frozen=True, slots=True)
class Option:
    """One setting. `text` says what it does; the panel and the file's comments show it."""

    name: str
    default: Value
    text: str
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()

    def check(self, value: object) -> Value:
        """`value` in the option's own type; UserError when it does not fit."""
        if type(self.default) is float and type(value) is int:
            value = float(value)
        if type(value) is not type(self.default):
            raise UserError(f"The setting {self.name} must be {KINDS[type(self.default)]}, not {value!r}.")
        if isinstance(value, str) and value != value.encode(errors="replace").decode():
            raise UserError(f"The setting {self.name} has letters that can't be written to a file.")
        if isinstance(value, str) and self.choices and value not in self.choices:
            raise UserError(
                f"The setting {self.name} must be one of {', '.join(self.choices)}, not {value!r}."
            )
        if isinstance(value, int | float) and not isinstance(value, bool):
            self._check_range(value)
        assert isinstance(value, str | int | float | bool)
        return value

    def _check_range(self, value: float) -> None:
        low = -math.inf if self.low is None else self.low
        high = math.inf if self.high is None else self.high
        if not low <= value <= high or math.isinf(value):
            raise UserError(f"The setting {self.name} must be from {low:g} to {high:g}, not {value:g}.")


KINDS = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}

OPTIONS: tuple[Option, ...] = (
    Option("model.path", "", "The model file (GGUF). Empty: the small one that comes with Sidelight."),
    Option("model.context", 0, "Tokens of a chat the model sees. 0: what it can, at most 8,192.", 0, 262_144),
    Option("model.threads", 0, "Processor threads for the model. 0: as many as there are cores.", 0, 256),
    Option("model.reply", 1_024, "The longest answer, in tokens.", 16, 65_536),
    Option(
        "model.instructions", "", "What the model is told about its task. Empty: the short text of Sidelight."
    ),
    # What a model's makers advise goes before these, where the person chose nothing. They suit the small one
    # that comes with Sidelight: at 0.7 it wanders into other languages.
    Option("sampling.temperature", 0.2, "How freely words are chosen. 0: always the likeliest.", 0, 10),
    Option("sampling.top_k", 40, "Only so many of the likeliest tokens are considered. 0: all.", 0, 100_000),
    Option("sampling.top_p", 0.9, "Only the likeliest tokens up to this total probability.", 0.01, 1),
    Option(
        "sampling.min_p", 0.05, "Tokens less likely than this share of the likeliest are skipped.", 0, 0.99
    ),
    Option("sampling.repetition_penalty", 1.1, "How strongly repeating is avoided. 1: not at all.", 0.1, 10),
    Option(
        "tools.offer",
        "auto",
        "Whether the model may ask for tools. auto: if it was trained to.",
        choices=("auto", "always", "never"),
    ),
    Option(
        "folder",
        "",
        "The one folder the file tools may use. Empty: a folder of Sidelight's own, ~/Sidelight.",
    ),
    Option("screen.monitor", 1, "Which screen is read: 1 is the first. 0: all of them.", 0, 64),
    Option(
        "window.theme",
        "system",
        "Light or dark.",
        choices=("system", "light", "dark"),
    ),
)


class Settings:
    """What the file says, over the defaults. `notices` are sentences on what was wrong with the file."""

    def __init__(self, path: Path, options: tuple[Option, ...] = OPTIONS) -> None:
        self.path = path
        self.options = {option.name: option for option in options}
        self.notices: list[str] = []
        self._values: dict[str, Value] = {}
        self._kept: dict[str, object] = {}  # what the file has and we do not know, or cannot use
        self._broken = False
        self._listeners: list[Callable[[str, Value], None]] = []
        self._read()

    def get(self, name: str) -> Value:
        """The value of a declared option."""
        return self._values.get(name, self.options[name].default)

    def is_set(self, name: str) -> bool:
        """Whether the person chose this value."""
        return name in self._values

    def text(self, name: str) -> str:
        """The value of an option that is text."""
        value = self.get(name)
        assert isinstance(value, str), name
        return value

    def whole(self, name: str) -> int:
        """The value of an option that is a whole number."""
        value = self.get(name)
        assert isinstance(value, int), name
        return value

    def number(self, name: str) -> float:
        """The value of an option that is a number."""
        value = self.get(name)
        assert isinstance(value, int | float), name
        return float(value)

    def set(self, name: str, value: Value) -> None:
        """Change an option, save the file and tell the listeners; UserError when it does not fit."""
        value = self.options[name].check(value)
        if value == self._values.get(name):
            return
        before = dict(self._values), dict(self._kept)
        self._values[name] = value
        self._kept.pop(name, None)
        try:
            self._save()
        except OSError as error:
            self._values, self._kept = before
            raise UserError(
                f"The settings can't be saved in {self.path}: {error.strerror or error}."
            ) from None
        for listener in list(self._listeners):
            listener(name, value)

    def on_change(self, listener: Callable[[str, Value], None]) -> Callable[[], None]:
        """Call `listener(name, value)` after each change; the result takes it off again."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def _read(self) -> None:
        try:
            found = flatten(tomllib.loads(self.path.read_text("utf-8")))
        except FileNotFoundError:
            return
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            self._broken = True
            self.notices.append(
                f"The settings in {self.path} can't be read ({error}); the defaults are used."
            )
            return
        except OSError as error:
            self._broken = True
            self.notices.append(f"The settings in {self.path} can't be opened: {error.strerror or error}.")
            return
        for name, value in found.items():
            self._take(name, value)

    def _take(self, name: str, value: object) -> None:
        if name not in self.options:
            self._kept[name] = value
            self.notices.append(
                f"There is no setting called {name}; it is kept in {self.path.name} but not used."
            )
            return
        try:
            self._values[name] = self.options[name].check(value)
        except UserError as error:
            self._kept[name] = value
            self.notices.append(f"{error} The default is used.")

    def _save(self) -> None:
        if self._broken and self.path.exists():
            aside = self.path.with_name(f"{self.path.stem}.broken-{time.strftime('%Y%m%d-%H%M%S')}.toml")
            os.replace(self.path, aside)
        self._broken = False
        partial = self.path.with_name(f"{self.path.name}.{os.getpid()}")
        with partial.open("w", encoding="utf-8") as file:
            file.write(render(self._contents(), self.options))
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, self.path)

    def _contents(self) -> dict[str, object]:
        """What to write; `window = 5` cannot stay beside `window.theme`."""
        clash = {name for name in self._kept if any(own.startswith(f"{name}.") for own in self._values)}
        return {**{name: value for name, value in self._kept.items() if name not in clash}, **self._values}


def flatten(table: Mapping[str, Any], under: str = "") -> dict[str, object]:
    """A nested table as dotted names."""
    flat: dict[str, object] = {}
    for key, value in table.items():
        if isinstance(value, dict):
            flat |= flatten(value, f"{under}{key}.")
        else:
            flat[f"{under}{key}"] = value
    return flat


def render(values: Mapping[str, object], options: Mapping[str, Option]) -> str:
    """Dotted names as a TOML file, one line each, with what each does in a comment."""
    lines = []
    for name in sorted(values):
        if name in options:
            lines.append(f"# {options[name].text}")
        lines.append(f"{'.'.join(_key(part) for part in name.split('.'))} = {_literal(values[name])}")
    return "\n".join(lines) + "\n"


def _key(part: str) -> str:
    return part if part.isascii() and part.replace("_", "a").replace("-", "a").isalnum() else _literal(part)


def _literal(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list):
        return "[" + ", ".join(_literal(item) for item in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(key)} = {_literal(item)}" for key, item in value.items()) + "}"
    if isinstance(value, str):
        return '"' + "".join(_escaped(letter) for letter in value) + '"'
    return str(value)  # dates and times, which TOML writes as Python does


def _escaped(letter: str) -> str:
    if letter in '"\\':
        return "\\" + letter
    return f"\\u{ord(letter):04x}" if ord(letter) < 32 or ord(letter) == 127 else letter
