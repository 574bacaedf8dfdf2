"""One message on screen: a question in its bubble, an answer on the page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from PySide6.QtCore import QEvent, QPoint, QRect, QRectF, Qt, QTimer, Signal
from PySide6.QtGui import QColor, QEnterEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from app.history import Block, Entry, NoticeBlock, ReasoningBlock, ScreenBlock, TextBlock, ToolBlock
from ui import theme
from ui.chat.cards import Notice, ReasoningFold, ScreenChip, ToolCard, ToolState
from ui.chat.flow import FlowView, PlainText, copy_text
from ui.chat.markdown import MarkdownView
from ui.widgets.icons import IconButton
from ui.widgets.spinner import Spinner

EDGE = 8  # room on both sides of a message, for the ring that shows where the keyboard is
_LONG = 4_000  # characters, or
_TALL = 30  # lines, of a question that are shown before "Show all"
_COPIED_MS = 1500
_ENDINGS = {
    "stopped": "Stopped",
    "length": "Cut off: the answer reached its length limit.",
    "interrupted": "Interrupted: the program ended before the answer was complete.",
}


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


class AnswerView(QWidget):
    """What the model wrote and did, in order; it may still be growing."""

    link_asked = Signal(str)

    def __init__(self, entry: Entry, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._parts: list[QWidget] = []
        self._shown: list[Block] = []
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(EDGE, 0, EDGE, 0)
        self._column.setSpacing(theme.SPACE_M)
        self._progress = _Progress(self)
        self._column.addWidget(self._progress)
        self._foot = QHBoxLayout()
        self._foot.setSpacing(theme.SPACE_S)
        self._copy = CopyMessage(self._written, self)
        self._ending = QLabel(self)
        self._ending.setProperty("role", "faint")
        self._foot.setContentsMargins(-theme.SPACE_S, 0, 0, 0)  # the icon, not its button, meets the margin
        self._foot.addWidget(self._copy)
        self._foot.addWidget(self._ending)
        self._foot.addStretch(1)
        self._column.addLayout(self._foot)
        self.show_blocks(entry.blocks)
        if entry.state == "streaming":
            self.show_progress("Thinking")
        else:
            self.finish(entry.state, entry.error)

    def show_blocks(self, blocks: tuple[Block, ...]) -> None:
        """Bring the parts up to date: only what is new at the end is drawn."""
        for index, block in enumerate(blocks):
            if index == len(self._parts):
                self._add(block)
            elif block is not self._shown[index] and block != self._shown[index]:
                self._update(index, block)

    def show_progress(self, words: str) -> None:
        """Say what is going on while nothing is written; empty: nothing is."""
        self._copy.hide()
        self._ending.hide()
        self._progress.say(words)

    def set_tool_state(self, state: ToolState) -> None:
        """How the newest call that has not ended stands."""
        for part in reversed(self._parts):
            if isinstance(part, ToolCard) and part.result_text() is None:
                part.set_state(state)
                return

    def finish(self, state: str, error: str = "") -> None:
        """Nothing more will come."""
        self._progress.say("")
        for part in self._parts:
            if isinstance(part, MarkdownView):
                part.finish()
            elif isinstance(part, ReasoningFold):
                part.view.finish()
                part.set_title("Reasoning")
            elif isinstance(part, ToolCard) and part.result_text() is None:
                part.set_state("stopped")
        if state == "failed":
            self._insert(Notice(error or "The answer could not be completed.", "error", self))
        self._ending.setText(_ENDINGS.get(state, ""))
        self._ending.setVisible(state in _ENDINGS)
        self._copy.setVisible(bool(self._written()))

    def hasHeightForWidth(self) -> bool:
        """It has."""
        return True

    def heightForWidth(self, width: int) -> int:
        """Pixels all parts take at this width."""
        if self._column.hasHeightForWidth():
            return self._column.totalHeightForWidth(width)
        return self._column.totalSizeHint().height()

    def paintEvent(self, event: QPaintEvent) -> None:
        """A ring around the text the keyboard is in."""
        ringed = next((text for text in self.texts() if text.has_ring()), None)
        if ringed is None:
            return
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(QColor(theme.colours().accent), 2))
        box = QRectF(QRect(ringed.mapTo(self, QPoint(0, 0)), ringed.size()))
        painter.drawRoundedRect(box.adjusted(1 - EDGE, -3, EDGE - 1, 3), theme.RADIUS_S, theme.RADIUS_S)

    def texts(self) -> list[FlowView]:
        """The parts that can hold a selection."""
        views = [part for part in self._parts if isinstance(part, MarkdownView)]
        return [*views, *(part.view for part in self._parts if isinstance(part, ReasoningFold))]

    def _written(self) -> str:
        return "\n\n".join(part.markdown() for part in self._parts if isinstance(part, MarkdownView))

    def _add(self, block: Block) -> None:
        self._parts.append(self._insert(self._make(block)))
        self._shown.append(block)

    def _insert(self, part: QWidget) -> QWidget:
        self._column.insertWidget(self._column.indexOf(self._progress), part)
        part.show()
        return part

    def _make(self, block: Block) -> QWidget:
        match block:
            case TextBlock():
                return self._markdown(block.text)
            case ReasoningBlock():
                fold = ReasoningFold(self)
                fold.view.append(block.text)
                fold.view.ring_changed.connect(self.update)
                fold.view.link_asked.connect(self.link_asked)
                return fold
            case ToolBlock():
                return ToolCard(block, self)
            case ScreenBlock():
                return ScreenChip(block, self)
            case NoticeBlock():
                return Notice(block.text, parent=self)

    def _markdown(self, text: str) -> MarkdownView:
        view = MarkdownView(self)
        view.setAccessibleName("Answer")
        view.ring_changed.connect(self.update)
        view.link_asked.connect(self.link_asked)
        view.append(text)
        return view

    def _update(self, index: int, block: Block) -> None:
        before, part = self._shown[index], self._parts[index]
        self._shown[index] = block
        match block, before, part:
            case TextBlock(), TextBlock(), MarkdownView():
                part.append(block.text[len(before.text) :])
            case ReasoningBlock(), ReasoningBlock(), ReasoningFold():
                part.view.append(block.text[len(before.text) :])
            case ToolBlock(), _, ToolCard() if block.result is not None:
                refused = part.state == "refused"
                part.finish("done" if block.ok else "refused" if refused else "failed", block.result)


class _Progress(QWidget):
    """A spinner and a few words."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._words = QLabel(self)
        self._words.setProperty("role", "muted")
        row = QHBoxLayout(self)
        row.setContentsMargins(0, theme.SPACE_XS, 0, theme.SPACE_XS)
        row.setSpacing(theme.SPACE_S)
        row.addWidget(Spinner(self))
        row.addWidget(self._words, 1, Qt.AlignmentFlag.AlignVCenter)
        self.hide()

    def say(self, words: str) -> None:
        """Show these words, or nothing."""
        self._words.setText(words)
        self.setVisible(bool(words))


MessageView = QuestionView | AnswerView
Role = Literal["user", "assistant"]


def make_view(entry: Entry, parent: QWidget) -> MessageView:
    """The widget for an entry."""
    return QuestionView(entry, parent) if entry.role == "user" else AnswerView(entry, parent)


def _shortened(text: str) -> str:
    lines = text.split("\n", _TALL)
    start = "\n".join(lines[:_TALL])[:_LONG]
    return start if len(start) == len(text) else start.rstrip() + " …"
