# ruff: noqa: E501 (texts, one a line)
"""What went wrong for others with this format, each as a test; and how answers are read in general."""

from __future__ import annotations

from typing import Any

import pytest

from engine.api import BadRequest, Called, Malformed, Message, Reasoning, Request, Text
from engine.text.dialogue import Dialogue
from engine.text.template import Template
from engine.text.tokenizer import Tokenizer
from tests.engine.text.atem_conversations import (
    EOM,
    EOT,
    MESSAGE,
    START,
    TOOLS,
    Control,
    Item,
    encode,
    items,
    play,
    start,
    told,
    tool,
)
from tests.engine.text.test_atem_template import OWN

HELLO = ("text", "Hello.")
HM = ("reasoning", "Hm.")


@pytest.fixture(scope="module")
def template() -> Template:
    return Template(OWN, "m")


def block(name: str, **parameters: str) -> str:
    lines = [f'<atem:parameter name="{key}">{value}</atem:parameter>' for key, value in parameters.items()]
    body = "\n".join([f'<atem:invoke name="{name}">', *lines, "</atem:invoke>"])
    return f"<atem:function_calls>\n{body}\n</atem:function_calls>"


def to(recipient: str, text: str) -> str:
    """A message that is not the first, as text whose control tokens are meant."""
    return f"<|start|>assistant to={recipient}<|message|>{text}"


READING = block("files.read", path="a.txt")
READ_CALL = ("call", ("files.read", {"path": "a.txt"}))


@pytest.fixture
def read(muse_tokenizer: Tokenizer, template: Template):
    """What a turn tells, read token by token; the same letter by letter."""

    def of(turn: str | list[Item], reason: str = "stop", **changes: Any) -> list[tuple[str, Any]]:
        parts = items(turn) if isinstance(turn, str) else turn
        letters = [letter for part in parts for letter in ([part] if isinstance(part, Control) else part)]
        seen = [
            told(play(start(muse_tokenizer, template, **changes), encode(muse_tokenizer, cut), reason))
            for cut in (parts, letters)
        ]
        assert seen[0] == seen[1]
        return seen[0]

    return of


def reasons(tokenizer: Tokenizer, template: Template, turn: str, **changes: Any) -> list[str]:
    events = play(start(tokenizer, template, **changes), encode(tokenizer, items(turn)))
    return [event.reason for event in events if isinstance(event, Malformed)]


# In general.


def test_reasoning_then_an_answer(read):
    turn = " to=self<|message|>Hm.<|eom|>" + to("user", "Hello.<|eot|>")
    assert read(turn) == [HM, HELLO]


@pytest.mark.parametrize(
    "head", [" to=user<|message|>", "<|message|>", "to=user<|message|>", "", "\n to=user<|message|>"]
)
def test_a_message_without_a_recipient_is_for_the_user(read, head: str):
    assert read(head + "Hello.<|eot|>") == [HELLO]


def test_answers_that_begin_like_headers(read):
    for text in ("today", "to be", "assistants", "assist", "to", "tomato=1", " a", "total to=5."):
        assert read(f"<|message|>{text}<|eot|>") == [("text", text)]
    for text in ("today", "to be", "assistants", "tomato=1"):
        assert read(f"{text}<|eot|>") == [("text", text)], "without a header too"


def test_tokens_are_counted(muse_tokenizer: Tokenizer, template: Template):
    turn = " to=self<|message|>Hm.<|eom|>" + to("user", "Hello.<|eom|>") + to("files.read", READING)
    ids = encode(muse_tokenizer, items(turn))
    for end in range(len(ids) + 1):
        for reason in ("length", "stop"):
            events = play(start(muse_tokenizer, template), ids[:end], reason)
            assert sum(event.tokens for event in events if isinstance(event, Text | Reasoning)) == end


def test_reasons_to_end(muse_tokenizer: Tokenizer, template: Template):
    for turn, reason in (("Hello.", "stop"), (" to=files.read<|message|>" + READING, "tool_calls")):
        dialogue = start(muse_tokenizer, template)
        play(dialogue, encode(muse_tokenizer, [*items(turn), EOT]))
        assert (dialogue.is_over, dialogue.reason) == (True, reason)


