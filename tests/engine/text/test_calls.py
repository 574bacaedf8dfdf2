from __future__ import annotations

import json

import pytest

from engine.api import BadRequest, Message, ToolCall, ToolSpec
from engine.text import calls
from engine.text.calls import json as syntax
from engine.text.grammar import check_grammar

ANY = ToolSpec("x.y", "", {})


def test_members_are_unique_and_complete():
    members = calls.members()
    assert calls.DEFAULT in members
    for member in members.values():
        assert member.NAMES and member.OPENING and member.CLOSING
        call = ToolCall("1", "x.y", {"a": 'ü "</tool_call>'})
        written = member.write(call)
        assert written.startswith(member.OPENING) and written.endswith(member.CLOSING)
        read = member.read(written.removeprefix(member.OPENING).removesuffix(member.CLOSING), {"x.y"})
        assert (read.name, read.arguments) == (call.name, call.arguments)
        assert "A result" in member.write_result(Message("tool", "A result"))
        assert "x.y" in member.describe([ANY])
        for opened in (False, True):
            check_grammar(member.grammar([ANY], opened))


def test_the_default_serves_templates_that_teach_no_way():
    assert calls.choose("{{ messages }}") is syntax
    assert syntax.recognises("<tool_call>{'name':..., 'arguments':...}</tool_call>")
    assert not syntax.recognises("<tool_call><function=x></tool_call> arguments")


@pytest.mark.parametrize(
    "body",
    [
        "",
        "{",
        "[]",
        '"x.y"',
        '{"name": "z", "arguments": {}}',
        '{"name": "x.y", "arguments": 1}',
        "[" * 100_000,
    ],
)
def test_what_is_no_call(body: str):
    assert syntax.read(body, {"x.y"}) is None


def test_halves_of_characters_are_replaced():
    call = syntax.read(
        json.dumps({"name": "x.y", "arguments": {"a\ud83d": "b\ude00", "c": "\U0001f600"}}), {"x.y"}
    )
    assert call is not None
    assert call.arguments == {"a\ufffd": "b\ufffd", "c": "\U0001f600"}


def test_ids_differ():
    body = '{"name": "x.y", "arguments": {}}'
    assert len({syntax.read(body, {"x.y"}).id for _ in range(100)}) == 100


def test_names_that_would_break_the_grammar_are_refused():
    for name in ('a"b', "a b", "", "ü"):
        with pytest.raises(BadRequest, match="can't be the name of a tool"):
            syntax.grammar([ToolSpec(name, "", {})], opened=True)


def test_a_schema_that_cannot_be_kept_is_refused():
    bad = ToolSpec("x", "", {"type": "object", "properties": {"a": {"type": "no such type"}}})
    with pytest.raises(BadRequest, match="can't be offered"):
        check_grammar(syntax.grammar([bad], opened=True))
