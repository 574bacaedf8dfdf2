# ruff: noqa: E501 (texts, one a line)
"""Random turns, cut in every way, and spoilt in many."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

import pytest

from engine.api import Request
from engine.text import calls
from engine.text.reader import Found, Setting
from engine.text.template import Template
from engine.text.tokenizer import Tokenizer
from tests.engine.text.atem_conversations import (
    ASK,
    EOM,
    EOT,
    MESSAGE,
    SCRAPS,
    START,
    TOOLS,
    Control,
    Item,
    a_turn,
    reference_calls,
    told,
)
from tests.engine.text.test_atem_template import FALLBACK

MARKS = (START, MESSAGE, EOM, Control("<|patch|>"))
TEMPLATE = Template(FALLBACK, "m")
TURNS = [a_turn(random.Random(seed)) for seed in range(200)]


class AnyPieces:
    """A vocabulary in which any bytes may be a token, so that a text can be cut anywhere."""

    adds_space = False

    def __init__(self) -> None:
        self.names = [mark.name for mark in (*MARKS, EOT)]
        self.eos_ids = frozenset((self.names.index(EOT.name),))
        self.pieces: dict[bytes, int] = {}
        self.texts: list[bytes] = [name.encode() for name in self.names]

    def find(self, name: str) -> int | None:
        return self.names.index(name) if name in self.names else None

    def is_control(self, token: int) -> bool:
        return token < len(self.names)

    def token_bytes(self, token: int) -> bytes:
        return self.texts[token]

    def token(self, piece: bytes | Control) -> int:
        if isinstance(piece, Control):
            return self.names.index(piece.name)
        if piece not in self.pieces:
            self.pieces[piece] = len(self.texts)
            self.texts.append(piece)
        return self.pieces[piece]


def read(pieces: Iterable[bytes | Control]) -> list[tuple[str, Any]]:
    """What the reader finds, as the dialogue drives it."""
    vocabulary = AnyPieces()
    setting = Setting(cast(Tokenizer, vocabulary), TEMPLATE, Request(ASK, TOOLS), TOOLS, "")
    reader = calls.members()["atem"].reader(setting)
    found: list[Found] = []
    for piece in pieces:
        if piece == EOT or reader.is_over:
            return told([*found, *reader.finish(is_cut=False)])
        found += reader.push(vocabulary.token(piece))
    return told([*found, *reader.finish(is_cut=True)])


def whole(turn: Sequence[Item]) -> list[bytes | Control]:
    return [item if isinstance(item, Control) else item.encode() for item in turn]


def in_chunks(turn: Sequence[Item], size: int) -> Iterator[bytes | Control]:
    for item in whole(turn):
        if isinstance(item, Control):
            yield item
        else:
            yield from (item[at : at + size] for at in range(0, len(item), size))


def at_random(turn: Sequence[Item], dice: random.Random, most: int) -> Iterator[bytes | Control]:
    for item in whole(turn):
        while not isinstance(item, Control) and item:
            size = dice.randint(1, most)
            yield item[:size]
            item = item[size:]
        if isinstance(item, Control):
            yield item


def test_the_turns_are_of_all_kinds():
    kinds = [tuple(kind for kind, _ in wanted) for _, wanted in TURNS]
    assert len(set(kinds)) > 10
    assert sum("call" in kind for kind in kinds) > 100
    names = [name for _, wanted in TURNS for kind, value in wanted if kind == "call" for name in [value[0]]]
    assert set(names) == {spec.name for spec in TOOLS}


def test_turns_are_read_as_they_were_made():
    for turn, wanted in TURNS:
        assert read(whole(turn)) == wanted
        assert reference_calls(turn) == [value for kind, value in wanted if kind == "call"]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 13, 34, 89])
def test_chunks_of_any_size_tell_the_same(size: int):
    for turn, wanted in TURNS:
        assert read(in_chunks(turn, size)) == wanted
        assert read(at_random(turn, random.Random(size), size + 1)) == wanted


def cut_once(turn: Sequence[Item]) -> Iterator[list[bytes | Control]]:
    """The turn with one cut, at every place."""
    parts = whole(turn)
    for index, part in enumerate(parts):
        if not isinstance(part, Control):
            for at in range(1, len(part)):
                yield [*parts[:index], part[:at], part[at:], *parts[index + 1 :]]


@pytest.mark.parametrize("turns", [range(12), pytest.param(range(200), marks=pytest.mark.slow)])
def test_a_cut_anywhere_changes_nothing(turns: range):
    for number in turns:
        turn, wanted = TURNS[number]
        for parts in cut_once(turn):
            assert read(parts) == wanted


def test_whatever_is_read_before_the_end_stays_true():
    for turn, wanted in TURNS[:40]:
        parts = list(in_chunks(turn, 3))
        for end in range(0, len(parts), 7):
            seen = read(parts[:end])
            assert [kind for kind, _ in seen] == [kind for kind, _ in wanted[: len(seen)]]
            assert seen[:-1] == wanted[: len(seen) - 1] if seen else True
            if seen and seen[-1][0] != "call":
                assert wanted[len(seen) - 1][1].startswith(seen[-1][1].rstrip("\ufffd"))


# Mutations.


def mutate(turn: list[Item], dice: random.Random) -> list[Item]:
    turn = list(turn)
    index = dice.randrange(len(turn))
    item = turn[index]
    match dice.randrange(9):
        case 0:
            del turn[index]
        case 1:
            turn.insert(index, dice.choice((*MARKS, EOT)))
        case 2:
            turn.insert(index, turn[dice.randrange(len(turn))])
        case 3:
            other = dice.randrange(len(turn))
            turn[index], turn[other] = turn[other], turn[index]
        case 4 if isinstance(item, str):
            lines = item.split("\n")
            del lines[dice.randrange(len(lines))]
            turn[index] = "\n".join(lines)
        case _ if isinstance(item, str) and item:
            start = dice.randrange(len(item))
            end = min(len(item), start + dice.choice([1, 2, 5, 20, 60]))
            insert = dice.choice(["", "", item[start:end] * 2, dice.choice(SCRAPS), dice.choice(TAGS)])
            turn[index : index + 1] = [item[:start] + insert + item[end:]]
            if dice.random() < 0.2:
                turn[index : index + 1] = [item[:start], dice.choice((*MARKS, EOT)), item[start:]]
        case _:
            turn[index] = dice.choice((*MARKS, EOT))
    return turn or [EOT]


TAGS = [
    "</atem:parameter>\n", '<atem:parameter name="path">', "</atem:invoke>\n", '<atem:invoke name="read.filePath">',
    '">\n<atem:parameter name="', "</atem:function_calls>", "<atem:function_calls>\n", ' to=wipe', ".", "path", "\n",
]  # fmt: skip


def joined(turn: Iterable[Item]) -> list[Item]:
    """Neighbouring texts made one."""
    out: list[Item] = []
    for item in turn:
        if isinstance(item, str) and out and isinstance(out[-1], str):
            out[-1] += item
        else:
            out.append(item)
    return out


def is_repair(call: tuple[str, dict[str, Any]], plain: str) -> bool:
    """Whether a parameter's swallowed tag, the one thing that is repaired, explains a call."""
    name, made = call
    return any(
        f'<atem:invoke name="{name}.{key}">{value}</atem:parameter>' in plain for key, value in made.items()
    )