def test_raw_text_is_not_read_as_messages(muse_tokenizer: Tokenizer, template: Template):
    dialogue = Dialogue(muse_tokenizer, template, Request(prompt="Once"))
    text = "upon to=files.read " + READING
    assert told(play(dialogue, muse_tokenizer.encode(text))) == [("text", text)]


def test_whoever_else_begins_to_speak_ends_the_turn(read):
    for other in (
        "user<|message|>And me?",
        "tool files.read<|message|>Secret.",
        "system<|message|>Obey.",
        "a<|message|>b",
    ):
        assert read(f"<|message|>Hello.<|eom|><|start|>{other}") == [HELLO]


def test_an_answer_after_a_call_waits_for_the_result(read, muse_tokenizer: Tokenizer, template: Template):
    turn = " to=files.read<|message|>" + READING + "<|eom|>" + to("user", "It says: no.<|eot|>")
    assert read(turn) == [READ_CALL]


def test_a_model_that_calls_without_end_is_stopped(muse_tokenizer: Tokenizer, template: Template):
    turn = " to=files.read<|message|>" + "".join(f"{READING}<|eom|>{to('files.read', '')}" for _ in range(20))
    dialogue = start(muse_tokenizer, template)
    events = play(dialogue, encode(muse_tokenizer, items(turn)))
    assert sum(isinstance(event, Called) for event in events) == 8
    assert dialogue.is_over
    many = READING.replace(
        "</atem:invoke>", "</atem:invoke>" + READING.split("\n", 1)[1].rpartition("\n")[0], 1
    )
    assert (
        len(
            told(
                play(
                    start(muse_tokenizer, template),
                    encode(muse_tokenizer, [" to=files.read", MESSAGE, many, EOT]),
                )
            )
        )
        == 2
    )


# The faults of others, in their order.


@pytest.mark.parametrize("text", ['{"a": 1}', "[1, 2]", "5", "true", "null", '"x"', " x ", "", "\n", "5.0"])
def test_fault_1_a_declared_string_is_never_decoded(read, text: str):
    turn = " to=files.write<|message|>" + block("files.write", path="p", text=text) + "<|eot|>"
    assert read(turn) == [("call", ("files.write", {"path": "p", "text": text}))]


def test_fault_1_other_types_are(read):
    call = block("net.fetch", url="5", headers='{"a": "5"}', tries="[1, 2]", note="null")
    wanted = {"url": "5", "headers": {"a": "5"}, "tries": [1, 2], "note": None}
    assert read(f" to=net.fetch<|message|>{call}<|eot|>") == [("call", ("net.fetch", wanted))]
    call = block("files.read", path="p", lines=" 3\n", deep="false")
    assert read(f" to=files.read<|message|>{call}<|eot|>") == [
        ("call", ("files.read", {"path": "p", "lines": 3, "deep": False}))
    ]


@pytest.mark.parametrize(
    "parameters, words",
    [
        ({"lines": "many"}, "has to be integer"),
        ({"lines": "1.5"}, "has to be integer"),
        ({"lines": ""}, "has to be integer"),
        ({"lines": '"3"'}, "has to be integer"),
        ({"lines": "true"}, "has to be integer"),
        ({"lines": "1" * 5_000}, "has to be integer"),
        ({"deep": "yes"}, "has to be boolean"),
        ({"deep": "1"}, "has to be boolean"),
        ({"colour": "red"}, "has no parameter 'colour'"),
    ],
)
def test_fault_1_a_value_of_another_type_is_reported(
    muse_tokenizer: Tokenizer, template: Template, parameters: dict[str, str], words: str
):
    turn = f" to=files.read<|message|>{block('files.read', path='p', **parameters)}<|eot|>"
    (reason,) = reasons(muse_tokenizer, template, turn)
    assert words in reason


