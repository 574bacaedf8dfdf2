"""The list of chats: search, open, rename, delete with undo."""

from __future__ import annotations

import time
from collections.abc import Iterable

from PySide6.QtCore import (
    QEvent,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    QPoint,
    QRect,
    QRectF,
    QSize,
    Qt,
    QTimer,
    Signal,
)
from PySide6.QtGui import QColor, QKeyEvent, QPainter, QPalette, QPen
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QLineEdit,
    QListWidget,
    QListWidgetItem,
    QMenu,
    QPushButton,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QVBoxLayout,
    QWidget,
)

from app.history import Conversation
from ui import theme
from ui.widgets.labels import label

ID = Qt.ItemDataRole.UserRole
UPDATED = Qt.ItemDataRole.UserRole + 1
MARK = Qt.ItemDataRole.UserRole + 2  # a word about the chat, shown instead of the time
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
        layout.setContentsMargins(10, 10, 6, 10)
        layout.setSpacing(8)
        for widget in (self.new, self.search, self.list, self.none_found, self.undo_bar):
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
        shown = title if len(title) <= 24 else title[:23] + "…"
        self.undo_text.setText(f"Deleted “{shown}”")
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
        self.undo_text = label("", "small")
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


class TitleAndTime(QStyledItemDelegate):
    """Paints a chat as its title and, smaller below, when it was last used."""

    def sizeHint(self, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex) -> QSize:
        """Two lines and some air."""
        return QSize(0, option.fontMetrics.height() * 2 + 16)

    def paint(
        self, painter: QPainter, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> None:
        """Background by the style, then the two lines."""
        self.initStyleOption(option, index)
        title, option.text = option.text, ""
        style = option.widget.style()
        style.drawControl(QStyle.ControlElement.CE_ItemViewItem, option, painter, option.widget)
        if option.state & QStyle.StateFlag.State_HasFocus and option.state & QStyle.StateFlag.State_Selected:
            self._outline(painter, option.rect)
        inner = option.rect.adjusted(12, 7, -10, -7)
        line = option.fontMetrics.height()
        self._write(painter, option, QRect(inner.left(), inner.top(), inner.width(), line), title, 1.0)
        below = QRect(inner.left(), inner.bottom() - line + 1, inner.width(), line)
        self._write(painter, option, below, index.data(MARK) or ago(index.data(UPDATED), time.time()), 0.6)

    def _outline(self, painter: QPainter, row: QRect) -> None:
        """The keyboard is here."""
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(QColor(theme.colours().accent), 1.5))
        painter.drawRoundedRect(QRectF(row).adjusted(1, 2, -1, -2), 8, 8)
        painter.restore()

    def _write(
        self, painter: QPainter, option: QStyleOptionViewItem, where: QRect, text: str, opacity: float
    ) -> None:
        painter.save()
        font = option.font
        if opacity < 1:
            font.setPixelSize(theme.pixels(theme.TINY))
        painter.setFont(font)
        painter.setOpacity(opacity)
        painter.setPen(option.palette.color(QPalette.ColorRole.Text))
        shown = painter.fontMetrics().elidedText(text, Qt.TextElideMode.ElideRight, where.width())
        flags = Qt.AlignmentFlag.AlignVCenter | Qt.TextFlag.TextSingleLine | Qt.AlignmentFlag.AlignLeading
        painter.drawText(where, flags, shown)
        painter.restore()


def make_item(conversation: Conversation) -> QListWidgetItem:
    """A row; its title can be edited in place."""
    title = conversation.title or "New chat"
    item = QListWidgetItem(title)
    item.setFlags(item.flags() | Qt.ItemFlag.ItemIsEditable)
    item.setData(ID, conversation.id)
    item.setData(UPDATED, conversation.updated)
    return item


def ago(then: float, now: float) -> str:
    """How long ago, in words: "just now", "5 min ago", "yesterday", else the date."""
    seconds = now - then
    if seconds < 60:
        return "just now"
    if seconds < 3_600:
        return f"{int(seconds // 60)} min ago"
    days = day(now) - day(then)
    if days == 0:
        hours = int(seconds // 3_600)
        return f"{hours} h ago"
    if days == 1:
        return "yesterday"
    if days < 7:
        return f"{days} days ago"
    date = time.localtime(then)
    form = "%d %b" if date.tm_year == time.localtime(now).tm_year else "%d %b %Y"
    return time.strftime(form, date)


def day(moment: float) -> int:
    """Days since a fixed date, by the local calendar."""
    local = time.localtime(moment)
    return int((moment + local.tm_gmtoff) // 86_400)
