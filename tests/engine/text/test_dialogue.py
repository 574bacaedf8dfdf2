# ruff: noqa: E501, RUF021 (texts, one a line)

from __future__ import annotations

import json
import random

import numpy as np
import pytest
import torch

from engine.api import BadRequest, Called, Event, Malformed, Message, Reasoning, Request, Text, ToolSpec
from engine.text.dialogue import Dialogue
from engine.text.grammar import Constraint
from engine.text.template import Template
from engine.text.tokenizer import Tokenizer

SCHEMA = {
    "type": "object",
    "properties": {"path": {"type": "string", "maxLength": 12}, "lines": {"$ref": "#/$defs/n"}},
    "required": ["path"],
    "$defs": {"n": {"enum": [1, 2]}},
}
READ = ToolSpec("read", "Reads a file.", SCHEMA)
WIPE = ToolSpec("wipe", "Wipes all.", {"type": "object", "properties": {}})
CALL = '<tool_call>\n{"name": "read", "arguments": {"path": "é👍", "lines": 2}}\n</tool_call>'
ASK = (Message("user", "Read it."),)


def start(tokenizer: Tokenizer, template: Template, **changes: object) -> Dialogue:
    return Dialogue(tokenizer, template, Request(**({"messages": ASK, "tools": (READ, WIPE)} | changes)))


def play(dialogue: Dialogue, ids: list[int], reason: str = "stop") -> list[Event]:
    return [event for token in ids for event in dialogue.push(token)] + dialogue.finish(reason)


def texts(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, Text))


def tool_calls(events: list[Event]) -> list[tuple[str, object]]:
    return [(event.call.name, event.call.arguments) for event in events if isinstance(event, Called)]


def tokens(events: list[Event]) -> int:
    return sum(event.tokens for event in events if isinstance(event, Text | Reasoning))


@pytest.fixture
def template(
    tokenizer: Tokenizer, tokenizers, smollm2_template: Template, gemma3_template: Template
) -> Template:
    return smollm2_template if tokenizer is tokenizers["smollm2"] else gemma3_template


def test_an_answer_of_text(tokenizer: Tokenizer, template: Template):
    dialogue = start(tokenizer, template)
    ids = tokenizer.encode("Größe 👍 a <tool_call> b")
    events = play(dialogue, [*ids, tokenizer.eos_id])
    assert (texts(events), tokens(events)) == ("Größe 👍 a <tool_call> b", len(ids))
    assert dialogue.is_over
    assert dialogue.reason == "stop"
    assert dialogue.push(ids[0]) == []


def test_a_call_between_texts(tokenizer: Tokenizer, template: Template):
    dialogue = start(tokenizer, template)
    ids = tokenizer.encode("Wait.\n" + CALL + "\n" + CALL)
    events = play(dialogue, [*ids, tokenizer.eos_id])
    assert texts(events) == "Wait.\n"
    assert tool_calls(events) == [("read", {"path": "é👍", "lines": 2})] * 2
    assert tokens(events) == len(ids)
    assert (dialogue.is_over, dialogue.reason) == (True, "tool_calls")


def test_something_after_the_calls_ends_the_answer(tokenizer: Tokenizer, template: Template):
    dialogue = start(tokenizer, template)
    events = play(dialogue, tokenizer.encode(CALL + "\nThe file says: no."))
    assert (texts(events), len(tool_calls(events)), dialogue.is_over) == ("", 1, True)


def test_a_call_that_never_ends_or_is_none_is_reported(tokenizer: Tokenizer, template: Template):
    for body in (
        '{"name": "read"',
        CALL.removeprefix("<tool_call>").replace("read", "erase"),
        "{}</tool_call>",
    ):
        dialogue = start(tokenizer, template)
        ids = tokenizer.encode("Wait.\n<tool_call>" + body)
        events = play(dialogue, [*ids, tokenizer.eos_id])
        (malformed,) = (event for event in events if isinstance(event, Malformed))
        assert malformed.text == body.strip()
        assert (texts(events), tokens(events)) == ("Wait.\n", len(ids))
        assert not [
            event for event in play(start(tokenizer, template), ids, "length") if isinstance(event, Malformed)
        ]