def swallowed(name: str, value: str, more: str = "") -> str:
    return f'<atem:function_calls>\n<atem:invoke name="{name}">{value}</atem:parameter>\n{more}</atem:invoke>\n</atem:function_calls>'


def test_fault_2_a_swallowed_opening_tag_is_repaired_where_it_can_only_mean_one_thing(read):
    for recipient in ("read", "read.read"):
        turn = f" to={recipient}<|message|>{swallowed('read.filePath', '/tmp/a')}<|eot|>"
        assert read(turn) == [("call", ("read", {"filePath": "/tmp/a"}))]
    more = '<atem:parameter name="text">T</atem:parameter>\n'
    turn = f" to=files.write<|message|>{swallowed('files.write.path', 'p', more)}<|eot|>"
    assert read(turn) == [("call", ("files.write", {"path": "p", "text": "T"}))]


@pytest.mark.parametrize(
    "recipient, call",
    [
        ("read", swallowed("read.limit", "5")),  # filePath is missing
        ("files.write", swallowed("files.write.path", "p")),  # so is text
        ("read", swallowed("read", "/tmp/a")),
        ("read", swallowed("read.other", "/tmp/a")),
        ("files.read", swallowed("read.filePath", "/tmp/a")),  # for another tool
        ("read", swallowed("read.filePath", "a", '<atem:parameter name="filePath">b</atem:parameter>\n')),
        (
            "read",
            '<atem:function_calls>\n<atem:invoke name="read.filePath">\n</atem:invoke>\n</atem:function_calls>',
        ),
        ("read", block("read.filePath", filePath="a")),
        ("read", block("read")),
        ("read", block("read", limit="5")),
    ],
)
def test_fault_2_a_call_with_missing_arguments_never_runs(read, recipient: str, call: str):
    ((kind, text),) = read(f" to={recipient}<|message|>{call}<|eot|>")
    assert (kind, text) == ("malformed", call)


def test_fault_2_two_meanings_are_one_too_many(read):
    tools = (tool("a", **{"b.c": {"type": "string"}}), tool("a.b", c={"type": "string"}))
    turn = f" to=a<|message|>{swallowed('a.b.c', 'x')}<|eot|>"
    assert read(turn, tools=tools)[0][0] == "malformed"


def test_fault_3_closing_tags_and_control_tokens_may_be_quoted_in_a_value(read):
    text = "Close with </atem:parameter> and </atem:invoke>, end with <|eot|> or <|eom|>.\n</atem:function_calls>"
    turn: list[Item] = [" to=files.write", MESSAGE, block("files.write", path="p", text=text), EOT]
    assert read(turn) == [("call", ("files.write", {"path": "p", "text": text}))]


def test_fault_3_a_control_token_in_a_value_ends_the_call_and_it_is_not_run(read):
    before, after = block("files.write", path="p", text="a|b").split("|")
    for token in (EOT, EOM, START, MESSAGE, Control("<|patch|>"), Control("<|begin_of_text|>")):
        seen = read([" to=files.write", MESSAGE, before, token, after, EOT])
        assert [kind for kind, _ in seen if kind in ("call", "reasoning")] == []
        assert ("malformed", before) in seen or ("malformed", before + after) in seen


def test_fault_3_two_calls_are_never_merged_into_one(read):
    first, second = block("files.write", path="p", text="a"), block("files.write", path="q", text="b")
    for cut in range(1, len(first), 4):
        turn = f" to=files.write<|message|>{first[:cut]}<|eom|>" + to("files.write", second + "<|eot|>")
        wanted = [("malformed", first[:cut].strip()), ("call", ("files.write", {"path": "q", "text": "b"}))]
        assert read(turn) == wanted
        for other in (second, block("net.fetch", url="u"), block("wipe")):
            ((kind, _),) = read(f" to=files.write<|message|>{first[:cut]}{other}<|eot|>")
            assert kind == "malformed"


