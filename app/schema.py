"""JSON schemas of a tool's arguments: derived from a coroutine's type hints, and checked by hand."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean"}
WORDS = {"string": "text", "integer": "a whole number", "number": "a number", "boolean": "true or false"}


class SchemaError(Exception):
    """A value that does not fit its schema; the text names the field."""


def schema_of(function: Callable[..., Any], skip: int = 1) -> dict[str, Any]:
    """The schema of a function's parameters after the first `skip`. `Annotated[str, "..."]` describes one."""
    hints = get_type_hints(function, include_extras=True)
    parameters = list(inspect.signature(function).parameters.values())[skip:]
    properties = {each.name: _parameter(hints[each.name], each.default) for each in parameters}
    required = [each.name for each in parameters if each.default is inspect.Parameter.empty]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _parameter(hint: Any, default: Any) -> dict[str, Any]:
    schema = _of_type(hint)
    if default is not inspect.Parameter.empty:
        schema["default"] = default
    return schema


def _of_type(hint: Any) -> dict[str, Any]:
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        texts = [note for note in inner[1:] if isinstance(note, str)]
        return _of_type(inner[0]) | ({"description": " ".join(texts)} if texts else {})
    if origin is Literal:
        return {"enum": list(inner)}
    if origin is list:
        return {"type": "array", "items": _of_type(inner[0])}
    if origin in (Union, UnionType):
        return {"anyOf": [{"type": "null"} if each is NoneType else _of_type(each) for each in inner]}
    if hint in PLAIN:
        return {"type": PLAIN[hint]}
    raise TypeError(f"no schema for {hint!r}")


def check(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments with defaults filled in; raises SchemaError. Nothing is converted."""
    properties: Mapping[str, Any] = schema["properties"]
    for name in arguments:
        if name not in properties:
            raise SchemaError(f"it has no argument '{name}'")
    for name in schema["required"]:
        if name not in arguments:
            raise SchemaError(f"the argument '{name}' is missing")
    for name, value in arguments.items():
        _check_value(properties[name], value, name)
    defaults = {name: each["default"] for name, each in properties.items() if "default" in each}
    return {**defaults, **arguments}


def _check_value(schema: Mapping[str, Any], value: Any, name: str) -> None:
    if "anyOf" in schema:
        _check_any(schema["anyOf"], value, name)
    elif "enum" in schema:
        if not any(value == each and type(value) is type(each) for each in schema["enum"]):
            raise SchemaError(f"'{name}' must be one of {', '.join(map(repr, schema['enum']))}")
    elif schema["type"] == "array":
        _check_list(schema, value, name)
    elif not _fits(schema["type"], value):
        raise SchemaError(f"'{name}' must be {WORDS.get(schema['type'], schema['type'])}, not {_kind(value)}")
    elif isinstance(value, str):
        _check_text(value, name)


def _check_any(options: list[Mapping[str, Any]], value: Any, name: str) -> None:
    for option in options:
        try:
            return _check_value(option, value, name)
        except SchemaError:
            continue
    kinds = " or ".join(str(each.get("type", "a listed value")) for each in options)
    raise SchemaError(f"'{name}' must be {kinds}, not {_kind(value)}")


def _check_list(schema: Mapping[str, Any], value: Any, name: str) -> None:
    if not isinstance(value, list):
        raise SchemaError(f"'{name}' must be a list, not {_kind(value)}")
    for index, item in enumerate(value):
        _check_value(schema["items"], item, f"{name}[{index}]")


def _check_text(value: str, name: str) -> None:
    if any("\ud800" <= letter <= "\udfff" for letter in value):
        raise SchemaError(f"'{name}' contains half a character (a lone surrogate)")


def _fits(kind: str, value: Any) -> bool:
    match kind:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "integer":  # a bool is an int in Python, and 5.0 is not one here
            return isinstance(value, int) and not isinstance(value, bool)
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        case _:
            return isinstance(value, str)


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case float() if not math.isfinite(value):
            return "an endless number"
        case int() | float():
            return "a number"
        case str():
            return "text"
        case list():
            return "a list"
        case _:
            return "an object"
