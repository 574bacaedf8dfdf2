"""Keeps what people and tools write from turning into control tokens on its way through a chat template."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from engine.api import BadRequest
from engine.text.markers import Markers

SENTINELS = tuple(chr(code) for code in range(0xFDD0, 0xFDF0))  # noncharacters: text never means them


class Shield:
    """Breaks control-token names in contents with a sentinel; after rendering, `split` takes it out again."""

    def __init__(self, control: Markers) -> None:
        self._control = control

    @cached_property
    def _lowered(self) -> Markers:
        """Names in lower case: a template may change the case of what it is given."""
        return Markers({name.lower(): token for name, token in self._control.ids.items()})

    @cached_property
    def _edges(self) -> tuple[frozenset[str], frozenset[str]]:
        """All beginnings and all ends of names."""
        names = [name for name in self._lowered.ids if len(name) < 100]
        return (
            frozenset(name[:size] for name in names for size in range(1, len(name))),
            frozenset(name[size:] for name in names for size in range(1, len(name))),
        )

    def sentinel(self, texts: str) -> str:
        """A character that `texts` doesn't hold."""
        for sentinel in SENTINELS:
            if sentinel not in texts and json.dumps(sentinel)[1:-1] not in texts:
                return sentinel
        raise BadRequest("The conversation holds characters that can't be part of a text.")

    def protect(self, value: Any, sentinel: str) -> Any:
        """`value` (a text, or lists and mappings of them) with no control token's name in it."""
        if isinstance(value, str):
            return self._protect(value, sentinel)
        if isinstance(value, Mapping):
            return {self.protect(key, sentinel): self.protect(item, sentinel) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.protect(item, sentinel) for item in value]
        return value

    def split(self, rendered: str, sentinel: str) -> list[str | int]:
        """Control tokens of the template, and the plain pieces between them as they were meant."""
        rendered = rendered.replace(json.dumps(sentinel)[1:-1], sentinel)  # a template may escape it in JSON
        pieces = self._control.split(rendered)
        bare = (piece if isinstance(piece, int) else piece.replace(sentinel, "") for piece in pieces)
        return [piece for piece in bare if piece != ""]

    def _protect(self, text: str, sentinel: str) -> str:
        for name in self._lowered.found_in(text.lower()):
            text = re.sub(
                re.escape(name), lambda hit: hit[0][0] + sentinel + hit[0][1:], text, flags=re.IGNORECASE
            )
        # A name may also be made of the end of one text and the beginning of the next.
        beginnings, ends = self._edges
        head, tail = text[:100].lower(), text[-100:].lower()
        if any(head[:size] in ends for size in range(1, len(head) + 1)):
            text = sentinel + text
        if any(tail[-size:] in beginnings for size in range(1, len(tail) + 1)):
            text += sentinel
        return text
