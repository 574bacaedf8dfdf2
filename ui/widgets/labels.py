"""Labels that show text as it is, never as markup."""

from __future__ import annotations

import re

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QWidget


def label(text: str = "", role: str = "", *, wrap: bool = False) -> QLabel:
    """A plain-text label in one of the stylesheet's roles."""
    made = QLabel()
    made.setTextFormat(Qt.TextFormat.PlainText)
    made.setText(text)
    made.setWordWrap(wrap)
    if role:
        made.setProperty("role", role)
    return made


def breakable(text: str, longest: int = 20) -> str:
    """The text with places to wrap inside long words, so that a path or a hash cannot widen a page."""
    return re.sub(rf"\S{{{longest}}}(?=\S)", lambda piece: piece.group() + "\u200b", text)


def set_role(widget: QWidget, role: str) -> None:
    """Give a widget another role of the stylesheet, and show it."""
    if widget.property("role") != role:
        widget.setProperty("role", role)
        widget.style().unpolish(widget)
        widget.style().polish(widget)


def fill(made: QLabel, text: str) -> None:
    """Show a label with this text, or not at all."""
    made.setText(text)
    made.setVisible(bool(text))
