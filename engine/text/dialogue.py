"""One request's way through text: prompt tokens in, events out; all that the engine's core needs of text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.api import BadRequest, Called, Event, FinishReason, Reasoning, Request, Text, ToolCall
from engine.text.detokenizer import Detokenizer
from engine.text.grammar import Constraint, check_grammar
from engine.text.splitter import THINK, UNTHINK, CallSplitter, ReasoningSplitter, StopSplitter
from engine.text.template import Template
from engine.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    import numpy as np
    import torch


class Dialogue:
    """`ids` are the prompt. Push every generated token; then `finish` once, however it ended.

    The tokens of all Text and Reasoning events add up to the tokens pushed, without the end token. Tokens
    that show nothing, as those of a call, are counted by a Text without text.
    """

    def __init__(self, tokenizer: Tokenizer, template: Template, request: Request) -> None:
        self._tokenizer, self._syntax = tokenizer, template.syntax
        is_raw = request.prompt is not None
        self._tools = () if is_raw or request.tool_choice == "none" else request.tools
        if request.tool_choice == "required" and not self._tools:
            raise BadRequest("A tool call is required, but there are no tools.")
        self.ids, prompt = self._read(template, request)
        self._reasoning = _reasoning(template, prompt) if not is_raw and template.has_reasoning else None
        self._stop = StopSplitter(() if is_raw else template.stops)
        self._calls = self._call_splitter() if self._tools else None
        self._detokenizer = Detokenizer(tokenizer, starts_text=not is_raw, visible=self._visible())
        self._strips = bool(template.stops) and not is_raw  # "Assistant:" leaves the space to the model
        self._constraint: Constraint | None = None
        self._is_required = request.tool_choice == "required"
        self._has_called = self._has_ended = False
        self._is_free = False  # in a call that whoever pushes tokens did not hold to its grammar
        self._tokens = 0  # pushed since the last event that counted them

    @property
    def is_over(self) -> bool:
        """Whether the answer is complete: the end token came, a stop, or something after the calls."""
        calls = self._calls
        return self._has_ended or self._stop.is_over or (calls is not None and calls.is_over)

    @property
    def reason(self) -> FinishReason:
        """Why a complete answer ended."""
        return "tool_calls" if self._has_called else "stop"

    def constrain(self, logits: torch.Tensor | np.ndarray) -> None:
        """Forbid in place what may not come next; costs nothing outside tool calls."""
        if self._is_required and self._constraint is None:
            self._require()
        if self._constraint is not None:
            self._constraint.mask(logits)

    def push(self, token: int) -> list[Event]:
        """What the next token makes known."""
        if self.is_over:
            return []
        if token in self._tokenizer.eos_ids:
            self._has_ended = True
            return []
        if self._constraint is not None and not self._constraint.accept(token):
            self._constraint, self._is_free, self._is_required = None, True, False
        self._tokens += 1
        events = self._events(self._detokenizer.push(token))
        self._arm()
        return events

    def finish(self, reason: FinishReason) -> list[Event]:
        """Text that was held back. A call that `reason` cut off is none."""
        events = self._events(self._detokenizer.finish())
        if self._reasoning is not None:
            reasoning, answer = self._reasoning.finish()
            events += self._reasoned(reasoning) + self._answered(answer)
        events += self._spoken(self._stop.finish())
        if self._calls is not None:
            events += self._text(self._calls.finish(is_cut=reason in ("length", "cancelled")))
        return events + ([Text("", self._take())] if self._tokens else [])

    def _read(self, template: Template, request: Request) -> tuple[list[int], str]:
        if request.prompt is not None:
            return self._tokenizer.encode(request.prompt, special=True, bos=True), request.prompt
        if not request.messages:
            raise BadRequest("There is nothing to answer: the conversation has no messages.")
        if self._tools:
            check_grammar(self._syntax.grammar(self._tools, opened=False))
        return template.encode(self._tokenizer, request.messages, self._tools)

    def _call_splitter(self) -> CallSplitter:
        names = {tool.name for tool in self._tools}
        syntax = self._syntax
        return CallSplitter(syntax.OPENING, syntax.CLOSING, lambda body: syntax.read(body, names))

    def _visible(self) -> frozenset[int]:
        names = [*((THINK, UNTHINK) if self._reasoning else ())]
        names += [self._syntax.OPENING, self._syntax.CLOSING] if self._tools else []
        found = (self._tokenizer.find(name) for name in names)
        return frozenset(token for token in found if token is not None)

    def _require(self) -> None:
        if self._reasoning is None or not self._reasoning.is_reasoning:
            self._constraint = Constraint(self._tokenizer, self._syntax.grammar(self._tools, opened=False))

    def _arm(self) -> None:
        """A call is held to the grammar from its opening to its end; what follows is the model's choice."""
        begun = None if self._calls is None else self._calls.begun
        if begun is None:
            self._constraint = None if self._has_called else self._constraint
            self._is_free = False
        elif self._constraint is None and not self._is_free:
            constraint = Constraint(self._tokenizer, self._syntax.grammar(self._tools, opened=True))
            self._is_free = not all(constraint.accept(token) for token in self._tokenizer.encode(begun))
            self._constraint = None if self._is_free else constraint

    def _events(self, text: str) -> list[Event]:
        if not text:
            return []
        if self._reasoning is None:
            return self._answered(text)
        reasoning, answer = self._reasoning.feed(text)
        return self._reasoned(reasoning) + self._answered(answer)

    def _reasoned(self, text: str) -> list[Event]:
        return [Reasoning(text, self._take())] if text else []

    def _answered(self, text: str) -> list[Event]:
        if self._strips:
            text = text.lstrip()
            self._strips = not text
        return self._spoken(self._stop.feed(text)) if text else []

    def _spoken(self, text: str) -> list[Event]:
        if not text:
            return []
        if self._calls is None:
            return self._text(text)
        events: list[Event] = []
        for found in self._calls.feed(text):
            events += self._called(found) if isinstance(found, ToolCall) else self._text(found)
        return events

    def _text(self, text: str) -> list[Event]:
        return [Text(text, self._take())] if text else []

    def _called(self, call: ToolCall) -> list[Event]:
        self._has_called, self._is_required = True, False
        counted: list[Event] = [Text("", self._take())] if self._tokens else []
        return [*counted, Called(call)]

    def _take(self) -> int:
        tokens, self._tokens = self._tokens, 0
        return tokens


def _reasoning(template: Template, prompt: str) -> ReasoningSplitter:
    """Some templates open the reasoning themselves, and the answer begins inside it."""
    return ReasoningSplitter(begun=prompt.rstrip().endswith(THINK))
