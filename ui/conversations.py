"""The list of chats: search, open, rename, delete with undo."""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtCore import (
    QEvent,
    QObject,
    QPoint,
    Qt,
    QTimer,
    Signal,
)
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QLineEdit,
    QListWidget,
    QListWidgetItem,
    QMenu,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from app.history import Conversation
from ui.rows import ID, MARK, UPDATED, TitleAndTime
from ui.widgets.elided import ElidedLabel
from ui.widgets.labels import label

UNDO_MS = 8_000
EDIT_KEYS = QListWidget.EditTrigger.EditKeyPressed | QListWidget.EditTrigger.SelectedClicked


class ConversationList(QFrame):
    """Shows conversations, newest first. It changes nothing itself: it says what the person wants."""

    chosen = Signal(str)
    new_wanted = Signal()
    renamed = Signal(str, str)
    delete_wanted = Signal(str)
    undo_wanted = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("role", "sidebar")
        self.setMinimumWidth(200)
        self._filling = False
        self._deleted = ""
        self.new = QPushButton("New chat")
        self.new.setToolTip("New chat (Ctrl+N)")
        self.new.clicked.connect(self.new_wanted)
        self.search = QLineEdit(placeholderText="Search chats", clearButtonEnabled=True)
        self.search.setAccessibleName("Search chats by title")
        self.search.textChanged.connect(self._filter)
        self.search.installEventFilter(self)
        self._make_list()
        self._make_undo()
        layout = QVBoxLayout(self)
        layout.setContentsMargins(10, 10, 10, 10)
        layout.setSpacing(8)
        for widget in (self.new, self.search, self.none_found, self.list, self.undo_bar):
            layout.addWidget(widget)
        layout.setStretchFactor(self.list, 1)

    def show_conversations(self, conversations: Iterable[Conversation], current: str) -> None:
        """Show these chats, without marks; keeps the search and what is being renamed."""
        if self.list.state() == QListWidget.State.EditingState:
            return
        self._filling = True
        self.list.clear()
        for conversation in conversations:
            self.list.addItem(make_item(conversation))
        self._filling = False
        self.select(current)
        self._filter(self.search.text())

    def select(self, conversation_id: str) -> None:
        """Mark a chat as the one shown; nothing is reported."""
        self._filling = True
        item = self._item(conversation_id)
        if item is None:
            self.list.setCurrentRow(-1)
        else:
            self.list.setCurrentItem(item)
        self._filling = False

    def mark(self, conversation_id: str, word: str) -> None:
        """Say something beside a chat ("writing…"), or nothing."""
        if item := self._item(conversation_id):
            self._filling = True
            item.setData(MARK, word)
            self._filling = False

    def offer_undo(self, conversation_id: str, title: str) -> None:
        """Show the bar that brings a deleted chat back, for a few seconds."""
        self._deleted = conversation_id
        self.undo_text.setText(f"Deleted “{title}”")
        self.undo_bar.show()
        self._undo_timer.start(UNDO_MS)

    def rename_current(self) -> None:
        """Edit the title of the marked chat in its place."""
        if item := self.list.currentItem():
            self.list.editItem(item)

    def delete_current(self) -> None:
        """Ask for the marked chat to be deleted."""
        if item := self.list.currentItem():
            self.delete_wanted.emit(item.data(ID))

    def _make_list(self) -> None:
        self.list = QListWidget()
        self.list.setProperty("role", "sidebar")
        self.list.setAccessibleName("Chats")
        self.list.setItemDelegate(TitleAndTime(self.list))
        self.list.setEditTriggers(EDIT_KEYS)
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.list.setVerticalScrollMode(QListWidget.ScrollMode.ScrollPerPixel)
        self.list.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.list.customContextMenuRequested.connect(self._open_menu)
        self.list.currentItemChanged.connect(self._report_choice)
        self.list.itemChanged.connect(self._report_rename)
        self.list.installEventFilter(self)
        self.none_found = label("No chat has that in its title.", "muted", wrap=True)
        self.none_found.hide()
        self._clock = QTimer(self, interval=60_000)
        self._clock.timeout.connect(self.list.viewport().update)
        self._clock.start()

    def _make_undo(self) -> None:
        self.undo_bar = QFrame()
        self.undo_bar.setProperty("role", "undo")
        self.undo_text = ElidedLabel()
        self.undo_text.setProperty("role", "small")
        undo = QPushButton("Undo")
        undo.setProperty("role", "ghost")
        undo.setAccessibleName("Undo deleting the chat")
        undo.clicked.connect(self._undo)
        row = QHBoxLayout(self.undo_bar)
        row.setContentsMargins(10, 4, 4, 4)
        row.addWidget(self.undo_text, 1)
        row.addWidget(undo)
        self._undo_timer = QTimer(self, singleShot=True)
        self._undo_timer.timeout.connect(self.undo_bar.hide)
        self.undo_bar.hide()

    def _undo(self) -> None:
        self.undo_bar.hide()
        self.undo_wanted.emit(self._deleted)

    def _item(self, conversation_id: str) -> QListWidgetItem | None:
        for row in range(self.list.count()):
            if self.list.item(row).data(ID) == conversation_id:
                return self.list.item(row)
        return None

    def _report_choice(self, item: QListWidgetItem | None) -> None:
        if item is not None and not self._filling:
            self.chosen.emit(item.data(ID))

    def _report_rename(self, item: QListWidgetItem) -> None:
        if not self._filling and item.text().strip():
            self.renamed.emit(item.data(ID), item.text().strip())

    def _filter(self, text: str) -> None:
        wanted = text.casefold().split()
        shown = 0
        for row in range(self.list.count()):
            item = self.list.item(row)
            title = item.text().casefold()
            item.setHidden(not all(word in title for word in wanted))
            shown += not item.isHidden()
        self.none_found.setVisible(bool(wanted) and not shown)

    def _open_menu(self, where: QPoint) -> None:
        item = self.list.itemAt(where)
        if item is None:
            return
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        chat = item.data(ID)
        menu.addAction("Rename").triggered.connect(lambda: self._rename(chat))
        menu.addAction("Delete").triggered.connect(lambda: self.delete_wanted.emit(chat))
        menu.popup(self.list.viewport().mapToGlobal(where))

    def _rename(self, conversation_id: str) -> None:
        if item := self._item(conversation_id):
            self.list.editItem(item)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Delete key in the list; Down from the search into the list; Esc empties the search."""
        if not isinstance(event, QKeyEvent) or event.type() != QEvent.Type.KeyPress:
            return False
        if watched is self.list and event.key() == Qt.Key.Key_Delete:
            self.delete_current()
            return True
        if watched is self.search and event.key() == Qt.Key.Key_Down:
            self.list.setFocus()
            return True
        if watched is self.search and event.key() == Qt.Key.Key_Escape and self.search.text():
            self.search.clear()
            return True
        return False


def make_item(conversation: Conversation) -> QListWidgetItem:
    """A row; its title can be edited in place."""
    title = conversation.title or "New chat"
    item = QListWidgetItem(title)
    item.setFlags(item.flags() | Qt.ItemFlag.ItemIsEditable)
    item.setData(ID, conversation.id)
    item.setData(UPDATED, conversation.updated)
    return item