def test_a_call_that_is_cut_off_is_none(tokenizer: Tokenizer, template: Template):
    ids = tokenizer.encode("Wait.\n" + CALL)
    for end in range(len(ids)):
        events = play(start(tokenizer, template), ids[:end], "length")
        assert "Wait.\n".startswith(texts(events))
        assert tool_calls(events) == []
        assert tokens(events) == end


def test_without_tools_markup_is_text(tokenizer: Tokenizer, template: Template):
    for changes in ({"tools": ()}, {"tool_choice": "none"}):
        dialogue = start(tokenizer, template, **changes)
        assert texts(play(dialogue, tokenizer.encode(CALL))) == CALL
        assert "read" not in tokenizer.decode(dialogue.ids)


def draw(dialogue: Dialogue, dice: random.Random, size: int, wanted: list[int]) -> int:
    """A token the dialogue allows: the wanted one, else any."""
    logits = np.zeros(size, np.float32)
    dialogue.constrain(logits)
    allowed = np.flatnonzero(np.isfinite(logits))
    return next((token for token in wanted if np.isfinite(logits[token])), int(dice.choice(allowed)))


def test_a_required_call_comes_whatever_the_model_would_say(tokenizer: Tokenizer, template: Template):
    for seed in range(4):
        dice, dialogue = random.Random(seed), start(tokenizer, template, tool_choice="required")
        events: list[Event] = []
        ends = sorted(tokenizer.eos_ids)
        for _ in range(300):
            # The end as soon as it may come; otherwise anything, quotes and brackets preferred, so as to get on.
            closers = [tokenizer.find(text) for text in ('"', '"}', "}", ",")]
            if dialogue.is_over:
                break
            wanted = [*ends, *(closers if dice.random() < 0.3 else [])]
            events += dialogue.push(draw(dialogue, dice, tokenizer.vocab_size, wanted))
        events += dialogue.finish("stop")
        assert dialogue.is_over and dialogue.reason == "tool_calls"
        assert texts(events).strip() == ""
        for name, arguments in tool_calls(events):
            assert name in ("read", "wipe")
            assert arguments == {} if name == "wipe" else isinstance(arguments["path"], str)
            assert set(arguments) <= {"path", "lines"} and arguments.get("lines", 1) in (1, 2)


def test_an_opened_call_can_only_go_on_as_one(tokenizer: Tokenizer, template: Template):
    dialogue = start(tokenizer, template)
    free = np.zeros(tokenizer.vocab_size, np.float32)
    dialogue.constrain(free)
    assert not free.any(), "text is free"
    for token in tokenizer.encode('Yes.\n<tool_call>\n{"name": "'):
        dialogue.push(token)
    logits = torch.zeros(tokenizer.vocab_size + 7)
    dialogue.constrain(logits)
    allowed = torch.isfinite(logits).nonzero().flatten().tolist()
    names = [tokenizer.token_bytes(token).decode(errors="replace") for token in allowed]
    assert names
    assert all(
        name and ('read", "' + "x" * 99).startswith(name[:4]) or "wipe".startswith(name[:4]) for name in names
    )
    assert not torch.isfinite(logits[tokenizer.vocab_size :]).any()
    assert not set(allowed) & tokenizer.eos_ids


def test_after_a_call_the_model_is_free_again(tokenizer: Tokenizer, template: Template):
    dialogue = start(tokenizer, template)
    ids = tokenizer.encode(CALL)
    seen = []
    for token in [*ids, *tokenizer.encode("\n<tool_call>\n{")]:
        dialogue.push(token)
        logits = np.zeros(tokenizer.vocab_size, np.float32)
        dialogue.constrain(logits)
        seen.append(bool(logits.any()))
    closed = len(ids) - 1
    assert all(seen[closed - 10 : closed])
    assert not seen[closed]
    assert seen[-1], "a second call is held to the grammar too"


def test_a_model_that_calls_without_end_is_stopped(tokenizer: Tokenizer, template: Template):
    dialogue = start(tokenizer, template)
    assert len(tool_calls(play(dialogue, tokenizer.encode((CALL + "\n") * 20)))) == 8
    assert dialogue.is_over


def test_a_constraint_refuses_what_does_not_fit(tokenizer: Tokenizer):
    constraint = Constraint(tokenizer, 'start: "ab"')
    assert not constraint.is_done
    assert not constraint.accept(tokenizer.encode("x")[0])
    assert all(constraint.accept(token) for token in tokenizer.encode("ab"))
    assert constraint.is_done
    assert constraint.accept(tokenizer.eos_id)


