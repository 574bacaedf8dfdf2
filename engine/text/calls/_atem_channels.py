"""Takes a turn of several messages apart, each with a recipient: reasoning, answer, or what is for a tool.

Pure: fed with pieces of text and with the control tokens between them, it finds the same however the text is
cut. Control tokens come as marks; text that only looks like one is text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Mark = Literal[
    "start", "message", "end", "other"
]  # "end" is of a message; "other" is any stray control token

SELF, USER, ROLE = "self", "user", "assistant"
CALL, CALL_ENDS = "<atem:function_calls>", "</atem:function_calls>"
WINDOW = 200  # letters at the end of a message in which the header of the next may stand
NAME = r"[A-Za-z0-9_.\-]{0,128}"


def _beginnings(word: str) -> str:
    """A pattern of all beginnings of a word."""
    pattern = ""
    for letter in reversed(word):
        pattern = f"(?:{re.escape(letter)}{pattern})?"
    return pattern


HEADER = re.compile(rf"\s*(?:{ROLE})?\s*(?:to=(.*))?", re.DOTALL)
ADDRESS = re.compile(rf"\s*(?:{ROLE})?[ \t]*to=({NAME})\Z")
# Every beginning of those, so that what is held back never depends on how a text was cut.
HEADER_BEGINS = re.compile(rf"\s*(?:{_beginnings(ROLE)}|(?:{ROLE})?\s*(?:t|to|to=.*)?)", re.DOTALL)
ADDRESS_BEGINS = re.compile(rf"\s*(?:{_beginnings(ROLE)}|(?:{ROLE})?[ \t]*(?:t|to|to={NAME})?)\Z")


@dataclass(frozen=True, slots=True)
class Piece:
    """More text of the reasoning (`self`) or of the answer (`user`)."""

    channel: str
    text: str


@dataclass(frozen=True, slots=True)
class Body:
    """A whole message to a tool, or one to the user that begins as a call; `is_broken` by a control token."""

    recipient: str
    text: str
    is_broken: bool = False


Part = Piece | Body


class Channels:
    """The state between two tokens. `channel`: whom the message is for, None in a header.

    `has_tools`: an answer that begins as a call is one gone wrong, and not shown. `knows`: whether there is
    such a recipient.
    """

    def __init__(self, *, has_tools: bool, knows: Callable[[str], bool]) -> None:
        self._has_tools, self._knows = has_tools, knows
        self._pending = ""  # of a header or a tool's message all, of other text what is undecided
        self._has_said = self._is_broken = False
        self.channel: str | None = None
        self.names_role = False  # the header begins with the role, since a start token came before it
        self.is_over = False  # somebody else speaks

    def feed(self, text: str) -> list[Part]:
        """More text."""
        self._pending += text
        if self.channel is None:
            self._await_header()
        return self._show() if self._is_text else []

    def mark(self, mark: Mark) -> list[Part]:
        """A control token."""
        match mark:
            case "message":
                return self._begin() if self.channel is None else self._switch()
            case "other":
                self._is_broken = True
                return []
            case _:
                parts = self._close()
                self.names_role = mark == "start"
                return parts

    def finish(self, is_cut: bool) -> list[Part]:
        """The end of the turn; `is_cut`: not by an end token, so that what is unfinished is nothing."""
        if not is_cut:
            return self._close()
        text = "" if self._is_call or not self._is_text else self._pending[: self._address_at()]
        return self._say(text)

    @property
    def _is_text(self) -> bool:
        return self.channel in (SELF, USER) and not self.is_over

    @property
    def _is_call(self) -> bool:
        """Whether an answer begins as a call does, as far as it has come."""
        if self.channel != USER or not self._has_tools or self._has_said:
            return False
        head = self._pending[:WINDOW].lstrip()
        return head.startswith(CALL) or CALL.startswith(head)

    def _await_header(self) -> None:
        """What can't be a header any more is an answer without one, if it is still ours."""
        if HEADER_BEGINS.fullmatch(self._pending.lstrip()[:WINDOW]):
            return
        said = self._pending.lstrip().removeprefix(ROLE) if self.names_role else self._pending
        self.is_over = self.names_role and not self._pending.lstrip().startswith(ROLE)
        self._open(USER, said)

    def _begin(self) -> list[Part]:
        header = HEADER.fullmatch(self._pending)
        self.is_over = header is None  # a beginning of the role's name
        self._open(USER if header is None or header[1] is None else header[1].strip())
        return []

    def _switch(self) -> list[Part]:
        """The end of a header inside a message: the message before was not closed."""
        at = self._address_at()
        is_open = not self._is_text or self._pending.lstrip().startswith(
            CALL
        )  # a call that may be unfinished
        if at < len(self._pending) and not (is_open and not self._pending[:at].endswith(CALL_ENDS)):
            recipient = self._pending[at:].rpartition("to=")[2]
            self._pending = self._pending[:at]
            parts = self._close()
            self._open(recipient)
            return parts
        if is_open:
            self._is_broken = True
        elif self.channel == SELF:
            parts = self._close()
            self._open(USER)
            return parts
        return []

    def _open(self, channel: str, text: str = "") -> None:
        self.channel, self._pending = channel, text
        self._has_said = self._is_broken = self.names_role = False

    def _close(self) -> list[Part]:
        parts = self._closed()
        self._open(USER)
        self.channel = None
        return parts

    def _closed(self) -> list[Part]:
        """What a message that ends here comes to."""
        text = self._pending
        if self.is_over:
            return []
        if self.channel is None:
            recipient = text.partition("to=")[2].strip()
            return [] if recipient in ("", SELF, USER) else [Body(recipient, "")]
        if not self._is_text or (self._is_call and text.lstrip().startswith(CALL)):
            return [Body(self.channel, text, self._is_broken)]
        at = self._address_at()
        is_header = self.channel == SELF and self._knows(text[at:].rpartition("to=")[2])
        return self._say(text[:at] if is_header else text)

    def _show(self) -> list[Part]:
        """Text that is surely no part of a header, nor of a call."""
        if self._is_call:
            return []
        window = self._pending[-WINDOW:]
        begun = ADDRESS_BEGINS.search(window)
        keep = len(self._pending) - len(window) + (begun.start() if begun else len(window))
        text, self._pending = self._pending[:keep], self._pending[keep:]
        return self._say(text)

    def _say(self, text: str) -> list[Part]:
        if not text or self.channel is None:
            return []
        self._has_said = True
        return [Piece(self.channel, text)]

    def _address_at(self) -> int:
        """Where a header stands at the end of what is pending; its length if none does."""
        window = self._pending[-WINDOW:]
        found = ADDRESS.search(window)
        return len(self._pending) - len(window) + (found.start() if found else len(window))
