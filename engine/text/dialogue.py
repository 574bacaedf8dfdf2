"""One request's way through text: prompt tokens in, events out; all that the engine's core needs of text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from engine.api import (
    BadRequest,
    Called,
    Event,
    FinishReason,
    Message,
    PastReasoning,
    Reasoning,
    Request,
    Text,
    ToolSpec,
)
from engine.text import calls
from engine.text.calls import picture_marks
from engine.text.grammar import Constraint, check_grammar, forbid
from engine.text.pictures import Marks, Measure, Picture, place
from engine.text.reader import Found, Rule, Setting
from engine.text.schema import as_rule
from engine.text.template import Template
from engine.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    import numpy as np
    import torch


class Dialogue:
    """`ids` are the prompt, `pictures` their places in it. Push every generated token; then `finish` once.

    The tokens of all Text and Reasoning events add up to the tokens pushed, without the end token. Tokens
    that show nothing, as those of a call, are counted by a Text without text.
    """

    def __init__(
        self, tokenizer: Tokenizer, template: Template, request: Request, measure: Measure | None = None
    ) -> None:
        """`measure`: how many tokens a picture takes; None: the model sees none."""
        self._tokenizer = tokenizer
        is_raw = request.prompt is not None
        tools = () if is_raw or request.tool_choice == "none" else request.tools
        _check(request, tools)
        files = _pictures(request)
        marks = _marks(tokenizer, template) if files and measure is not None else None
        if files and marks is None:
            raise BadRequest("The model can't see pictures.")
        if tools:
            check_grammar(template.syntax.grammar(tools))
        self.ids, prompt = _read(tokenizer, template, request, tools)
        self.pictures: list[Picture] = []
        if marks is not None and measure is not None:
            self.ids, self.pictures = place(self.ids, marks, files, measure)
        syntax = calls.members()[calls.DEFAULT] if is_raw else template.syntax
        self._reader = syntax.reader(Setting(tokenizer, template, request, tools, prompt))
        self._rule: Rule | None = None
        self._constraint: Constraint | None = None  # of the rule, while it is kept to
        self._has_called = self._has_ended = False
        self._tokens = 0  # pushed since the last event that counted them

    @property
    def turns(self) -> list[int]:
        """Where the next prompt may part from this one: at control tokens, where turns or pictures begin."""
        within = {at for picture in self.pictures for at in range(picture.start, picture.end)}
        control = self._tokenizer.is_control
        marks = [at for at, token in enumerate(self.ids) if control(token) and at not in within]
        return [*marks, len(self.ids)]

    @property
    def is_over(self) -> bool:
        """Whether the answer is complete: the end token came, a stop, or something after the calls."""
        return self._has_ended or self._reader.is_over

    @property
    def reason(self) -> FinishReason:
        """Why a complete answer ended."""
        return "tool_calls" if self._has_called else "stop"

    def constrain(self, logits: torch.Tensor | np.ndarray) -> None:
        """Forbid in place what may not come next; costs nothing where everything may."""
        self._arm()
        if self._constraint is not None:
            self._constraint.mask(logits)
        if forbidden := self._reader.forbidden:
            forbid(logits, forbidden)

    def push(self, token: int) -> list[Event]:
        """What the next token makes known."""
        if self.is_over:
            return []
        if token in self._tokenizer.eos_ids:
            self._has_ended = True
            return []
        self._arm()
        self._keep_to_rule(token)
        self._tokens += 1
        events = self._counted(self._reader.push(token))
        self._arm()
        return events

    def finish(self, reason: FinishReason) -> list[Event]:
        """Text that was held back. A call that `reason` cut off is none."""
        events = self._counted(self._reader.finish(is_cut=reason in ("length", "cancelled")))
        return events + ([Text("", self._take())] if self._tokens else [])

    def _arm(self) -> None:
        """Begin the reader's rule if it is a new one."""
        rule = self._reader.rule
        if rule is self._rule:
            return
        self._rule, self._constraint = rule, None
        if rule is not None:
            constraint = Constraint(self._tokenizer, rule.grammar)
            if all(constraint.accept(token) for token in self._tokenizer.encode(rule.begun)):
                self._constraint = constraint

    def _keep_to_rule(self, token: int) -> None:
        """Once a token breaks the rule the rest is free; after its end too, unless the answer ends there."""
        if self._constraint is None or self._rule is None:
            return
        is_kept = self._constraint.accept(token)
        if not is_kept or (self._constraint.is_done and not self._rule.ends):
            self._constraint = None

    def _counted(self, found: list[Found]) -> list[Event]:
        events: list[Event] = []
        for event in found:
            if isinstance(event, Text | Reasoning):
                events.append(replace(event, tokens=self._take()))
                continue
            self._has_called |= isinstance(event, Called)
            events += [Text("", self._take())] if self._tokens else []
            events.append(event)
        return events

    def _take(self) -> int:
        tokens, self._tokens = self._tokens, 0
        return tokens


def _check(request: Request, tools: Sequence[object]) -> None:
    if request.tool_choice == "required" and not tools:
        raise BadRequest("A tool call is required, but there are no tools.")
    if request.prompt is None and not request.messages:
        raise BadRequest("There is nothing to answer: the conversation has no messages.")
    if request.answer_schema is not None:
        check_grammar(f"start: {as_rule(request.answer_schema)}\n", "The answer can't be held to its schema")


def _read(
    tokenizer: Tokenizer, template: Template, request: Request, tools: tuple[ToolSpec, ...]
) -> tuple[list[int], str]:
    """The prompt's tokens and text."""
    if request.prompt is not None:
        return tokenizer.encode(request.prompt, special=True, bos=True), request.prompt
    messages = kept_reasoning(request.messages, request.past_reasoning)
    return template.encode(tokenizer, messages, tools, reasoning=request.reasoning)


def _pictures(request: Request) -> list[bytes]:
    """Files of all pictures, in order."""
    for message in request.messages:
        if message.pictures and message.role != "user":
            raise BadRequest("Only a user's message may hold pictures.")
    return [data for message in request.messages for data in message.pictures]


def _marks(tokenizer: Tokenizer, template: Template) -> Marks | None:
    return Marks.find(tokenizer, picture_marks(template.syntax))


def kept_reasoning(messages: Sequence[Message], which: PastReasoning) -> list[Message]:
    """The messages without the reasoning that the model is not to read again."""
    questions = [index for index, message in enumerate(messages) if message.role == "user"]
    first = {"none": len(messages), "all": 0, "turn": questions[-1] if questions else 0}[which]
    return [
        replace(message, reasoning="") if index < first else message for index, message in enumerate(messages)
    ]
