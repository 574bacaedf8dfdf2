"""Where the person writes."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget


class Composer(QWidget):
    """A field that grows with its text, a screen switch, and one button that sends or stops."""

    submitted = Signal(str, bool)  # text, look at the screen
    stopped = Signal()
    look_toggled = Signal(bool)
    draft_changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)

    def text(self) -> str:
        """The draft, whole, pasted parts included."""
        raise NotImplementedError

    def set_text(self, text: str) -> None:
        """Replace the draft."""
        raise NotImplementedError

    def restore(self, text: str) -> None:
        """Give back what could not be sent, in front of what was written since."""
        raise NotImplementedError

    def set_busy(self, busy: bool) -> None:
        """While an answer comes, the button stops it; typing goes on."""
        raise NotImplementedError

    def set_ready(self, ready: bool, reason: str = "") -> None:
        """While not ready, Enter keeps the text and sends it once ready; `reason` says why."""
        raise NotImplementedError

    def set_look(self, look: bool) -> None:
        """Set the screen switch."""
        raise NotImplementedError

    def set_look_enabled(self, enabled: bool, reason: str = "") -> None:
        """Whether the screen can be read at all."""
        raise NotImplementedError

    def focus(self) -> None:
        """Put the cursor into the field."""
        raise NotImplementedError
