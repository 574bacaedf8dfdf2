"""What was said: the scrolling column of messages."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from PySide6.QtCore import QEvent, Qt, QTimer, Signal
from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent, QKeyEvent, QResizeEvent, QWheelEvent
from PySide6.QtWidgets import QFrame, QPushButton, QScrollArea, QWidget
from shiboken6 import isValid

from app import events
from app.events import Event
from app.history import Block, Entry, ScreenBlock, TextBlock, ToolBlock
from app.permissions.action import Answer
from ui import theme
from ui.chat.answer import Answer as Growing
from ui.chat.column import Column, Slot
from ui.chat.message import AnswerView
from ui.chat.question import QuestionView
from ui.coalesce import Coalescer
from ui.widgets.icons import icon

_AT_END = 2  # pixels above the end that still count as the end


class Transcript(QScrollArea):
    """Shows a conversation, and grows while an answer streams in."""

    link_asked = Signal(str)  # a http, https or mailto address the person clicked: confirm, then open
    following_changed = Signal(bool)  # whether the end is kept in view

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setAccessibleName("Conversation")
        self.setFocusPolicy(Qt.FocusPolicy.ClickFocus)  # Tab goes to its messages
        self.viewport().setAutoFillBackground(False)
        self._column = Column()
        self._column.setAutoFillBackground(False)
        self.setWidget(self._column)
        self._column.setAutoFillBackground(False)
        self._column.link_asked.connect(self.link_asked)
        self._following, self._moving = True, False
        self._answer: Growing | None = None
        self._slot: Slot | None = None
        self._paint = Coalescer(self._draw_answer, self)
        self._relayout = QTimer(self)
        self._relayout.setSingleShot(True)
        self._relayout.timeout.connect(self._arrange)
        self._column.changed.connect(lambda: self._relayout.start(0))
        self._to_end = NewButton(self)
        self._to_end.clicked.connect(self.scroll_to_end)
        self.verticalScrollBar().valueChanged.connect(self._scrolled)
        self.verticalScrollBar().setSingleStep(24)

    # What is shown

    def show_entries(self, entries: Sequence[Entry]) -> None:
        """Show another conversation, at its end."""
        self._drop_answer()
        self._column.set_entries(entries)
        self._set_following(True)
        self._arrange()

    def clear(self) -> None:
        """Show nothing."""
        self.show_entries(())

    def add_question(self, question_id: str, text: str) -> None:
        """Show a question the moment it was sent, and follow the end."""
        if self._column.slot_of(question_id) is None:
            self._column.add(Entry(question_id, "user", (TextBlock(text),)))
        self.scroll_to_end()

    def begin_answer(self, answer_id: str) -> None:
        """An answer starts to grow; one already shown under this id goes on. `TurnStarted` does this too."""
        if self._answer is not None and self._answer.id == answer_id:
            return
        self._drop_answer()
        slot = self._column.slot_of(answer_id) or self._column.add(
            Entry(answer_id, "assistant", (), "streaming")
        )
        slot.entry = Entry(answer_id, "assistant", slot.entry.blocks, "streaming")
        slot.pinned = True
        self._slot, self._answer = slot, Growing(slot.entry)
        self._arrange()

    def apply(self, event: Event) -> None:
        """Show what a turn reports; every event may be given, in order."""
        match event:
            case events.TurnStarted():
                self.begin_answer(event.answer_id)
            case events.ScreenRead():
                self._add_screen(ScreenBlock(event.text, event.source, event.words))
            case events.PermissionAsked():
                self._follow_permission(event)
            case events.TurnEnded():
                self._end(event)
            case events.ContextMeasured() | events.SpeedMeasured():
                pass  # shown elsewhere
            case _ if self._answer is not None:
                self._answer.apply(event)
                self._paint.touch()

    def is_following(self) -> bool:
        """Whether the end is kept in view."""
        return self._following

    def scroll_to_end(self) -> None:
        """Go to the newest message and follow again."""
        self._set_following(True)
        self._arrange()

    # Growing

    def _draw_answer(self) -> None:
        if self._answer is None or self._slot is None:
            return
        view = self._column.view_of(self._slot)
        assert isinstance(view, AnswerView)
        blocks = self._answer.blocks()
        view.show_blocks(blocks)
        view.show_progress(self._answer.progress or ("Thinking" if _is_quiet(blocks) else ""))
        self._arrange()
        if not self._following:
            self._to_end.say_new()

    def _end(self, event: events.TurnEnded) -> None:
        if self._answer is None or self._slot is None:
            return
        self._answer.apply(event)
        self._paint.drop()
        self._draw_answer()
        view = self._column.view_of(self._slot)
        assert isinstance(view, AnswerView)
        view.finish(event.reason, event.message)
        words = len(self._answer.entry().text.split())
        self._drop_answer()
        self._arrange()
        self._announce(event.message or f"Answer finished, {words} words.")

    def _drop_answer(self) -> None:
        self._paint.drop()
        if self._slot is not None and self._answer is not None:
            self._slot.entry, self._slot.pinned = self._answer.entry(), False
        self._slot = self._answer = None

    def _add_screen(self, block: ScreenBlock) -> None:
        slot = next((slot for slot in reversed(self._column.slots) if slot.entry.role == "user"), None)
        if slot is None:
            return
        entry = slot.entry
        slot.entry = Entry(entry.id, entry.role, (*entry.blocks, block), entry.state)
        if isinstance(slot.view, QuestionView):
            slot.view.add_screen(block)
        self._arrange()

    def _follow_permission(self, event: events.PermissionAsked) -> None:
        self._paint.flush()
        view = self._slot.view if self._slot is not None else None
        if not isinstance(view, AnswerView):
            return
        view.set_tool_state("waiting")

        def answered(answer: asyncio.Future[Answer]) -> None:
            if isValid(view) and not answer.cancelled():
                view.set_tool_state("running" if answer.result().allow else "refused")

        event.answer.add_done_callback(answered)

    def _announce(self, text: str) -> None:
        if QAccessible.isActive():
            QAccessible.updateAccessibility(QAccessibleAnnouncementEvent(self, text))

    # Scrolling

    def _arrange(self) -> None:
        if self._moving:
            return
        self._moving = True
        self._relayout.stop()
        bar, port = self.verticalScrollBar(), self.viewport()
        anchor = None if self._following else self._column.anchor(bar.value())
        target = self._column.arrange(port.width(), port.height(), anchor, self.width() // 2)
        bar.setValue(bar.maximum() if self._following else target)
        self._moving = False
        self._place_button()

    def _scrolled(self, value: int) -> None:
        if self._moving:
            return
        self._set_following(value >= self.verticalScrollBar().maximum() - _AT_END)
        self._arrange()

    def _set_following(self, following: bool) -> None:
        if following != self._following:
            self._following = following
            self.following_changed.emit(following)

    def _place_button(self) -> None:
        self._to_end.setVisible(not self._following)
        if self._following:
            self._to_end.rest()
            return
        size = self._to_end.sizeHint()
        port = self.viewport().geometry()
        self._to_end.setGeometry(
            (self.width() - size.width()) // 2,
            port.bottom() - size.height() - theme.SPACE_M,
            size.width(),
            size.height(),
        )
        self._to_end.raise_()

    def wheelEvent(self, event: QWheelEvent) -> None:
        """One notch up lets go of the end."""
        bar = self.verticalScrollBar()
        if bar.maximum() and (event.angleDelta().y() > 0 or event.pixelDelta().y() > 0):
            self._set_following(False)
        super().wheelEvent(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Home and End go to the ends; the rest scrolls."""
        if event.key() == Qt.Key.Key_End:
            self.scroll_to_end()
        elif event.key() == Qt.Key.Key_Home:
            self.verticalScrollBar().setValue(0)
        else:
            super().keyPressEvent(event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Lay the messages out for the new width, holding on to what is read."""
        super().resizeEvent(event)
        self._arrange()


def _is_quiet(blocks: tuple[Block, ...]) -> bool:
    """Whether nothing else on screen shows that work goes on."""
    match blocks[-1] if blocks else None:
        case TextBlock() | ToolBlock(result=None):
            return False
        case _:
            return True


class NewButton(QPushButton):
    """Goes back to the end; says so when there is something new there."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setProperty("role", "float")
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.hide()
        self.rest()

    def say_new(self) -> None:
        """There is something new below."""
        self.setText("New")
        self.setAccessibleName("New text below: go to the end")

    def rest(self) -> None:
        """Nothing new, just the way down."""
        self.setText("")
        self.setAccessibleName("Go to the end")
        self.setIcon(icon("arrow-down", theme.colours().text))

    def changeEvent(self, event: QEvent) -> None:
        """Follow the theme."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange:
            self.setIcon(icon("arrow-down", theme.colours().text))