def test_fault_3_a_truncated_call_is_never_run(muse_tokenizer: Tokenizer, template: Template):
    turn: list[Item] = [" to=files.write", MESSAGE, block("files.write", path="p", text="a"), EOT]
    ids = encode(muse_tokenizer, turn)
    for end in range(len(ids)):
        for reason in ("length", "cancelled"):
            assert told(play(start(muse_tokenizer, template), ids[:end], reason)) == []
        seen = told(play(start(muse_tokenizer, template), ids[: end - 1] if end else [], "stop"))
        assert all(kind == "malformed" for kind, _ in seen)


def test_fault_3_a_lost_end_of_a_value_is_seen(read):
    call = block("files.write", path="p", text="a")
    for tag in ("</atem:parameter>\n<atem", "</atem:parameter>\n</atem"):
        lost = call.replace(tag, tag.removeprefix("</atem:parameter>"), 1)
        assert read(f" to=files.write<|message|>{lost}<|eot|>") == [("malformed", lost)]


def test_fault_4_reasoning_that_is_left_without_its_end(read):
    for gap in ("", "<|start|>assistant", "assistant", "\n", "\nassistant"):
        turn = f" to=self<|message|>Hm.{gap} to=files.read<|message|>{READING}<|eot|>"
        assert read(turn) == [HM, READ_CALL]
        assert read(f" to=self<|message|>Hm.{gap} to=user<|message|>Hello.<|eot|>") == [HM, HELLO]
    assert read(" to=self<|message|>Hm.<|message|>Hello.<|eot|>") == [HM, HELLO]


def test_fault_4_an_answer_that_is_left_without_its_end(read):
    turn = f" to=user<|message|>Hello. to=files.read<|message|>{READING}<|eot|>"
    assert read(turn) == [HELLO, READ_CALL]


def test_fault_4_a_call_that_is_left_without_its_end(read):
    turn = f" to=files.read<|message|>{READING} to=files.read<|message|>{READING}<|eot|>"
    assert read(turn) == [READ_CALL, READ_CALL]
    turn = f" to=files.read<|message|>{READING}{to('files.read', READING)}<|eot|>"
    assert read(turn) == [READ_CALL, READ_CALL]
    turn = f" to=files.read<|message|>{READING[:40]} to=user<|message|>Hello.<|eot|>"
    assert [kind for kind, _ in read(turn)] == ["malformed"], "what follows can't be told from the call"


def test_fault_5_markup_quoted_in_reasoning_or_answer_is_never_run(read):
    quoted = f"I write {READING} then."
    assert read(f" to=self<|message|>{quoted}<|eom|>" + to("user", quoted + "<|eot|>")) == [
        ("reasoning", quoted),
        ("text", quoted),
    ]
    typed = f"Like so: <|start|>assistant to=files.read<|message|>{READING}<|eot|>"
    assert read([" to=self", MESSAGE, typed, EOM, START, "assistant to=user", MESSAGE, typed, EOT]) == [
        ("reasoning", typed),
        ("text", typed),
    ]
    assert read(f" to=self<|message|>{READING}<|eot|>") == [("reasoning", READING)]


@pytest.mark.parametrize("head", ["", "<|message|>", " to=user<|message|>", " to=user<|message|>\n"])
def test_fault_5_a_call_to_the_user_is_reported_and_not_shown(read, head: str):
    assert read(f"{head}{READING}<|eot|>") == [("malformed", READING)]
    assert read(f"{head}{READING[:50]}<|eot|>") == [("malformed", READING[:50])]
    assert read(f"{head}{READING[:50]}", "length") == []
    shown = read(f"{head}{READING}<|eot|>", tools=())
    assert [(kind, text.strip()) for kind, text in shown] == [("text", READING)], (
        "without tools it is an example"
    )


def test_fault_6_a_turn_that_starts_with_a_call(read):
    assert read(f" to=files.read<|message|>{READING}<|eot|>") == [READ_CALL]
    assert read(f"<|start|>assistant to=files.read<|message|>{READING}<|eot|>") == [READ_CALL]


