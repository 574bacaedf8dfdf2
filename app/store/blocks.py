"""Blocks of an entry as JSON, and how what arrives bit by bit becomes blocks."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, replace
from typing import Any

from app.events import (
    Event,
    NoticeRaised,
    ReasoningArrived,
    ScreenRead,
    TextArrived,
    ToolFinished,
    ToolRequested,
)
from app.history import Block, NoticeBlock, ReasoningBlock, ScreenBlock, TextBlock, ToolBlock

KINDS: dict[str, type[Block]] = {
    "text": TextBlock,
    "reasoning": ReasoningBlock,
    "screen": ScreenBlock,
    "tool": ToolBlock,
    "notice": NoticeBlock,
}
NAMES = {kind: name for name, kind in KINDS.items()}


def block_of(event: Event) -> Block | None:
    """What an event adds to its entry; None when it leaves no trace."""
    match event:
        case TextArrived():
            return TextBlock(event.text)
        case ReasoningArrived():
            return ReasoningBlock(event.text)
        case ScreenRead():
            return ScreenBlock(event.text, event.source, event.words)
        case ToolRequested():
            return ToolBlock(event.call_id, event.tool, event.arguments)
        case ToolFinished():
            return ToolBlock(event.call_id, event.tool, {}, event.result, event.ok, event.denied_by)
        case NoticeRaised():
            return NoticeBlock(event.text)
        case _:
            return None


def fold(blocks: Iterable[Block]) -> tuple[Block, ...]:
    """Neighbouring pieces of text joined, and each tool's result put beside its call."""
    folded: list[Block] = []
    pieces: list[str] = []  # of the last block, when it is text: joined once, not at each piece
    for block in blocks:
        if isinstance(block, TextBlock | ReasoningBlock):
            if not (pieces and type(folded[-1]) is type(block)):
                _join(folded, pieces)
                folded.append(block)
            pieces.append(block.text)
        else:
            _join(folded, pieces)
            _put(folded, block)
    _join(folded, pieces)
    return tuple(folded)


def _join(folded: list[Block], pieces: list[str]) -> None:
    if pieces:
        last = folded[-1]
        assert isinstance(last, TextBlock | ReasoningBlock)
        folded[-1] = replace(last, text="".join(pieces))
        pieces.clear()


def _put(folded: list[Block], block: Block) -> None:
    if isinstance(block, ToolBlock) and block.result is not None:
        for index in reversed(range(len(folded))):
            call = folded[index]
            if isinstance(call, ToolBlock) and call.call_id == block.call_id and call.result is None:
                folded[index] = replace(call, result=block.result, ok=block.ok, denied_by=block.denied_by)
                return
    folded.append(block)


def dump(block: Block) -> str:
    """A block as JSON. Lone halves of surrogate pairs, which a file cannot hold, are escaped."""
    return json.dumps({"kind": NAMES[type(block)], **asdict(block)})


def dump_all(blocks: Iterable[Block]) -> str:
    """Blocks as a JSON list."""
    return f"[{','.join(dump(block) for block in blocks)}]"


def load(value: dict[str, Any]) -> Block:
    """A block from its JSON value."""
    fields = dict(value)
    return KINDS[fields.pop("kind")](**fields)
