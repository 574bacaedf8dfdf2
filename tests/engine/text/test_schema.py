from __future__ import annotations

import random
import string
from typing import Any

import pytest

from engine.text.schema import KINDS, Unfit, decode, encode, kinds, whole

ROOT = {"$defs": {"n": {"type": "integer"}, "loop": {"$ref": "#/$defs/loop"}, "a/b": {"type": "null"}}}


@pytest.mark.parametrize(
    "schema, found",
    [
        ({"type": "string"}, {"string"}),
        ({"type": ["string", "null"]}, {"string", "null"}),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, {"integer", "null"}),
        ({"type": "string", "oneOf": [{"maxLength": 1}, {"type": "object"}]}, {"string"}),
        ({"allOf": [{"type": ["string", "array"]}, {"type": ["array", "null"]}]}, {"array"}),
        ({"enum": ["a", None]}, {"string", "null"}),
        ({"const": 1}, {"integer", "number"}),
        ({"$ref": "#/$defs/n"}, {"integer"}),
        ({"$ref": "#/$defs/a~1b"}, {"null"}),
        ({}, KINDS),
        ({"$ref": "#/$defs/loop"}, KINDS),
        ({"$ref": "#/nowhere/at/all"}, KINDS),
        ({"$ref": "https://elsewhere"}, KINDS),
        (True, KINDS),
    ],
)
def test_kinds(schema: Any, found: set[str]):
    assert kinds(schema, ROOT) == found


@pytest.mark.parametrize(
    "text, schema, value",
    [
        ("5", {"type": "string"}, "5"),
        ("null", {"type": "string"}, "null"),
        ("null", {"type": ["string", "null"]}, None),
        ("[1]", {"type": ["string", "array"]}, "[1]"),
        ("5", {"type": "integer"}, 5),
        ("-0", {"type": "integer"}, 0),
        ("5", {"type": "number"}, 5),
        ("5e-1", {"type": "number"}, 0.5),
        (" true ", {"type": "boolean"}, True),
        ("null", {"type": "null"}, None),
        ('{"a": "\\ud83d\\ude00"}', {"type": "object"}, {"a": "😀"}),
        ('["\\ud83d"]', {"type": "array"}, ["\ufffd"]),
        ("7", {"$ref": "#/$defs/n"}, 7),
        ("1", {"enum": [1, "1"]}, 1),
        ("1", {"enum": ["1", 1]}, "1"),
        ("true", {"const": True}, True),
        ("5", {}, 5),
        ("{a", {}, "{a"),
        ('"a"', {}, '"a"'),
        ("", {}, ""),
        ("NaN", {}, "NaN"),
        ("1e999", {}, "1e999"),
    ],
)
def test_a_value_is_read_by_its_schema(text: str, schema: dict[str, Any], value: Any):
    found = decode(text, schema, ROOT)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    "text, schema",
    [
        ("5.5", {"type": "integer"}),
        ("5.0", {"type": "integer"}),
        ("a", {"type": "integer"}),
        ("", {"type": "boolean"}),
        ("True", {"type": "boolean"}),
        ("1", {"type": "boolean"}),
        ("true", {"type": "number"}),
        ("NaN", {"type": "number"}),
        ("-Infinity", {"type": "number"}),
        ("1e999", {"type": "number"}),
        ("9" * 5_000, {"type": "integer"}),
        ('"5"', {"type": "integer"}),
        ("[1", {"type": "array"}),
        ("{}", {"type": "array"}),
        ("[" * 100_000, {"type": "array"}),
        ("c", {"enum": ["a", "b"]}),
        (" a", {"enum": ["a", "b"]}),
        ("b", {"const": "a"}),
    ],
)
def test_what_is_no_value_of_a_schema_is_refused(text: str, schema: dict[str, Any]):
    with pytest.raises(Unfit):
        decode(text, schema, ROOT)


def test_any_text_is_a_string_or_nothing_worse_than_unfit():
    dice = random.Random(1)
    signs = string.printable + "é👍\u0000"
    for _ in range(3_000):
        text = "".join(dice.choice(signs) for _ in range(dice.randint(0, 12)))
        assert decode(text, {"type": "string"}, {}) == text
        for kind in sorted(KINDS - {"string"}):
            try:
                value = decode(text, {"type": kind}, {})
            except Unfit:
                continue
            assert kind in kinds({"const": value}, {})


def test_values_survive_being_written():
    for value, schema in (
        ("a\n", {"type": "string"}),
        (True, {"type": "boolean"}),
        (None, {"type": ["string", "null"]}),
        ({"é": [1, None, "x"]}, {"type": "object"}),
        (0.25, {"type": "number"}),
    ):
        assert decode(encode(value), schema, {}) == value


def test_what_is_infinite_is_not_whole():
    with pytest.raises(ValueError, match="Out of range"):
        whole([float("inf")])
