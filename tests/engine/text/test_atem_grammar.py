# ruff: noqa: E501 (texts, one a line)
"""What the model is held to in this format, and that it is held to nothing else."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest

from engine.api import BadRequest, Called, Event, Message, Reasoning, Request, Text, ToolCall, ToolSpec
from engine.text.calls import atem
from engine.text.dialogue import Dialogue
from engine.text.grammar import Constraint, check_grammar
from engine.text.template import Template
from engine.text.tokenizer import Tokenizer
from tests.engine.text.atem_conversations import (
    BARE,
    MIXED,
    READ,
    TOOLS,
    WIPE,
    WRITE,
    encode,
    items,
    start,
    told,
    tool,
)
from tests.engine.text.test_atem_template import OWN

SCHEMA = {
    "type": "object",
    "properties": {"ok": {"type": "boolean"}, "n": {"enum": [1, 2]}},
    "required": ["ok", "n"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def template() -> Template:
    return Template(OWN, "m")


def allowed(dialogue: Dialogue, tokenizer: Tokenizer) -> set[str]:
    """Names of the tokens that may come next."""
    logits = np.zeros(tokenizer.vocab_size, np.float32)
    dialogue.constrain(logits)
    ids = np.flatnonzero(np.isfinite(logits)).tolist()
    return {tokenizer.token_bytes(token).decode(errors="replace") for token in ids}


def say(dialogue: Dialogue, tokenizer: Tokenizer, text: str) -> list[Event]:
    """Push a text, each token of which has to be allowed."""
    events: list[Event] = []
    for token in encode(tokenizer, items(text)):
        logits = np.zeros(tokenizer.vocab_size, np.float32)
        dialogue.constrain(logits)
        assert np.isfinite(logits[token]), (text, tokenizer.token_bytes(token))
        events += dialogue.push(token)
    return events


def is_free(dialogue: Dialogue, tokenizer: Tokenizer) -> bool:
    logits = np.zeros(tokenizer.vocab_size, np.float32)
    dialogue.constrain(logits)
    return not logits.any()


def play_at_random(
    dialogue: Dialogue, tokenizer: Tokenizer, dice: random.Random, most: int = 900
) -> list[Event]:
    """Any allowed token after another, those that close things rather than others; after a call, the end."""
    events: list[Event] = []
    closing = [tokenizer.encode(text)[0] for text in ("</", "<", ">", '"', "}", "]")]
    closing += encode(tokenizer, items("<|eom|><|eot|>"))
    forced, was_held = iter(()), False
    for _ in range(most):
        if dialogue.is_over:
            break
        logits = np.zeros(tokenizer.vocab_size, np.float32)
        dialogue.constrain(logits)
        token = next(forced, None)
        if was_held and not logits.any():
            token, forced = closing[-1], iter(())
        was_held = bool(logits.any())
        if token is None and dice.random() < 0.1:
            end = dice.choice(
                ["</atem:parameter>\n</atem:invoke>", '</atem:parameter>\n<atem:parameter name="']
            )
            forced = iter(tokenizer.encode(end))
        if token is None or not np.isfinite(logits[token]):
            finite = np.flatnonzero(np.isfinite(logits)).tolist()
            likely = [close for close in closing if np.isfinite(logits[close])]
            token = dice.choice(likely if likely and dice.random() < 0.3 else finite)
        events += dialogue.push(token)
    return events + dialogue.finish("stop" if dialogue.is_over else "length")


def test_a_turn_that_starts_with_a_call_is_held_to_its_form(muse_tokenizer: Tokenizer, template: Template):
    dialogue = start(muse_tokenizer, template)
    assert is_free(dialogue, muse_tokenizer)
    say(dialogue, muse_tokenizer, " to=files.read")
    assert is_free(dialogue, muse_tokenizer)
    say(dialogue, muse_tokenizer, "<|message|>")
    assert allowed(dialogue, muse_tokenizer) == {"<"}
    say(
        dialogue,
        muse_tokenizer,
        '<atem:function_calls>\n<atem:invoke name="files.read">\n<atem:parameter name="',
    )
    assert allowed(dialogue, muse_tokenizer) == {"p"}, "what is required can't be left out"
    say(dialogue, muse_tokenizer, 'path">a</atem:parameter> b</atem:parameter>\n<atem:parameter name="')
    assert allowed(dialogue, muse_tokenizer) == {"l", "d"}
    say(dialogue, muse_tokenizer, 'lines">')
    assert not allowed(dialogue, muse_tokenizer) & {"a", '"', "<", "t"}
    say(dialogue, muse_tokenizer, "12</atem:parameter>\n")
    assert allowed(dialogue, muse_tokenizer) == {"<"}
    say(dialogue, muse_tokenizer, "</atem:invoke>\n</atem:function_calls>")
    assert is_free(dialogue, muse_tokenizer), "after a call the model is free"
    events = say(dialogue, muse_tokenizer, "<|eom|>")
    wanted = ("call", ("files.read", {"path": "a</atem:parameter> b", "lines": 12}))
    assert told(events) == [wanted]
    assert is_free(dialogue, muse_tokenizer)
    say(dialogue, muse_tokenizer, "<|start|>assistant to=wipe<|message|>")
    assert allowed(dialogue, muse_tokenizer) == {"<"}, "a second one is held to it too"


def test_a_call_left_to_itself_comes_out_whole(muse_tokenizer: Tokenizer, template: Template):
    seen: set[str] = set()
    for seed in range(12):
        dice = random.Random(seed)
        spec = TOOLS[seed % len(TOOLS)]
        dialogue = start(muse_tokenizer, template)
        head = say(dialogue, muse_tokenizer, f" to={spec.name}<|message|>")
        kinds = told(head + play_at_random(dialogue, muse_tokenizer, dice))
        assert all(kind == "call" for kind, _ in kinds), kinds
        for _, (name, arguments) in [item for item in kinds if item[0] == "call"]:
            assert name == spec.name
            assert set(spec.parameters["required"]) <= set(arguments) <= set(spec.parameters["properties"])
            seen.add(name)
    assert len(seen) >= 3


@pytest.mark.parametrize("spec", TOOLS)
def test_every_valid_call_may_be_written(muse_tokenizer: Tokenizer, spec: ToolSpec):
    values = {
        "path": " a\n</atem:parameter>, <b>", "text": '"é👍"', "mode": "add", "lines": 3, "deep": False, "limit": 0.5, "filePath": "/",
        "url": "", "headers": {"a": "</atem:parameter>"}, "tries": [1, 2], "note": None,
    }  # fmt: skip
    own = {name: values[name] for name in spec.parameters["properties"]}
    for made in (own, {name: own[name] for name in spec.parameters["required"]}):
        constraint = Constraint(muse_tokenizer, atem.grammar(TOOLS))
        written = muse_tokenizer.encode(atem.write(ToolCall("1", spec.name, made)))
        assert all(constraint.accept(token) for token in written)
        assert constraint.is_done


def test_a_required_call_comes_whatever_the_model_would_say(muse_tokenizer: Tokenizer, template: Template):
    calls = 0
    for seed in range(6):
        dialogue = start(
            muse_tokenizer, template, tool_choice="required", reasoning_limit=20, tools=(WIPE, BARE)
        )
        events = play_at_random(dialogue, muse_tokenizer, random.Random(seed))
        assert not [event for event in events if isinstance(event, Text) and event.text], (
            "nothing else is said"
        )
        assert sum(event.tokens for event in events if isinstance(event, Reasoning)) < 20 + 12, (
            "header and limit"
        )
        calls += any(isinstance(event, Called) for event in events)
    assert calls == 6


def test_required_means_a_header_of_a_tool_after_any_reasoning(muse_tokenizer: Tokenizer, template: Template):
    dialogue = start(muse_tokenizer, template, tool_choice="required")
    say(dialogue, muse_tokenizer, " to=")
    assert allowed(dialogue, muse_tokenizer) == {"s", "f", "r", "n", "w"}
    say(dialogue, muse_tokenizer, "self<|message|>Hm.")
    assert not allowed(dialogue, muse_tokenizer) & {"<|eot|>", "<|end_of_text|>"}
    say(dialogue, muse_tokenizer, "<|eom|>")
    assert allowed(dialogue, muse_tokenizer) == {"<|start|>"}
    say(
        dialogue,
        muse_tokenizer,
        '<|start|>assistant to=read.read<|message|><atem:function_calls>\n<atem:invoke name="read',
    )


def test_reasoning_is_free(muse_tokenizer: Tokenizer, template: Template):
    dialogue = start(muse_tokenizer, template)
    say(dialogue, muse_tokenizer, " to=self<|message|>" + atem.write(ToolCall("1", "wipe", {}))[:50])
    assert is_free(dialogue, muse_tokenizer)
    held = start(muse_tokenizer, template, answer_schema=SCHEMA)
    say(held, muse_tokenizer, " to=self<|message|>x")
    everything = {
        muse_tokenizer.token_bytes(token).decode(errors="replace")
        for token in range(muse_tokenizer.vocab_size)
    }
    assert everything - allowed(held, muse_tokenizer) == {"<|eot|>", "<|end_of_text|>"}


def test_fault_8_a_schema_holds_the_answer_alone(muse_tokenizer: Tokenizer, template: Template):
    dialogue = start(muse_tokenizer, template, answer_schema=SCHEMA, tools=())
    assert allowed(dialogue, muse_tokenizer) == {" to"}, "an answer needs its header"
    say(dialogue, muse_tokenizer, " to=self<|message|>Prose is welcome here.<|eom|>")
    assert allowed(dialogue, muse_tokenizer) == {"<|start|>"}
    say(dialogue, muse_tokenizer, "<|start|>assistant to=user<|message|>")
    assert allowed(dialogue, muse_tokenizer) == {"{", '{"'} & {
        muse_tokenizer.token_bytes(token).decode(errors="replace")
        for token in range(muse_tokenizer.vocab_size)
    }
    events = say(dialogue, muse_tokenizer, '{"ok": true, "n": 2}')
    assert allowed(dialogue, muse_tokenizer) == {"<|eot|>", "<|end_of_text|>"}
    events += say(dialogue, muse_tokenizer, "<|eot|>") + dialogue.finish("stop")
    assert told(events) == [("text", '{"ok": true, "n": 2}')]


def test_fault_8_with_tools_a_call_may_come_first(muse_tokenizer: Tokenizer, template: Template):
    dialogue = start(muse_tokenizer, template, answer_schema=SCHEMA)
    events = say(
        dialogue, muse_tokenizer, " to=wipe<|message|>" + atem.write(ToolCall("1", "wipe", {})) + "<|eot|>"
    )
    assert told(events + dialogue.finish("stop")) == [("call", ("wipe", {}))]


def test_fault_8_any_answer_fits(muse_tokenizer: Tokenizer, template: Template):
    for seed in range(4):
        dialogue = start(muse_tokenizer, template, answer_schema=SCHEMA, reasoning_limit=5, tools=())
        events = play_at_random(dialogue, muse_tokenizer, random.Random(seed), 300)
        answer = json.loads("".join(event.text for event in events if isinstance(event, Text)))
        assert set(answer) == {"ok", "n"} and isinstance(answer["ok"], bool) and answer["n"] in (1, 2)


def test_reasoning_ends_properly_at_its_limit(muse_tokenizer: Tokenizer, template: Template):
    dialogue = start(muse_tokenizer, template, reasoning_limit=4)
    say(dialogue, muse_tokenizer, " to=self<|message|>abc")
    assert is_free(dialogue, muse_tokenizer)
    say(dialogue, muse_tokenizer, "d")
    assert allowed(dialogue, muse_tokenizer) == {"<|eom|>"}
    say(dialogue, muse_tokenizer, "<|eom|>")
    assert allowed(dialogue, muse_tokenizer) == {"<|start|>"}
    say(dialogue, muse_tokenizer, "<|start|>assistant to=")
    assert allowed(dialogue, muse_tokenizer) == {"u", "f", "r", "n", "w"}, "no more reasoning"
    events = say(dialogue, muse_tokenizer, "user<|message|>")
    assert is_free(dialogue, muse_tokenizer)
    events += say(dialogue, muse_tokenizer, "Hello.<|eot|>") + dialogue.finish("stop")
    assert told(events) == [("text", "Hello.")]


def test_no_reasoning_at_all(muse_tokenizer: Tokenizer, template: Template):
    dialogue = start(muse_tokenizer, template, reasoning_limit=0, tools=())
    say(dialogue, muse_tokenizer, " to=")
    assert allowed(dialogue, muse_tokenizer) == {"u"}
    with pytest.raises(BadRequest, match="reasoning_limit -1"):
        Request(reasoning_limit=-1)


def test_who_ignores_the_rule_is_read_all_the_same(muse_tokenizer: Tokenizer, template: Template):
    dialogue = start(
        muse_tokenizer, template, tool_choice="required", answer_schema=SCHEMA, reasoning_limit=1
    )
    ids = encode(
        muse_tokenizer, items(" to=self<|message|>Hm.<|eom|><|start|>assistant to=user<|message|>No.<|eot|>")
    )
    events = [event for token in ids for event in dialogue.push(token)] + dialogue.finish("stop")
    assert told(events) == [("reasoning", "Hm."), ("text", "No.")]


@pytest.mark.parametrize(
    "spec, words",
    [
        (ToolSpec("self", "", {}), "can't be the name of a tool"),
        (ToolSpec("user", "", {}), "can't be the name of a tool"),
        (ToolSpec("a b", "", {}), "can't be the name of a tool"),
        (ToolSpec("a/b", "", {}), "can't be the name of a tool"),
        (tool("x", **{'a"b': {}}), "can't be the name of a parameter"),
        (tool("x", **{"a<b": {}}), "can't be the name of a parameter"),
        (tool("x", ["y"]), "requires 'y'"),
        (tool("x", y={"type": "no such type"}), "can't be offered"),
    ],
)
def test_tools_that_cannot_be_offered(
    muse_tokenizer: Tokenizer, template: Template, spec: ToolSpec, words: str
):
    with pytest.raises(BadRequest, match=words):
        start(muse_tokenizer, template, tools=(spec,))


def test_a_schema_that_cannot_be_kept_is_refused(muse_tokenizer: Tokenizer, template: Template):
    with pytest.raises(BadRequest, match="answer can't be held to its schema"):
        start(muse_tokenizer, template, answer_schema={"type": "no such type"})


def test_schemas_of_many_kinds_make_a_grammar(muse_tokenizer: Tokenizer):
    odd = ToolSpec(
        "odd",
        "",
        {
            "type": "object",
            "properties": {
                "any": {},
                "size": {"$ref": "#/$defs/size"},
                "either": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
                "text": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                "one": {"const": "x"},
                "listed": {"enum": ["a", 1, None, True]},
            },
            "$defs": {
                "size": {"type": "object", "properties": {"w": {"type": "integer"}}, "required": ["w"]}
            },
        },
    )
    made = {"any": "free", "size": {"w": 1}, "either": None, "text": "y", "one": "x", "listed": None}
    constraint = Constraint(muse_tokenizer, atem.grammar([odd]))
    assert all(
        constraint.accept(token) for token in muse_tokenizer.encode(atem.write(ToolCall("1", "odd", made)))
    )
    assert constraint.is_done
    check_grammar(atem.grammar([ToolSpec("open", "", {}), READ, WRITE, MIXED]))


# The other readers take the same requests.


def test_a_schema_for_an_answer_of_a_plain_model(smollm2_tokenizer: Tokenizer, smollm2_template: Template):
    request = Request((Message("user", "Well?"),), answer_schema=SCHEMA)
    dialogue = Dialogue(smollm2_tokenizer, smollm2_template, request)
    events: list[Event] = []
    for token in smollm2_tokenizer.encode('{"ok": false, "n": 1}'):
        logits = np.zeros(smollm2_tokenizer.vocab_size, np.float32)
        dialogue.constrain(logits)
        assert np.isfinite(logits[token])
        events += dialogue.push(token)
    logits = np.zeros(smollm2_tokenizer.vocab_size, np.float32)
    dialogue.constrain(logits)
    assert set(np.flatnonzero(np.isfinite(logits)).tolist()) == smollm2_tokenizer.eos_ids
    assert json.loads("".join(event.text for event in events if isinstance(event, Text))) == {
        "ok": False,
        "n": 1,
    }


def test_with_tools_a_plain_model_may_answer_or_call(
    smollm2_tokenizer: Tokenizer, smollm2_template: Template
):
    request = Request((Message("user", "Well?"),), tools=(WIPE,), answer_schema=SCHEMA)
    for text in ('{"ok": true, "n": 1}', '<tool_call>\n{"name": "wipe", "arguments": {}}\n</tool_call>'):
        dialogue = Dialogue(smollm2_tokenizer, smollm2_template, request)
        for token in smollm2_tokenizer.encode(text):
            logits = np.zeros(smollm2_tokenizer.vocab_size, np.float32)
            dialogue.constrain(logits)
            assert np.isfinite(logits[token]), text
            dialogue.push(token)


def test_reasoning_between_tags_is_closed_at_its_limit(smollm2_tokenizer: Tokenizer):
    request = Request((Message("user", "Well?"),), reasoning_limit=3)
    dialogue = Dialogue(smollm2_tokenizer, Template("{# </think> #}<think>\n", "m"), request)
    for token in smollm2_tokenizer.encode("One two three")[:3]:
        assert is_free(dialogue, smollm2_tokenizer)
        dialogue.push(token)
    events: list[Event] = []
    while not is_free(dialogue, smollm2_tokenizer):
        logits = np.zeros(smollm2_tokenizer.vocab_size, np.float32)
        dialogue.constrain(logits)
        events += dialogue.push(int(np.flatnonzero(np.isfinite(logits))[-1]))
    events += [event for token in smollm2_tokenizer.encode("Yes.") for event in dialogue.push(token)]
    assert "".join(event.text for event in events if isinstance(event, Text)) == "Yes."
