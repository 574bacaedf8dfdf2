"""What the window remembers from one start to the next: its place, the chat shown, what was being written."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QByteArray, QSettings

NEW = "new"  # the draft of a chat that does not exist yet


class Remembered:
    """A small file of the window's own; losing it loses no conversation."""

    def __init__(self, path: Path) -> None:
        self._file = QSettings(str(path), QSettings.Format.IniFormat)

    def bytes(self, name: str) -> QByteArray | None:
        """A geometry or splitter state."""
        value = self._file.value(name)
        return value if isinstance(value, QByteArray) else None

    def text(self, name: str) -> str:
        """A short text, empty if there is none."""
        return str(self._file.value(name, ""))

    def flag(self, name: str, default: bool) -> bool:
        """A yes or no."""
        return str(self._file.value(name, default)).lower() == "true"

    def set(self, name: str, value: QByteArray | str | bool) -> None:
        """Remember; written to the disk a moment later, or by `save`."""
        self._file.setValue(name, value)

    def draft(self, conversation_id: str) -> str:
        """What was being written in a chat."""
        return self.text(f"drafts/{conversation_id or NEW}")

    def set_draft(self, conversation_id: str, text: str) -> None:
        """Remember what is being written in a chat; empty text forgets it."""
        name = f"drafts/{conversation_id or NEW}"
        if text.strip():
            self._file.setValue(name, text)
        else:
            self._file.remove(name)

    def save(self) -> None:
        """Write to the disk now."""
        self._file.sync()
