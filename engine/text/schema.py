"""JSON schemas, as far as reading and writing a tool's arguments needs them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NoReturn

KINDS = frozenset(("string", "integer", "number", "boolean", "null", "array", "object"))
MOST_REFERENCES = 8  # one through another
GUIDANCE = {"whitespace_pattern": " ?", "lenient": True}  # for llguidance

Schema = Mapping[str, Any]


class Unfit(ValueError):
    """A text that is no value of its schema; says what it would have to be."""


def as_rule(schema: Schema, root: Schema | None = None) -> str:
    """The schema as llguidance takes it; definitions that it refers to are found in `root`."""
    defined = {key: root[key] for key in ("$defs", "definitions") if root and key in root}
    return "%json " + json.dumps({**defined, **schema, "x-guidance": GUIDANCE})


def follow(schema: object, root: Schema) -> Schema:
    """The schema that a reference within `root` leads to; anything goes where it leads nowhere."""
    for _ in range(MOST_REFERENCES):
        if not isinstance(schema, Mapping):
            return {}
        if not isinstance(reference := schema.get("$ref"), str):
            return schema
        schema = _at(root, reference)
    return {}


def kinds(schema: Schema, root: Schema, depth: int = 0) -> frozenset[str]:
    """Types that a value may have; all of them if nothing is said."""
    schema, found = follow(schema, root), KINDS
    if isinstance(named := schema.get("type"), str | list):
        found &= frozenset([named] if isinstance(named, str) else named)
    for key in ("enum", "const"):
        if key in schema:
            values = schema[key] if key == "enum" else [schema[key]]
            found &= frozenset().union(*(_kinds_of(value) for value in values))
    if depth < MOST_REFERENCES:
        for key in ("anyOf", "oneOf"):
            if isinstance(options := schema.get(key), list) and options:
                found &= frozenset().union(*(kinds(option, root, depth + 1) for option in options))
        for part in schema.get("allOf", ()):
            found &= kinds(part, root, depth + 1)
    return found


def decode(text: str, schema: Schema, root: Schema) -> Any:
    """The value that `text` is: as it stands where a string is declared, else JSON; `Unfit` if neither."""
    if (chosen := choices(schema, root)) is not None:
        for choice in chosen:
            if encode(choice) == (text if isinstance(choice, str) else text.strip()):
                return choice
        raise Unfit("one of " + ", ".join(encode(choice) for choice in chosen))
    allowed = kinds(schema, root)
    if "string" in allowed and allowed != KINDS:
        return None if "null" in allowed and text == "null" else text
    return _value(text, allowed)


def choices(schema: Schema, root: Schema) -> list[Any] | None:
    """The values that a schema lists, if it does."""
    schema = follow(schema, root)
    if "const" in schema:
        return [schema["const"]]
    listed = schema.get("enum")
    return listed if isinstance(listed, list) else None


def encode(value: object) -> str:
    """A value as it is written: a string as it stands, else JSON."""
    return value if isinstance(value, str) else dump(value)


def dump(value: object) -> str:
    """JSON that keeps every letter readable."""
    return json.dumps(value, ensure_ascii=False)


def whole(value: Any) -> Any:
    """Without halves of characters, which JSON can write and no file can take; ValueError if infinite."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return json.loads(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))


def _value(text: str, allowed: frozenset[str]) -> Any:
    try:
        value = whole(json.loads(text, parse_constant=_refuse))
    except (ValueError, RecursionError):
        value = text
    value = text if isinstance(value, str) else value  # quotation marks are part of a string here
    if not _kinds_of(value) & allowed or (value is text and allowed != KINDS):
        raise Unfit(" or ".join(sorted(allowed)) or "nothing")
    return value


def _refuse(name: str) -> NoReturn:
    raise ValueError(name)  # NaN and infinities are no JSON


def _kinds_of(value: object) -> frozenset[str]:
    match value:
        case None:
            return frozenset(("null",))
        case bool():
            return frozenset(("boolean",))
        case int():
            return frozenset(("integer", "number"))
        case float():
            return frozenset(("number",))
        case str():
            return frozenset(("string",))
        case list() | tuple():
            return frozenset(("array",))
        case _:
            return frozenset(("object",))


def _at(root: Schema, reference: str) -> object:
    """The part of `root` at a pointer such as `#/$defs/size`."""
    at: object = root
    if not reference.startswith("#"):
        return None
    for step in reference.removeprefix("#").split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        at = at.get(step) if isinstance(at, Mapping) else None
    return at
