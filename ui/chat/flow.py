"""Text that is as tall as its content: no scroll bars of its own, nothing ever loaded."""

from __future__ import annotations

from math import ceil
from typing import Any

from PySide6.QtCore import QEvent, QSize, Qt, QUrl, Signal
from PySide6.QtGui import (
    QContextMenuEvent,
    QFocusEvent,
    QGuiApplication,
    QImage,
    QKeyEvent,
    QKeySequence,
    QTextBlockFormat,
    QTextCursor,
    QTextDocument,
    QTextOption,
    QWheelEvent,
)
from PySide6.QtWidgets import QFrame, QMenu, QSizePolicy, QTextBrowser, QTextEdit, QWidget

from ui import theme
from ui.chat.styling import LINK_SCHEMES

_LINE_PERCENT = 130
_Key = Qt.Key
_MOVES = (_Key.Key_PageUp, _Key.Key_PageDown, _Key.Key_Home, _Key.Key_End, _Key.Key_Up, _Key.Key_Down)


class FlowView(QTextBrowser):
    """A read-only document that can be selected and copied, laid out at whatever width it is given."""

    link_asked = Signal(str)
    ring_changed = Signal(bool)

    def __init__(self, document: QTextDocument, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._ring = False
        document.setParent(self)
        self.setDocument(document)
        self.setProperty("role", "bare")
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.viewport().setAutoFillBackground(False)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        # A fixed width keeps Qt from laying everything out again whenever the height changes.
        self.setLineWrapMode(QTextEdit.LineWrapMode.FixedPixelWidth)
        self.setWordWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
        self.setCursorWidth(0)  # a caret in what can't be edited only confuses
        self.setOpenLinks(False)
        self.anchorClicked.connect(self._ask)
        flags = Qt.TextInteractionFlag
        self.setTextInteractionFlags(
            flags.TextSelectableByMouse | flags.LinksAccessibleByMouse | flags.LinksAccessibleByKeyboard
            | flags.TextSelectableByKeyboard
        )  # fmt: skip
        policy = QSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)
        self.setMinimumWidth(0)
        document.documentLayout().documentSizeChanged.connect(self.updateGeometry)

    def hasHeightForWidth(self) -> bool:
        """It has."""
        return True

    def heightForWidth(self, width: int) -> int:
        """Pixels the whole document takes at this width."""
        if width > 0 and width != self.lineWrapColumnOrWidth():
            self.setLineWrapColumnOrWidth(width)
        return ceil(self.document().size().height())

    def sizeHint(self) -> QSize:
        """As tall as at the width it has now."""
        width = self.lineWrapColumnOrWidth() or theme.COLUMN
        return QSize(width, self.heightForWidth(width))

    def minimumSizeHint(self) -> QSize:
        """It can be as narrow as one likes."""
        return QSize(0, 0)

    def loadResource(self, kind: int, name: QUrl | str) -> Any:
        """Nothing, from nowhere: an empty picture keeps Qt from looking for a file itself."""
        return QImage(1, 1, QImage.Format.Format_ARGB32)

    def wheelEvent(self, event: QWheelEvent) -> None:
        """The column scrolls, not this."""
        event.ignore()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Keys that scroll go to the column."""
        selects = event.modifiers() & Qt.KeyboardModifier.ShiftModifier
        if event.key() in _MOVES and not selects:
            event.ignore()
        else:
            super().keyPressEvent(event)

    def focusInEvent(self, event: QFocusEvent) -> None:
        """Reached by the keyboard, it shows where one is."""
        super().focusInEvent(event)
        self._set_ring(event.reason() in (Qt.FocusReason.TabFocusReason, Qt.FocusReason.BacktabFocusReason))

    def focusOutEvent(self, event: QFocusEvent) -> None:
        """A selection left behind would look like a second one."""
        super().focusOutEvent(event)
        self._set_ring(False)
        if event.reason() not in (Qt.FocusReason.PopupFocusReason, Qt.FocusReason.ActiveWindowFocusReason):
            cursor = self.textCursor()
            cursor.clearSelection()
            self.setTextCursor(cursor)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        """Copy, select all, and the address of a link."""
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        copy = menu.addAction("Copy", QKeySequence(QKeySequence.StandardKey.Copy), self.copy)
        copy.setEnabled(self.textCursor().hasSelection())
        menu.addAction("Select all", QKeySequence(QKeySequence.StandardKey.SelectAll), self.selectAll)
        address = self.anchorAt(event.pos())
        if address:
            menu.addAction("Copy link address", lambda: copy_text(address))
        menu.popup(event.globalPos())

    def has_selection(self) -> bool:
        """Whether some of it is selected."""
        return self.textCursor().hasSelection()

    def has_ring(self) -> bool:
        """Whether the keyboard came here, which whoever has room around this text should show."""
        return self._ring

    def _set_ring(self, ring: bool) -> None:
        if ring != self._ring:
            self._ring = ring
            self.ring_changed.emit(ring)

    def _ask(self, url: QUrl) -> None:
        if url.scheme().lower() in LINK_SCHEMES:
            self.link_asked.emit(url.toString(QUrl.ComponentFormattingOption.FullyEncoded))


class PlainText(FlowView):
    """Text exactly as it was written."""

    def __init__(self, text: str, parent: QWidget | None = None) -> None:
        document = QTextDocument()
        document.setUndoRedoEnabled(False)
        document.setDocumentMargin(0)
        super().__init__(document, parent)
        self._text = text
        self._fill()

    def set_text(self, text: str) -> None:
        """Show another text."""
        self._text = text
        self._fill()

    def natural_width(self, limit: int) -> int:
        """The width it needs, up to `limit`."""
        self.heightForWidth(limit)
        return min(limit, ceil(self.document().idealWidth()) + 1)

    def slack(self) -> int:
        """Pixels under the last line that belong to the distance between lines."""
        return round(self.fontMetrics().height() * (_LINE_PERCENT - 100) / 100)

    def changeEvent(self, event: QEvent) -> None:
        """Follow the theme."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self._fill()

    def _fill(self) -> None:
        document = self.document()
        document.setDefaultFont(theme.text_font())
        document.setPlainText(self._text)
        cursor = QTextCursor(document)
        cursor.select(QTextCursor.SelectionType.Document)
        form = cursor.blockFormat()
        form.setLineHeight(_LINE_PERCENT, QTextBlockFormat.LineHeightTypes.ProportionalHeight.value)
        cursor.setBlockFormat(form)


def copy_text(text: str) -> None:
    """Put a text on the clipboard."""
    QGuiApplication.clipboard().setText(text)