def test_raw_text_goes_round_the_template(tokenizer: Tokenizer, template: Template):
    name = tokenizer.token_bytes(tokenizer.eos_id).decode()
    dialogue = start(tokenizer, template, messages=(), prompt=f"Once{name}")
    assert dialogue.ids == tokenizer.encode(f"Once{name}", special=True, bos=True)
    assert dialogue.ids[-1] == tokenizer.eos_id
    assert texts(play(dialogue, tokenizer.encode(CALL + "\nUser: x"))) == CALL + "\nUser: x"


def test_a_plain_template_ends_where_the_other_would_speak(
    gemma3_tokenizer: Tokenizer, gemma3_template: Template
):
    dialogue = start(gemma3_tokenizer, gemma3_template, tools=())
    events = play(dialogue, gemma3_tokenizer.encode(" Hello.\nHow?\nUser: Fine"))
    assert (texts(events), dialogue.is_over, dialogue.reason) == ("Hello.\nHow?", True, "stop")


def test_reasoning_is_told_apart(smollm2_tokenizer: Tokenizer):
    for source, answer in (
        ("{# </think> #}x", "<think>Hm.</think>\n\nYes."),
        ("{# </think> #}<think>\n", "Hm.</think>Yes."),
    ):
        ids = smollm2_tokenizer.encode(answer)
        events = play(start(smollm2_tokenizer, Template(source, "m"), tools=()), ids)
        assert "".join(event.text for event in events if isinstance(event, Reasoning)) == "Hm."
        assert (texts(events), tokens(events)) == ("Yes.", len(ids))


def test_a_required_call_waits_for_the_end_of_reasoning(smollm2_tokenizer: Tokenizer):
    template = Template("{# </think> #}<think>\n", "m")
    dialogue = start(smollm2_tokenizer, template, tool_choice="required")
    logits = np.zeros(smollm2_tokenizer.vocab_size, np.float32)
    dialogue.constrain(logits)
    assert set(np.flatnonzero(np.isinf(logits)).tolist()) == smollm2_tokenizer.eos_ids, "it can't end here"
    for token in smollm2_tokenizer.encode("Hm.</think>"):
        dialogue.push(token)
    dialogue.constrain(logits)
    assert not np.isfinite(logits).all()


def test_every_way_of_tokenising_gives_the_same_events(tokenizer: Tokenizer, template: Template):
    answer = "So:\n" + CALL + "\n" + CALL
    whole = tokenizer.encode(answer)
    letters = [token for letter in answer for token in tokenizer.encode(letter)]
    events = [play(start(tokenizer, template), ids) for ids in (whole, letters)]
    assert [(texts(some), tool_calls(some)) for some in events] == [("So:\n", tool_calls(events[0]))] * 2
    assert len(tool_calls(events[0])) == 2


def test_requests_that_make_no_sense_are_refused(tokenizer: Tokenizer, template: Template):
    for changes, words in (
        ({"messages": ()}, "no messages"),
        ({"tools": (), "tool_choice": "required"}, "no tools"),
        ({"tools": (ToolSpec("a b", "", {}),)}, "name of a tool"),
    ):
        with pytest.raises(BadRequest, match=words):
            start(tokenizer, template, **changes)


def test_a_call_survives_json_that_python_would_write_otherwise(tokenizer: Tokenizer, template: Template):
    body = json.dumps({"name": "read", "arguments": {"path": "a</tool_call>\n"}})
    events = play(start(tokenizer, template), tokenizer.encode(f"<tool_call>\n{body}\n</tool_call>"))
    assert tool_calls(events) == [("read", {"path": "a</tool_call>\n"})]


def test_a_mask_is_the_same_for_every_kind_of_logits(tokenizer: Tokenizer):
    masked = []
    for logits in (
        np.zeros(tokenizer.vocab_size + 3, np.float32),
        torch.zeros(tokenizer.vocab_size + 3),
        torch.zeros(tokenizer.vocab_size + 3, dtype=torch.bfloat16),
    ):
        Constraint(tokenizer, 'start: "ab"').mask(logits)
        masked.append(torch.isfinite(torch.as_tensor(logits)).nonzero().flatten().tolist())
    assert masked[0] == masked[1] == masked[2]
    assert {tokenizer.token_bytes(token) for token in masked[0]} <= {b"a", b"ab"}
