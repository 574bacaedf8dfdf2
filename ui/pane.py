"""The chat in view: what was said, what is asked of the person, and where they write."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, QTimer, QUrl, Signal
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QMessageBox,
    QScrollArea,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from app.errors import UserError
from app.events import Event, PermissionAsked, TurnStarted
from ui import theme
from ui.chat.composer import Composer
from ui.chat.transcript import Transcript
from ui.dialogs.drawer import PermissionDrawer
from ui.loading import ModelCard
from ui.remembered import Remembered
from ui.start import StartPage
from ui.turns import Turns
from ui.widgets.icons import IconButton
from ui.widgets.labels import label

if TYPE_CHECKING:
    from app.session import Assistant

DRAFT_MS = 400


class ChatPane(QWidget):
    """Shows one chat at a time; a new chat is created with its first message."""

    shown = Signal(str)  # the id of the chat in view, empty for a new one
    reported = Signal(str, object)  # conversation id, what its turn reported
    conversations_changed = Signal()
    folder_wanted = Signal()

    def __init__(
        self, assistant: Assistant, turns: Turns, remembered: Remembered, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._assistant, self._turns, self._remembered = assistant, turns, remembered
        self.current = ""
        self.start = StartPage()
        self.transcript = Transcript()
        self.model_card = ModelCard()
        self.drawer = PermissionDrawer()
        self.composer = Composer()
        self.notice = Notice()
        self._pages = QStackedWidget()
        self._lay_out()
        self._draft_timer = QTimer(self, singleShot=True, interval=DRAFT_MS)
        self._connect()

    def open(self, conversation_id: str) -> None:
        """Show a chat, midway through its answer if one is being written; empty: a new one."""
        self.keep_draft()
        self.current = conversation_id
        self.notice.hide()
        self._show_entries()
        self.composer.set_text(self._remembered.draft(conversation_id))
        self.composer.set_busy(self._turns.seen(conversation_id) is not None)
        self._remembered.set("chat", conversation_id)
        self.composer.focus()
        self.shown.emit(conversation_id)

    def send(self, text: str, look: bool) -> None:
        """Send what was written in the chat in view."""
        try:
            if not self.current:
                self.current = self._assistant.create().id
                self._remembered.set("chat", self.current)
                self.shown.emit(self.current)
        except UserError as error:
            self._give_back(self.current, text, str(error))
            return
        for draft in ("", self.current):
            self._remembered.set_draft(draft, "")
        self._pages.setCurrentWidget(self.transcript)
        self.composer.set_look(False)  # each look is asked for anew
        self._turns.start(self.current, text, look=look)

    def stop(self) -> None:
        """Stop the answer being written in the chat in view."""
        self._turns.stop(self.current)

    def keep_draft(self) -> None:
        """Remember what is written but not sent."""
        self._draft_timer.stop()
        self._remembered.set_draft(self.current, self.composer.text())

    def _show_entries(self) -> None:
        """The stored messages, but of a running turn what it reported: that is newer."""
        seen = self._turns.seen(self.current)
        started = next((event for event in seen or () if isinstance(event, TurnStarted)), None)
        entries = self._assistant.conversation(self.current).entries if self.current else ()
        if started is not None:
            running = (started.question_id, started.answer_id)
            entries = tuple(entry for entry in entries if entry.id not in running)
        self._pages.setCurrentWidget(self.transcript if entries or seen is not None else self._greeting)
        self.transcript.show_entries(entries)
        for event in seen or ():
            self._show_event(event)

    def _receive(self, conversation_id: str, event: Event) -> None:
        if isinstance(event, PermissionAsked):
            self.drawer.add(event)
        if conversation_id == self.current:
            self._show_event(event)
        if isinstance(event, TurnStarted):
            self.conversations_changed.emit()
        self.reported.emit(conversation_id, event)

    def _show_event(self, event: Event) -> None:
        if isinstance(event, TurnStarted):
            self.transcript.add_question(event.question_id, self._turns.question(event.conversation_id))
        self.transcript.apply(event)

    def _turn_changed(self, conversation_id: str) -> None:
        if conversation_id == self.current:
            self.composer.set_busy(self._turns.seen(conversation_id) is not None)
        self.conversations_changed.emit()

    def _give_back(self, conversation_id: str, text: str, sentence: str) -> None:
        """What could not be sent returns to where it was written."""
        if text and conversation_id == self.current:
            self.composer.restore(text)
        elif text:
            self._remembered.set_draft(conversation_id, text)
        self.notice.say(sentence)

    def _begin(self, text: str, look: bool) -> None:
        if not self.composer.text().strip():
            self.composer.set_text(text)
        self.composer.set_look(look)
        self.composer.focus()

    def _ask_link(self, address: str) -> None:
        """Show the whole address before the browser opens it."""
        box = QMessageBox(self)
        box.setWindowTitle("Open this link?")
        box.setTextFormat(box.textFormat().PlainText)
        url = QUrl(address)
        box.setText(f"The browser would open {url.host() or url.scheme()}:")
        box.setInformativeText(QUrl(address).toDisplayString(QUrl.ComponentFormattingOption.FullyEncoded))
        box.setStandardButtons(QMessageBox.StandardButton.Open | QMessageBox.StandardButton.Cancel)
        box.setDefaultButton(QMessageBox.StandardButton.Cancel)
        box.button(QMessageBox.StandardButton.Open).clicked.connect(lambda: QDesktopServices.openUrl(url))
        box.finished.connect(box.deleteLater)
        box.open()

    def _connect(self) -> None:
        self.composer.submitted.connect(self.send)
        self.composer.stopped.connect(self.stop)
        self.composer.draft_changed.connect(self._draft_timer.start)
        self._draft_timer.timeout.connect(self.keep_draft)
        self.start.begun.connect(self._begin)
        self.start.folder_wanted.connect(self.folder_wanted)
        self.transcript.link_asked.connect(self._ask_link)
        self._turns.arrived.connect(self._receive)
        self._turns.changed.connect(self._turn_changed)
        self._turns.refused.connect(self._give_back)

    def _lay_out(self) -> None:
        around = QScrollArea()  # a low window scrolls the greeting
        around.setWidget(self.start)
        around.setWidgetResizable(True)
        around.setFrameShape(QFrame.Shape.NoFrame)
        around.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        around.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._greeting = around
        self._pages.setMinimumHeight(60)
        self._pages.addWidget(around)
        self._pages.addWidget(self.transcript)
        foot = QWidget()
        foot.setMaximumWidth(theme.COLUMN + 2 * theme.SPACE_L)
        column = QVBoxLayout(foot)
        column.setContentsMargins(theme.SPACE_L, 0, theme.SPACE_L, theme.SPACE_L)
        column.setSpacing(theme.SPACE_S)
        for widget in (self.model_card, self.notice, self.drawer, self.composer):
            column.addWidget(widget)
        row = QHBoxLayout()
        row.addStretch(1)
        row.addWidget(foot, 100)
        row.addStretch(1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self._pages, 1)
        layout.addLayout(row)


class Notice(QFrame):
    """A sentence above the composer, until it is closed."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("role", "notice")
        self.text = label("", "small", wrap=True)
        close = IconButton("close", "Close this notice")
        close.clicked.connect(self.hide)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(theme.SPACE_M, theme.SPACE_XS, theme.SPACE_XS, theme.SPACE_XS)
        layout.addWidget(self.text, 1)
        layout.addWidget(close)
        self.hide()

    def say(self, sentence: str) -> None:
        """Show this sentence."""
        self.text.setText(sentence)
        self.setAccessibleName(sentence)
        self.show()
