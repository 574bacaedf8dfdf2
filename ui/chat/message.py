"""An answer on screen, and the widget for any message."""

from __future__ import annotations

from typing import Literal

from PySide6.QtCore import QPoint, QRect, QRectF, Qt, Signal
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QHBoxLayout, QLabel, QVBoxLayout, QWidget

from app.history import Block, Entry, NoticeBlock, ReasoningBlock, ScreenBlock, TextBlock, ToolBlock
from ui import theme
from ui.chat.cards import Notice, ReasoningFold, ScreenChip, ToolCard, ToolState
from ui.chat.flow import FlowView
from ui.chat.markdown import MarkdownView
from ui.chat.question import EDGE, CopyMessage, QuestionView
from ui.widgets.spinner import Spinner

_ENDINGS = {
    "stopped": "Stopped",
    "length": "Cut off: the answer reached its length limit.",
    "interrupted": "Interrupted: the program ended before the answer was complete.",
}


class AnswerView(QWidget):
    """What the model wrote and did, in order; it may still be growing."""

    link_asked = Signal(str)

    def __init__(self, entry: Entry, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._parts: list[QWidget] = []
        self._shown: list[Block] = []
        self._all = QVBoxLayout(self)
        self._all.setContentsMargins(0, 0, 0, 0)
        self._all.setSpacing(theme.SPACE_M)
        self._column = QVBoxLayout()
        self._column.setContentsMargins(EDGE, 0, EDGE, 0)
        self._column.setSpacing(theme.SPACE_M)
        self._progress = _Progress(self)
        self._column.addWidget(self._progress)
        self._foot = QHBoxLayout()
        self._foot.setSpacing(theme.SPACE_S)
        self._copy = CopyMessage(self._written, self)
        self._ending = QLabel(self)
        self._ending.setProperty("role", "faint")
        inset = EDGE - theme.SPACE_S  # the icon, not its button, stands below the text
        self._foot.setContentsMargins(inset, 0, 0, 0)
        self._foot.addWidget(self._copy)
        self._foot.addWidget(self._ending)
        self._foot.addStretch(1)
        self._all.addLayout(self._column)
        self._all.addLayout(self._foot)
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
        if self._all.hasHeightForWidth():
            return self._all.totalHeightForWidth(width)
        return self._all.totalSizeHint().height()

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
                part.finish(block)


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
