"""The text field of the composer."""

from __future__ import annotations

from math import ceil

from PySide6.QtCore import QEvent, QMimeData, QSize, Qt, Signal
from PySide6.QtGui import QFocusEvent, QInputMethodEvent, QKeyEvent, QTextOption
from PySide6.QtWidgets import QFrame, QPlainTextEdit, QSizePolicy, QWidget

MOST_LINES = 8
LARGE_PASTE = 20_000  # characters; more is kept beside the field, where it can't slow typing down
_ENTER = (Qt.Key.Key_Return, Qt.Key.Key_Enter)


class Field(QPlainTextEdit):
    """Plain text, one to eight lines tall. Enter submits unless an input method is composing."""

    submitted = Signal()
    escaped = Signal()
    pasted = Signal(str)  # more than the field should hold
    focused = Signal(bool)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._preedit = ""
        self.setProperty("role", "bare")
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.viewport().setAutoFillBackground(False)
        self.setAccessibleName("Message")
        self.setTabChangesFocus(True)
        self.setWordWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.document().setDocumentMargin(2)
        self.document().documentLayout().documentSizeChanged.connect(self._fit)
        self._fit()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Enter, Shift+Enter and Escape mean something here."""
        if event.key() in _ENTER and not self._preedit:
            if event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
                self.insertPlainText("\n")
                self.ensureCursorVisible()
            else:
                self.submitted.emit()
        elif event.key() in _ENTER:
            event.ignore()
        elif event.key() == Qt.Key.Key_Escape:
            self.escaped.emit()
        else:
            super().keyPressEvent(event)

    def inputMethodEvent(self, event: QInputMethodEvent) -> None:
        """Remember whether a word is being composed."""
        self._preedit = event.preeditString()
        super().inputMethodEvent(event)

    def focusInEvent(self, event: QFocusEvent) -> None:
        """Tell the frame."""
        super().focusInEvent(event)
        self.focused.emit(True)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        """Tell the frame; a word half composed is gone."""
        self._preedit = ""
        super().focusOutEvent(event)
        self.focused.emit(False)

    def canInsertFromMimeData(self, source: QMimeData) -> bool:
        """Only text can be pasted."""
        return source.hasText()

    def insertFromMimeData(self, source: QMimeData) -> None:
        """Paste as plain text; a very large one goes beside the field."""
        text = source.text().replace("\r\n", "\n").replace("\r", "\n").replace("\0", "")
        if len(text) > LARGE_PASTE:
            self.pasted.emit(text)
        else:
            self.insertPlainText(text)
            self.ensureCursorVisible()

    def changeEvent(self, event: QEvent) -> None:
        """Another font has other lines."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self._fit()

    def resizeEvent(self, event: QEvent) -> None:
        """Another width wraps into another number of lines."""
        super().resizeEvent(event)  # type: ignore[arg-type]
        self._fit()

    def sizeHint(self) -> QSize:
        """The lines there are, up to the most shown."""
        lines = max(1, round(self.document().size().height()))
        first = self.document().firstBlock().layout()
        line = first.lineAt(0).height() if first.lineCount() else 0.0
        height = ceil(min(lines, MOST_LINES) * (line or self.fontMetrics().lineSpacing())) + 10
        return QSize(super().sizeHint().width(), height)

    def _fit(self) -> None:
        lines = round(self.document().size().height())
        policy = Qt.ScrollBarPolicy
        tall = lines > MOST_LINES
        self.setVerticalScrollBarPolicy(policy.ScrollBarAsNeeded if tall else policy.ScrollBarAlwaysOff)
        height = self.sizeHint().height()
        if height != self.height() or self.minimumHeight() != height:
            self.setFixedHeight(height)