def test_fault_7_an_answer_and_then_a_call(read):
    turn = " to=user<|message|>Hello.<|eom|>" + to("files.read", READING + "<|eot|>")
    assert read(turn) == [HELLO, READ_CALL]
    turn = (
        " to=user<|message|>Hello.<|eom|>" + to("self", "Hm.<|eom|>") + to("files.read", READING + "<|eot|>")
    )
    assert read(turn) == [HELLO, HM, READ_CALL]


# Fault 8, schemas for answers, is in test_atem_grammar.py.


def test_fault_9_nothing_of_a_header_or_a_tag_is_shown_before_or_twice(
    muse_tokenizer: Tokenizer, template: Template
):
    turn = " to=self<|message|>Hm. to=user<|message|>Hello. to=files.read<|message|>" + READING + "<|eot|>"
    parts = items(turn)
    letters = [letter for part in parts for letter in ([part] if isinstance(part, Control) else part)]
    for cut in (parts, letters):
        ids = encode(muse_tokenizer, cut)
        for end in range(len(ids)):
            for reason in ("length", "cancelled"):
                seen = dict(told(play(start(muse_tokenizer, template), ids[:end], reason)))
                assert "Hm. to".startswith(seen.get("reasoning", "")), "a lone `to` may be a word"
                assert "Hello. to".startswith(seen.get("text", ""))
        dialogue = start(muse_tokenizer, template)
        assert told(event for token in ids for event in dialogue.push(token)) == [HM, HELLO]


def test_fault_9_a_header_at_the_end_of_reasoning_is_not_shown(read):
    turn = " to=self<|message|>Hm. to=user<|eom|>" + to("user", "Hello.<|eot|>")
    assert read(turn) == [HM, HELLO]


def test_fault_9_a_broken_header_is_not_shown(read):
    for header in (" to=", " to=files.read x", " to=<b>", " to=" + "x" * 300):
        seen = read(f"{header}<|message|>{READING}<|eot|>")
        assert seen == [("malformed", READING)]
    for end in ("<|eot|>", "<|eom|>", "<|start|>"):
        assert read(" to=user" + end) == []
        assert read(" to=files.read" + end) == [("malformed", "")], "it wanted something, and is told"


@pytest.mark.parametrize(
    "recipient, name, wanted",
    [
        ("read", "read", "read"),
        ("read.read", "read", "read"),
        ("read", "read.read", "read"),
        ("read.read", "read.read", "read"),
        ("files.read", "files.read", "files.read"),
        ("files", "files.read", "files.read"),  # the namespace, as it was advertised
        ("files.read", "read", None),
        ("read", "files.read", None),
        ("files.read", "files.write", None),
        ("other.read", "other.read", None),
        ("x.files.read", "files.read", None),
        ("files.files.read", "files.read", None),
        ("read.filePath", "read", None),
        ("files.read", "files.read.files.read", None),
        ("wipe", "read", None),
        ("FILES.READ", "files.read", None),
    ],
)
def test_fault_10_names_with_and_without_a_namespace(read, recipient: str, name: str, wanted: str | None):
    path = "filePath" if name.startswith("read") else "path"
    seen = read(f" to={recipient}<|message|>{block(name, **{path: 'a'})}<|eot|>")
    assert (
        seen == [("call", (wanted, {path: "a"}))] if wanted else [kind for kind, _ in seen] == ["malformed"]
    )


def test_fault_10_a_tool_there_is_not(muse_tokenizer: Tokenizer, template: Template):
    turn = f" to=disk.erase<|message|>{block('disk.erase', path='/')}<|eot|>"
    (reason,) = reasons(muse_tokenizer, template, turn)
    assert reason.startswith("There is no tool 'disk.erase'. The tools are: files.read, files.write")
    for changes in ({"tools": ()}, {"tool_choice": "none"}):
        (reason,) = reasons(muse_tokenizer, template, f" to=files.read<|message|>{READING}<|eot|>", **changes)
        assert reason == "There are no tools to call now."


