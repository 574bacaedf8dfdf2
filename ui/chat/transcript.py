"""What was said: the scrolling column of messages."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QScrollArea, QWidget

from app.events import Event
from app.history import Entry


class Transcript(QScrollArea):
    """Shows a conversation, and grows while an answer streams in."""

    link_asked = Signal(str)  # a http, https or mailto address the person clicked: confirm, then open
    following_changed = Signal(bool)  # whether the end is kept in view

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)

    def show_entries(self, entries: Sequence[Entry]) -> None:
        """Show another conversation, at its end."""
        raise NotImplementedError

    def add_question(self, question_id: str, text: str) -> None:
        """Show a question the moment it was sent, and follow the end."""
        raise NotImplementedError

    def begin_answer(self, answer_id: str) -> None:
        """An answer starts to grow; one already shown under this id goes on. `TurnStarted` does this too."""
        raise NotImplementedError

    def apply(self, event: Event) -> None:
        """Show what a turn reports; every event may be given, in order."""
        raise NotImplementedError

    def clear(self) -> None:
        """Show nothing but the greeting."""
        raise NotImplementedError

    def set_greeting(self, title: str, text: str) -> None:
        """What an empty chat says."""
        raise NotImplementedError

    def scroll_to_end(self) -> None:
        """Go to the newest message and follow again."""
        raise NotImplementedError
