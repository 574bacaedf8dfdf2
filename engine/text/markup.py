"""Reads an answer whose calls stand between two markers, with its reasoning before it between two more."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from engine.api import Called, Malformed, Reasoning, Text, ToolCall, ToolSpec
from engine.text.detokenizer import Detokenizer
from engine.text.reader import Found, Rule, Setting
from engine.text.schema import as_rule
from engine.text.splitter import THINK, UNTHINK, CallSplitter, ReasoningSplitter, StopSplitter

UNREADABLE = (
    "The request for a tool could not be read: it is cut short, is not JSON, or names no tool there is."
)


class MarkupReader:
    """A reader. `grammar(tools, opened)` is one call; `opened`: its first marker is there already."""

    def __init__(
        self,
        setting: Setting,
        markers: tuple[str, str],
        read: Callable[[str, Collection[str]], ToolCall | None],
        grammar: Callable[[Sequence[ToolSpec], bool], str],
    ) -> None:
        template, self._request, self._tools = setting.template, setting.request, setting.tools
        is_raw, names = setting.request.prompt is not None, {tool.name for tool in setting.tools}
        self._tokenizer, self._markers, self._grammar = setting.tokenizer, markers, grammar
        self._reasoning = _reasoning(setting) if not is_raw and template.has_reasoning else None
        self._stop = StopSplitter(() if is_raw else template.stops)
        self._calls = CallSplitter(*markers, lambda body: read(body, names)) if self._tools else None
        self._detokenizer = Detokenizer(self._tokenizer, starts_text=not is_raw, visible=self._visible())
        self._strips = bool(template.stops) and not is_raw  # "Assistant:" leaves the space to the model
        self._has_called = False
        self._reasoned = 0  # tokens
        self._known_rule: tuple[str, Rule | None] = ("", None)

    @property
    def is_over(self) -> bool:
        """Whether a stop came, or something after the calls."""
        return self._stop.is_over or (self._calls is not None and self._calls.is_over)

    @property
    def forbidden(self) -> Collection[int]:
        """The reasoning can't end the answer while something else has to come."""
        is_held = self._is_required or self._request.answer_schema is not None
        return self._tokenizer.eos_ids if self._is_reasoning and is_held else ()

    @property
    def rule(self) -> Rule | None:
        """A call is held to the grammar from its opening to its end; what follows is the model's choice."""
        place = self._place()
        if place != self._known_rule[0]:
            self._known_rule = place, self._make_rule(place)
        return self._known_rule[1]

    def push(self, token: int) -> list[Found]:
        """What the next token makes known."""
        self._reasoned += self._is_reasoning
        return self._found(self._detokenizer.push(token))

    def finish(self, is_cut: bool) -> list[Found]:
        """What was held back."""
        found = self._found(self._detokenizer.finish())
        if self._reasoning is not None:
            reasoning, answer = self._reasoning.finish()
            found += self._reasoned_text(reasoning) + self._answered(answer)
        found += self._spoken(self._stop.finish())
        if self._calls is not None:
            begun = self._calls.begun
            found += self._text(self._calls.finish(is_cut))
            found += [Malformed(begun.strip(), UNREADABLE)] if begun is not None and not is_cut else []
        return found

    @property
    def _is_reasoning(self) -> bool:
        return self._reasoning is not None and self._reasoning.is_reasoning

    @property
    def _is_required(self) -> bool:
        return self._request.tool_choice == "required" and not self._has_called

    def _visible(self) -> frozenset[int]:
        names = [*((THINK, UNTHINK) if self._reasoning else ()), *(self._markers if self._tools else ())]
        found = (self._tokenizer.find(name) for name in names)
        return frozenset(token for token in found if token is not None)

    def _place(self) -> str:
        """Where we are, as far as rules depend on it."""
        if self._is_reasoning:
            limit = self._request.reasoning_limit
            return "spent" if limit is not None and self._reasoned >= limit else ""
        if self._is_required:
            return "required"
        if self._request.answer_schema is not None and not self._has_called:
            return "answer"
        return "call" if self._calls is not None and self._calls.begun is not None else ""

    def _make_rule(self, place: str) -> Rule | None:
        match place:
            case "spent":
                return Rule(f'start: "{UNTHINK}"\n')
            case "required":
                return Rule(self._grammar(self._tools, False))
            case "answer":
                return Rule(self._answer(), ends=True)
            case "call":
                begun = self._calls.begun if self._calls is not None else None
                return Rule(self._grammar(self._tools, True), begun=begun or "")
        return None

    def _answer(self) -> str:
        """The answer by its schema, or a call instead."""
        assert self._request.answer_schema is not None
        answer = f"answer: {as_rule(self._request.answer_schema)}\n"
        if not self._tools:
            return f"start: answer\n{answer}"
        calling = self._grammar(self._tools, False).replace("start:", "calling:", 1)
        return f"start: answer | calling\n{answer}{calling}"

    def _found(self, text: str) -> list[Found]:
        if not text:
            return []
        if self._reasoning is None:
            return self._answered(text)
        reasoning, answer = self._reasoning.feed(text)
        return self._reasoned_text(reasoning) + self._answered(answer)

    def _reasoned_text(self, text: str) -> list[Found]:
        return [Reasoning(text, 0)] if text else []

    def _answered(self, text: str) -> list[Found]:
        if self._strips:
            text = text.lstrip()
            self._strips = not text
        return self._spoken(self._stop.feed(text)) if text else []

    def _spoken(self, text: str) -> list[Found]:
        if not text or self._calls is None:
            return self._text(text)
        found: list[Found] = []
        for piece in self._calls.feed(text):
            if isinstance(piece, ToolCall):
                self._has_called = True
                found.append(Called(piece))
            else:
                found += self._text(piece)
        return found

    def _text(self, text: str) -> list[Found]:
        return [Text(text, 0)] if text else []


def _reasoning(setting: Setting) -> ReasoningSplitter:
    """Some templates open the reasoning themselves, and the answer begins inside it."""
    return ReasoningSplitter(begun=setting.prompt.rstrip().endswith(THINK))
