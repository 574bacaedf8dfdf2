# ruff: noqa: E501 (texts, one a line)

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engine.api import ToolCall
from engine.text.calls import json as syntax
from engine.text.splitter import CallSplitter, ReasoningSplitter, StopSplitter, held_back

CALL = '<tool_call>\n{"name": "read", "arguments": {"path": "a"}}\n</tool_call>'
PARTS = [
    CALL, "<tool_call>", "</tool_call>", "<tool", "_call>", "\n", " ", "```", "```json\n", "Hello", "<", "{", '{"name": "read"', "  ",
    '<tool_call>{"name": "read", "arguments": {"path": "</tool_call>"}}</tool_call>', "<think>", "</think>", "\nUser:", "\nUs",
]  # fmt: skip
streams = st.lists(st.sampled_from(PARTS), max_size=8).map("".join)


def cut(text: str, places: list[int]) -> list[str]:
    borders = [0, *sorted({place % (len(text) + 1) for place in places}), len(text)]
    return [text[start:end] for start, end in pairwise(borders)]


def split_calls(parts: list[str], names: tuple[str, ...] = ("read",)) -> tuple[list[object], bool]:
    """Texts joined, calls without their ids."""
    splitter = CallSplitter(syntax.OPENING, syntax.CLOSING, lambda body: syntax.read(body, names))
    found: list[str | ToolCall] = [piece for part in parts for piece in splitter.feed(part)]
    joined: list[object] = []
    for piece in [*found, splitter.finish(is_cut=False)]:
        if isinstance(piece, ToolCall):
            joined.append((piece.name, piece.arguments))
        elif joined and isinstance(joined[-1], str):
            joined[-1] += piece
        elif piece:
            joined.append(piece)
    return joined, splitter.is_over


@pytest.mark.parametrize(
    "text, wanted",
    [
        ("Hello.", ["Hello."]),
        ("", []),
        (CALL, [("read", {"path": "a"})]),
        (" \n" + CALL, [("read", {"path": "a"})]),
        (
            "I'll look.\n" + CALL + "\n" + CALL,
            ["I'll look.\n", ("read", {"path": "a"}), ("read", {"path": "a"})],
        ),
        ("I'd write " + CALL, ["I'd write " + CALL]),
        ("```\n" + CALL + "\n```\nso", ["```\n" + CALL + "\n```\nso"]),
        ("```\nx\n```\n" + CALL, ["```\nx\n```\n", ("read", {"path": "a"})]),
        ("a\n<tool_cal", ["a\n<tool_cal"]),
        ("a\n" + CALL[:-1], ["a\n"]),
        ("a\n<tool_call>", ["a\n"]),
        (CALL + "\nThe file says", [("read", {"path": "a"})]),
        (CALL.replace("read", "wipe"), []),
    ],
)
def test_what_is_a_call_and_what_is_text(text: str, wanted: list[object]):
    assert split_calls([text])[0] == wanted


@example(text=CALL, places=[12])
@given(text=streams, places=st.lists(st.integers(0, 500), max_size=12))
def test_every_cutting_gives_the_same_calls(text: str, places: list[int]):
    whole = split_calls([text])
    assert split_calls(cut(text, places)) == whole
    assert split_calls(list(text)) == whole


@given(text=streams)
def test_no_partial_markup_is_shown_before_it_is_decided(text: str):
    splitter = CallSplitter(syntax.OPENING, syntax.CLOSING, lambda body: syntax.read(body, ("read",)))
    shown = ""
    for letter in text:
        shown += "".join(piece for piece in splitter.feed(letter) if isinstance(piece, str))
        last = shown.rpartition("\n")[2]
        if shown.count("```") == 0:
            assert not (last and syntax.OPENING.startswith(last))


def split_reasoning(parts: list[str], begun: bool) -> tuple[str, str]:
    splitter = ReasoningSplitter(begun)
    found = [*map(splitter.feed, parts), splitter.finish()]
    return "".join(reasoning for reasoning, _ in found), "".join(answer for _, answer in found)


@pytest.mark.parametrize(
    "text, begun, wanted",
    [
        ("<think>a</think>\n\nb", False, ("a", "b")),
        ("\n<think>\na\n</think>b", False, ("\na\n", "b")),
        ("a</think>b</think>", True, ("a", "b</think>")),
        ("b <think>c</think>", False, ("", "b <think>c</think>")),
        ("<think>cut </thi", False, ("cut </thi", "")),
        ("<thi", False, ("", "<thi")),
        ("", True, ("", "")),
    ],
)
def test_reasoning_is_told_from_the_answer(text: str, begun: bool, wanted: tuple[str, str]):
    assert split_reasoning([text], begun) == wanted


@given(text=streams, places=st.lists(st.integers(0, 500), max_size=12), begun=st.booleans())
def test_every_cutting_gives_the_same_reasoning(text: str, places: list[int], begun: bool):
    assert split_reasoning(cut(text, places), begun) == split_reasoning([text], begun)


def split_stop(parts: list[str]) -> tuple[str, bool]:
    splitter = StopSplitter(["\nUser:", "\nSystem:"])
    return "".join(map(splitter.feed, parts)) + splitter.finish(), splitter.is_over


def test_a_stop_ends_the_text():
    assert split_stop(["a\nUser: b\nSystem:"]) == ("a", True)
    assert split_stop(["a\nUser"]) == ("a\nUser", False)


@given(text=streams, places=st.lists(st.integers(0, 500), max_size=12))
def test_every_cutting_gives_the_same_stop(text: str, places: list[int]):
    assert split_stop(cut(text, places)) == split_stop([text])


def test_how_much_is_held_back():
    assert [held_back(text, ["</think>", "<x"]) for text in ("", "a", "a<", "a</th", "</think>", "<<")] == [
        0,
        0,
        1,
        4,
        0,
        1,
    ]


def test_a_call_in_pieces_costs_no_more_than_its_length():
    body = json.dumps({"name": "read", "arguments": {"path": "</tool_call>" * 200 + "x" * 50_000}})
    found, _ = split_calls(list(f"<tool_call>{body}</tool_call>"))
    assert len(found) == 1