def test_fault_10_two_parallel_calls(read):
    turn = f" to=files.read<|message|>{READING}<|eom|>" + to("wipe", block("wipe") + "<|eot|>")
    assert read(turn) == [READ_CALL, ("call", ("wipe", {}))]
    thought = f" to=files.read<|message|>{READING}<|eom|>{to('self', 'Hm.<|eom|>')}{to('wipe', block('wipe'))}<|eot|>"
    assert read(thought) == [READ_CALL, HM, ("call", ("wipe", {}))]


def test_fault_10_a_bad_call_beside_a_good_one(read):
    bad = block("files.read")
    turn = f" to=files.read<|message|>{bad}<|eom|>" + to("wipe", block("wipe") + "<|eot|>")
    assert read(turn) == [("malformed", bad), ("call", ("wipe", {}))]


# Fumbles seen in the wild.


def test_a_control_token_in_a_name(read):
    before, after = READING.split('files.read"')
    turn = f" to=files.read<|message|>{before}files.read<|message|>{after}<|eot|>"
    assert read(turn) == [("malformed", f"{before}files.read{after}")]
    quoted = f'{before}files.read<|message|>">{after[1:]}'
    assert read([" to=files.read", MESSAGE, quoted, EOT]) == [("malformed", quoted)]


@pytest.mark.parametrize(
    "call",
    [
        READING.replace('<atem:parameter name="path">', '<atem:parameter="path">'),
        READING.replace('<atem:parameter name="path">', "<atem:parameter name=path>"),
        READING.replace('name="files.read"', "name='files.read'"),
        READING.replace("</atem:invoke>\n", ""),
        READING.replace("<atem:function_calls>\n", ""),
        READING.replace("\n</atem:function_calls>", ""),
        READING.replace("atem:invoke", "invoke"),
        READING + " Done.",
        "Now " + READING,
        READING + READING,
        f"```\n{READING}\n```",
        "<atem:function_calls>\n</atem:function_calls>",
        '{"name": "files.read", "arguments": {"path": "a.txt"}}',
        "files.read(a.txt)",
        READING.replace("</atem:invoke>", '<atem:parameter name="path">b</atem:parameter>\n</atem:invoke>'),
        "",
    ],
)
def test_what_is_not_exactly_a_call_is_reported(read, call: str):
    assert read(f" to=files.read<|message|>{call}<|eot|>") == [("malformed", call)]


def test_spaces_between_tags_are_of_no_account(read):
    for old, new in (("\n", ""), ("\n", "\n\n  "), (">\n<", ">\r\n\t<")):
        assert read(f" to=files.read<|message|>\n {READING.replace(old, new)}\n<|eot|>") == [READ_CALL]


def test_a_value_keeps_its_spaces_and_letters(read):
    for text in (" a ", "\n\ta\n", "&lt;é👍漢>", "a\u0000b", "\\n", '"', "x" * 3_000):
        call = block("files.read", path=text)
        assert read(f" to=files.read<|message|>{call}<|eot|>") == [("call", ("files.read", {"path": text}))]


def test_long_and_hostile_calls_cost_no_more_than_their_length(read):
    for text in (
        "</atem:parameter>" * 999 + "</atem:",
        "\n" * 9_000,
        "<atem:parameter " * 999,
        "to=" * 9_000,
        "[" * 9_000,
    ):
        call = block("net.fetch", url=text, tries="[" * 9_000)
        assert read(f" to=net.fetch<|message|>{call}<|eot|>") == [("malformed", call)]


def test_a_sentence_to_the_model_quotes_little(muse_tokenizer: Tokenizer, template: Template):
    for recipient, call in (
        ("x" * 9_000, READING),
        ("files.read", block("y" * 200)),
        ("files.read", "z" * 9_000),
    ):
        (reason,) = reasons(muse_tokenizer, template, f" to={recipient}<|message|>{call}<|eot|>")
        assert len(reason) < 300


def test_a_vocabulary_without_the_tokens_is_refused(smollm2_tokenizer: Tokenizer, template: Template):
    with pytest.raises(BadRequest, match=r"lacks <\|start\|>"):
        Dialogue(smollm2_tokenizer, template, Request(messages=(Message("user", "x"),), tools=TOOLS))
