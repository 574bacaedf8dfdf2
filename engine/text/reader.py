"""What takes an answer apart, token by token: every way of writing calls has a reader of its own."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from engine.api import Called, Malformed, Reasoning, Request, Text, ToolSpec

if TYPE_CHECKING:
    from engine.text.template import Template
    from engine.text.tokenizer import Tokenizer

MOST_CALLS = 8  # in one answer; a weak model would go on for ever

Found = Text | Reasoning | Called | Malformed  # their tokens are not counted yet


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """A grammar that holds from now on. `begun`: what of it is written already; `ends`: nothing follows."""

    grammar: str
    begun: str = ""
    ends: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Setting:
    """What an answer is an answer to. `tools` are those that may be called; `prompt` is the prompt's text."""

    tokenizer: Tokenizer
    template: Template
    request: Request
    tools: tuple[ToolSpec, ...]
    prompt: str


class Reader(Protocol):
    """Reads one answer."""

    @property
    def is_over(self) -> bool:
        """Whether the answer has ended without its end token."""

    @property
    def rule(self) -> Rule | None:
        """The rule for the next token: the same object as long as it is the same rule."""

    @property
    def forbidden(self) -> Collection[int]:
        """Tokens that may not come next, beside what the rule says."""

    def push(self, token: int) -> list[Found]:
        """What the next token makes known; never an end token."""

    def finish(self, is_cut: bool) -> list[Found]:
        """What was held back. `is_cut`: the end was not the model's own, so what is unfinished is nothing."""
