from __future__ import annotations

import json
import pkgutil

import pytest

from engine.api import BadRequest, Message, ToolCall, ToolSpec
from engine.text import calls
from engine.text.calls import json as syntax
from engine.text.grammar import Constraint, check_grammar
from engine.text.tokenizer import Tokenizer

ONE = ToolSpec("x.y", "", {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]})


def test_members_are_unique_and_complete(muse_tokenizer: Tokenizer):
    members = calls.members()
    assert calls.DEFAULT in members
    for member in members.values():
        assert member.NAMES and callable(member.reader)
        assert "A result" in member.write_result(Message("tool", "A result"))
        assert "x.y" in member.describe([ONE])
        constraint = Constraint(muse_tokenizer, member.grammar([ONE]))
        written = member.write(ToolCall("1", "x.y", {"a": 'ü "</tool_call>'}))
        assert all(constraint.accept(token) for token in muse_tokenizer.encode(written))
        assert constraint.is_done, "what a model reads of its calls is what it may write"


def test_every_file_is_a_member_or_a_part_of_one():
    files = {info.name for info in pkgutil.iter_modules(calls.__path__)}
    assert {name for name in files if not name.startswith("_")} == {*calls.members()}


def test_a_file_without_a_template_gets_its_architectures():
    template = calls.template_for("muse-glimmer")
    assert template is not None and calls.choose(template) is calls.members()["atem"]
    assert calls.template_for("llama") is None


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
