"""Schemas from hints, checked calls, and the folder of tools."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Annotated, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

import app.tools
from app.permissions.action import Risk
from app.tool import Description, Tool, ToolContext, ToolError, tool, validate


def describe(context: ToolContext, **arguments: object) -> Description:
    return Description("Try it?", json.dumps(arguments, sort_keys=True), (), Risk.MEDIUM)


@tool("test.sample", describe=describe, read_only=True)
async def sample(
    context: ToolContext,
    name: Annotated[str, "Whose."],
    count: int = 3,
    ratio: float = 0.5,
    flag: bool = False,
    kind: Literal["a", "b"] = "a",
    items: list[str] = [],  # noqa: B006
    note: str | None = None,
) -> str:
    """Sample things."""
    return f"{name} {count}"


CONTEXT = ToolContext(None, None, None, "chat")


def test_the_schema_comes_from_the_hints():
    assert sample.parameters["properties"]["name"] == {"type": "string", "description": "Whose."}
    assert sample.parameters["properties"]["count"] == {"type": "integer", "default": 3}
    assert sample.parameters["properties"]["kind"] == {"enum": ["a", "b"], "default": "a"}
    assert sample.parameters["required"] == ["name"]
    assert sample.parameters["additionalProperties"] is False
    assert sample.description == "Sample things."
    assert (sample.read_only, sample.destructive, sample.open_world) == (True, False, True)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({}, "'name' is missing"),
        ({"name": 3}, "'name' must be text, not a number"),
        ({"name": None}, "'name' must be text, not null"),
        ({"name": ["x"]}, "'name' must be text, not a list"),
        ({"name": "x", "count": "3"}, "'count' must be a whole number, not text"),
        ({"name": "x", "count": 5.0}, "'count' must be a whole number"),
        ({"name": "x", "count": True}, "'count' must be a whole number, not true or false"),
        ({"name": "x", "ratio": float("inf")}, "'ratio' must be a number, not an endless number"),
        ({"name": "x", "ratio": float("nan")}, "'ratio' must be a number"),
        ({"name": "x", "ratio": "0.5"}, "'ratio' must be a number"),
        ({"name": "x", "flag": 1}, "'flag' must be true or false"),
        ({"name": "x", "flag": "true"}, "'flag' must be true or false"),
        ({"name": "x", "kind": "c"}, "'kind' must be one of"),
        ({"name": "x", "items": "a"}, "'items' must be a list"),
        ({"name": "x", "items": ["a", 1]}, "'items[1]' must be text"),
        ({"name": "x", "note": 1}, "'note' must be string or null"),
        ({"name": "x", "dangerouslyDisableSandbox": True}, "no argument 'dangerouslyDisableSandbox'"),
        ({"name": "half \ud800"}, "half a character"),
        ({"name": "x" * 2_000_000}, "longer than"),
    ],
)
def test_a_malformed_call_names_the_field(arguments, named):
    with pytest.raises(ToolError) as caught:
        validate(sample, arguments)
    assert named in str(caught.value)
    assert named == "longer than" or '"properties"' in str(caught.value)


def test_defaults_are_filled_in_so_that_they_are_shown():
    action = sample.describe(CONTEXT, {"name": "x", "ratio": 1})
    assert json.loads(action.arguments) == {
        "name": "x",
        "count": 3,
        "ratio": 1,
        "flag": False,
        "kind": "a",
        "items": [],
        "note": None,
    }


@given(
    st.dictionaries(st.text(max_size=8), st.text() | st.integers() | st.floats() | st.booleans() | st.none())
)
def test_any_call_is_accepted_whole_or_refused_by_name(arguments):
    try:
        complete = validate(sample, arguments)
    except ToolError:
        return
    assert {name: complete[name] for name in arguments} == arguments


def test_running_checks_again():
    with pytest.raises(ToolError):
        asyncio.run(sample.run(CONTEXT, {"nam": "x"}))
    assert asyncio.run(sample.run(CONTEXT, {"name": "x"})) == "x 3"


def test_every_tool_is_found_and_complete():
    tools = app.tools.find()
    assert {"files.read", "shell.run", "screen.look"} <= tools.keys()
    for name, each in tools.items():
        assert isinstance(each, Tool) and each.name == name and each.description
        assert all("description" in one for one in each.parameters["properties"].values()), name


def test_two_tools_of_one_name_are_an_error(tmp_path: Path, monkeypatch):
    code = Path(app.tools.__file__).with_name("screen_look.py").read_text()
    (tmp_path / "screen_look_again.py").write_text(code)
    monkeypatch.setattr(app.tools, "__path__", [*app.tools.__path__, str(tmp_path)])
    with pytest.raises(ValueError, match=r"screen\.look"):
        app.tools.find()
