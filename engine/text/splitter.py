"""Takes a stream of text apart into reasoning, text and calls, the same however the stream is cut."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from engine.api import ToolCall
from engine.text.reader import MOST_CALLS

THINK, UNTHINK = "<think>", "</think>"
FENCE = "```"


def held_back(text: str, markers: Sequence[str]) -> int:
    """How many characters at the end of `text` may be the beginning of a marker."""
    longest = max(map(len, markers), default=1) - 1
    for size in range(min(len(text), longest), 0, -1):
        if any(marker.startswith(text[-size:]) for marker in markers):
            return size
    return 0


class ReasoningSplitter:
    """Tells reasoning, between `<think>` and `</think>` at the start of an answer, from what follows."""

    def __init__(self, begun: bool) -> None:
        self._mode: Literal["start", "reasoning", "gap", "answer"] = "reasoning" if begun else "start"
        self._pending = ""

    @property
    def is_reasoning(self) -> bool:
        """Whether what comes next is reasoning."""
        return self._mode == "reasoning"

    def feed(self, text: str) -> tuple[str, str]:
        """More reasoning, and more of the answer."""
        self._pending += text
        if self._mode == "start":
            self._start()
        reasoning = self._reason() if self._mode == "reasoning" else ""
        if self._mode == "gap":
            self._pending = self._pending.lstrip()
            self._mode = "answer" if self._pending else "gap"
        if self._mode != "answer":
            return reasoning, ""
        answer, self._pending = self._pending, ""
        return reasoning, answer

    def finish(self) -> tuple[str, str]:
        """What was held back."""
        rest, self._pending = self._pending, ""
        return (rest, "") if self._mode == "reasoning" else ("", rest)

    def _start(self) -> None:
        head = self._pending.lstrip()
        if head.startswith(THINK):
            self._mode, self._pending = "reasoning", head.removeprefix(THINK)
        elif not THINK.startswith(head):
            self._mode = "answer"

    def _reason(self) -> str:
        before, marker, after = self._pending.partition(UNTHINK)
        if marker:
            self._mode, self._pending = "gap", after
            return before
        keep = len(before) - held_back(before, [UNTHINK])
        self._pending = before[keep:]
        return before[:keep]


class StopSplitter:
    """Ends a text where one of `stops` begins, the earliest first."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops, self._pending = stops, ""
        self.is_over = False

    def feed(self, text: str) -> str:
        """The text that is surely before any stop."""
        if self.is_over:
            return ""
        self._pending += text
        found = [at for stop in self._stops if (at := self._pending.find(stop)) >= 0]
        self.is_over = bool(found)
        keep = min(found) if found else len(self._pending) - held_back(self._pending, self._stops)
        text, self._pending = self._pending[:keep], "" if found else self._pending[keep:]
        return text

    def finish(self) -> str:
        """What was held back."""
        text, self._pending = self._pending, ""
        return text


class CallSplitter:
    """Takes tool calls out of an answer. A call begins an answer or a line, and stands in no code block."""

    def __init__(self, opening: str, closing: str, read: Callable[[str], ToolCall | None]) -> None:
        self._opening, self._closing, self._read = opening, closing, read
        self._mode: Literal["text", "call", "after"] = "text"
        self._pending = ""
        self._searched = 0  # of the pending text, for the closing marker
        self._line = ""  # the beginning of the current line, as far as it has been told
        self._is_first, self._is_fenced = True, False
        self._calls = 0
        self.is_over = False  # calls, and then something that is none

    @property
    def begun(self) -> str | None:
        """What there is of an unfinished call after its opening marker; None outside a call."""
        return self._pending if self._mode == "call" else None

    def feed(self, text: str) -> list[str | ToolCall]:
        """Visible text and calls, as far as they are decided."""
        self._pending += text
        found: list[str | ToolCall] = []
        steps = {"text": self._text, "call": self._call, "after": self._after}
        while self._pending and not self.is_over and steps[self._mode](found):
            pass
        return found

    def finish(self, is_cut: bool) -> str:
        """Text that was held back. What is left of a call is none, nor is the beginning of a cut one."""
        text = "" if self._mode != "text" or is_cut else self._pending
        self._pending = ""
        return text

    def _text(self, found: list[str | ToolCall]) -> bool:
        if not self._line and not self._is_fenced:
            head = self._pending.lstrip() if self._is_first else self._pending
            if head.startswith(self._opening):
                return self._open(head.removeprefix(self._opening))
            if self._opening.startswith(head):
                return False
        end = self._pending.find("\n") + 1 or len(self._pending)
        self._tell(self._pending[:end], found)
        self._pending = self._pending[end:]
        return True

    def _tell(self, piece: str, found: list[str | ToolCall]) -> None:
        found.append(piece)
        self._is_first = False
        self._line = (self._line + piece)[:16]
        if piece.endswith("\n"):
            self._is_fenced ^= self._line.lstrip(" ").startswith(FENCE)
            self._line = ""

    def _open(self, rest: str) -> bool:
        self._mode, self._pending, self._searched = "call", rest, 0
        return True

    def _call(self, found: list[str | ToolCall]) -> bool:
        while (at := self._pending.find(self._closing, self._searched)) >= 0:
            call = self._read(self._pending[:at])
            if call is not None:
                found.append(call)
                self._mode, self._pending = "after", self._pending[at + len(self._closing) :]
                self._calls += 1
                self.is_over = self._calls >= MOST_CALLS
                return True
            self._searched = at + 1  # the marker stands inside a text of the call
        self._searched = max(self._searched, len(self._pending) - len(self._closing) + 1)
        return False

    def _after(self, found: list[str | ToolCall]) -> bool:
        head = self._pending.lstrip()
        if head.startswith(self._opening):
            return self._open(head.removeprefix(self._opening))
        self.is_over = not self._opening.startswith(head)
        return False
