"""A question on screen."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QEvent, QRect, QTimer, Signal
from PySide6.QtGui import QEnterEvent, QPaintEvent
from PySide6.QtWidgets import QFrame, QPushButton, QWidget

from app.history import Entry, ScreenBlock
from ui import theme
from ui.chat.cards import ScreenChip
from ui.chat.flow import FlowView, PlainText, copy_text
from ui.widgets.icons import IconButton

EDGE = 8  # room on both sides of a message, for the ring that shows where the keyboard is
_LONG = 4_000  # characters, or
_TALL = 30  # lines, of a question that are shown before "Show all"
_COPIED_MS = 1500


class CopyMessage(IconButton):
    """Copies a message; quiet until the pointer or the keyboard comes near."""

    def __init__(self, text: Callable[[], str], parent: QWidget) -> None:
        super().__init__("copy", "Copy message", parent)
        self.setProperty("role", "icon")
        self._text = text
        self.quiet = False  # whether it only shows near the pointer
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.timeout.connect(lambda: self.set_icon("copy", "Copy message"))
        self.clicked.connect(self._copy)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw nothing while the pointer is elsewhere."""
        around = self.parentWidget()
        if not self.quiet or self.hasFocus() or (around is not None and around.underMouse()):
            super().paintEvent(event)

    def _copy(self) -> None:
        copy_text(self._text())
        self.set_icon("check", "Copied")
        self._timer.start(_COPIED_MS)


class QuestionView(QWidget):
    """What the person wrote, exactly, in a bubble on the right; above it what was read from the screen."""

    link_asked = Signal(str)

    def __init__(self, entry: Entry, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._entry_text = entry.text
        self._chips: list[ScreenChip] = []
        self._bubble = QFrame(self)
        self._bubble.setProperty("role", "bubble")
        self._text = PlainText(_shortened(entry.text), self._bubble)
        self._text.setAccessibleName("You wrote")
        self._text.ring_changed.connect(self._show_ring)
        self._more: QPushButton | None = None
        if self._text.toPlainText() != entry.text and len(_shortened(entry.text)) < len(entry.text):
            self._more = QPushButton("Show all", self._bubble)
            self._more.setProperty("role", "ghost")
            self._more.clicked.connect(self._show_all)
        self._copy = CopyMessage(lambda: self._entry_text, self)
        self._copy.quiet = True
        for block in entry.blocks:
            if isinstance(block, ScreenBlock):
                self.add_screen(block)

    def add_screen(self, block: ScreenBlock) -> None:
        """The screen was read for this question."""
        chip = ScreenChip(block, self)
        chip.toggled.connect(lambda _: self.updateGeometry())
        self._chips.append(chip)
        chip.show()
        self.updateGeometry()

    def texts(self) -> list[FlowView]:
        """The parts that can hold a selection."""
        return [self._text]

    def hasHeightForWidth(self) -> bool:
        """It has."""
        return True

    def heightForWidth(self, width: int) -> int:
        """Place everything for this width, and say how tall that is."""
        return self._arrange(width)

    def resizeEvent(self, event: QEvent) -> None:
        """Place everything."""
        self._arrange(self.width())

    def enterEvent(self, event: QEnterEvent) -> None:
        """Show the actions."""
        self._copy.update()

    def leaveEvent(self, event: QEvent) -> None:
        """Hide them again."""
        self._copy.update()

    def _show_ring(self, ring: bool) -> None:
        self._bubble.setProperty("focused", ring)
        self._bubble.style().unpolish(self._bubble)
        self._bubble.style().polish(self._bubble)

    def _arrange(self, outer: int) -> int:
        width = outer - EDGE
        y = self._arrange_chips(width)
        limit = max(80, round(width * 0.82) - 2 * theme.SPACE_L)
        inner = self._text.natural_width(limit)
        height = self._text.heightForWidth(inner)
        self._text.setGeometry(theme.SPACE_L, theme.SPACE_M, inner, height)
        box_width = inner + 2 * theme.SPACE_L
        box_height = height + 2 * theme.SPACE_M - self._text.slack()
        if self._more is not None:
            size = self._more.sizeHint()
            self._more.setGeometry(theme.SPACE_S, box_height - theme.SPACE_XS, size.width(), size.height())
            box_width = max(box_width, size.width() + 2 * theme.SPACE_S)
            box_height += size.height() + theme.SPACE_XS
        self._bubble.setGeometry(width - box_width, y, box_width, box_height)
        size = self._copy.sizeHint()
        left = width - box_width - size.width() - theme.SPACE_XS
        self._copy.setGeometry(QRect(left, y + box_height - size.height() - 4, size.width(), size.height()))
        return y + box_height

    def _arrange_chips(self, width: int) -> int:
        y = 0
        for chip in self._chips:
            chip_width = round(width * 0.82) if chip.is_open() else min(width, chip.sizeHint().width())
            height = chip.sizeHint().height()
            chip.setGeometry(width - chip_width, y, chip_width, height)
            y += height + theme.SPACE_S
        return y

    def _show_all(self) -> None:
        if self._more is not None:
            self._more.hide()
            self._more.deleteLater()
            self._more = None
        self._text.set_text(self._entry_text)
        self.updateGeometry()


def _shortened(text: str) -> str:
    lines = text.split("\n", _TALL)
    start = "\n".join(lines[:_TALL])[:_LONG]
    return start if len(start) == len(text) else start.rstrip() + " …"