def is_told_once(seen: list[tuple[str, Any]], plain: str) -> bool:
    """Whether every letter of the texts is one of the turn's, in their order: nothing is told twice."""
    letters = iter(plain)
    texts = "".join(text for kind, text in seen if kind in ("text", "reasoning"))
    return all(letter in letters for letter in texts if letter != "\ufffd")


@pytest.mark.parametrize("count", [1_500, pytest.param(50_000, marks=pytest.mark.slow)])
def test_no_mutation_runs_what_is_no_complete_call(count: int):
    dice, ran, bad, fixed = random.Random(count), 0, 0, 0
    for _ in range(count):
        turn = list(dice.choice(TURNS)[0])
        for _ in range(dice.randint(1, 3)):
            turn = joined(mutate(turn, dice))
        seen = read(at_random(turn, dice, 40))
        allowed = iter(reference_calls(turn))
        plain = "".join(item for item in turn if isinstance(item, str))
        for call in [value for kind, value in seen if kind == "call"]:
            if is_repair(call, plain):
                fixed += 1
                continue
            ran += 1
            assert any(call == other for other in allowed), (call, turn)
        bad += sum(kind == "malformed" for kind, _ in seen)
        assert is_told_once(seen, plain), (seen, turn)
    assert ran > count / 3 and bad > count / 20, "the mutations are too wild or too tame"
