"""Where the person writes."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QSize, Qt, Signal
from PySide6.QtGui import QMouseEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPushButton, QToolButton, QVBoxLayout, QWidget

from ui import theme
from ui.chat.field import LARGE_PASTE, Field
from ui.widgets.elided import ElidedLabel
from ui.widgets.icons import IconButton, IconLabel, icon

_BUTTON = 36
_BETWEEN = "\n\n"


class Composer(QFrame):
    """A field that grows with its text, a screen switch, and one button that sends or stops."""

    submitted = Signal(str, bool)  # text, look at the screen
    stopped = Signal()
    look_toggled = Signal(bool)
    draft_changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("role", "composer")
        self.setAccessibleName("Write a message")
        self._busy, self._ready, self._reason, self._queued = False, True, "", False
        self._pastes: list[PasteChip] = []
        self.field = Field(self)
        self.field.setPlaceholderText("Ask anything")
        self.look = LookButton(self)
        self.send = SendButton(self)
        self._hint = ElidedLabel("", self)
        self._hint.setProperty("role", "faint")
        self._lay_out()
        self._connect()
        self._refresh()

    def text(self) -> str:
        """The draft, whole, pasted parts included."""
        parts = [self.field.toPlainText(), *(chip.text for chip in self._pastes)]
        return _BETWEEN.join(part for part in parts if part)

    def set_text(self, text: str) -> None:
        """Replace the draft."""
        self._clear()
        if len(text) > LARGE_PASTE:
            self._add_paste(text)
        else:
            self.field.setPlainText(text)
            self.field.moveCursor(self.field.textCursor().MoveOperation.End)

    def restore(self, text: str) -> None:
        """Give back what could not be sent, in front of what was written since."""
        since = self.text()
        self.set_text(_BETWEEN.join(part for part in (text, since) if part) if since != text else text)

    def set_busy(self, busy: bool) -> None:
        """While an answer comes, the button stops it; typing goes on."""
        self._busy = busy
        self._refresh()

    def set_ready(self, ready: bool, reason: str = "") -> None:
        """While not ready, Enter keeps the text and sends it once ready; `reason` says why."""
        self._ready, self._reason = ready, reason
        if ready and self._queued:
            self._queued = False
            self._submit()
        self._refresh()

    def set_look(self, look: bool) -> None:
        """Set the screen switch."""
        self.look.setChecked(look)

    def set_look_enabled(self, enabled: bool, reason: str = "") -> None:
        """Whether the screen can be read at all."""
        self.look.set_available(enabled, reason)

    def focus(self) -> None:
        """Put the cursor into the field."""
        self.field.setFocus(Qt.FocusReason.OtherFocusReason)

    def is_queued(self) -> bool:
        """Whether the text will be sent as soon as that is possible."""
        return self._queued

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """A click anywhere in the frame means the field."""
        self.focus()

    def _submit(self) -> None:
        text = self.text()
        if self._busy or not text.strip():
            return
        if not self._ready:
            self._queued = True
            self._refresh()
            return
        self._clear()
        self.submitted.emit(text, self.look.isChecked())

    def _press(self) -> None:
        if self._busy:
            self.stopped.emit()
        elif self._queued:
            self._unqueue()
        else:
            self._submit()

    def _escape(self) -> None:
        if self._busy:
            self.stopped.emit()
        elif self._queued:
            self._unqueue()

    def _unqueue(self) -> None:
        self._queued = False
        self._refresh()

    def _changed(self) -> None:
        self._queued = False
        self.draft_changed.emit()
        self._refresh()

    def _clear(self) -> None:
        for chip in self._pastes:
            chip.deleteLater()
            chip.hide()
        self._pastes = []
        self.field.setPlainText("")

    def _add_paste(self, text: str) -> None:
        chip = PasteChip(text, self)
        chip.removed.connect(self._remove_paste)
        self._pastes.append(chip)
        self._chips.addWidget(chip)
        self._changed()

    def _remove_paste(self, chip: PasteChip) -> None:
        self._pastes.remove(chip)
        chip.deleteLater()
        chip.hide()
        self._changed()
        self.focus()

    def _refresh(self) -> None:
        has_text = bool(self._pastes) or not self.field.document().isEmpty()
        if self._busy:
            self.send.show_as("stop", "Stop", enabled=True)
        elif self._queued:
            self.send.show_as("close", "Don't send", enabled=True)
        else:
            self.send.show_as("send", "Send", enabled=has_text)
        self._hint.setText(self._words())

    def _words(self) -> str:
        if self._queued:
            return f"{self._reason or 'Not ready yet'}. Your message will be sent then."
        if not self._ready:
            return self._reason
        return "Esc stops" if self._busy else ""

    def _connect(self) -> None:
        self.field.submitted.connect(self._submit)
        self.field.escaped.connect(self._escape)
        self.field.pasted.connect(self._add_paste)
        self.field.textChanged.connect(self._changed)
        self.field.focused.connect(self._show_focus)
        self.send.clicked.connect(self._press)
        self.look.toggled.connect(self.look_toggled)

    def _show_focus(self, focused: bool) -> None:
        self.setProperty("focused", focused)
        self.style().unpolish(self)
        self.style().polish(self)

    def _lay_out(self) -> None:
        self._chips = QVBoxLayout()
        self._chips.setSpacing(theme.SPACE_XS)
        foot = QHBoxLayout()
        foot.setSpacing(theme.SPACE_S)
        foot.addWidget(self.look)
        foot.addWidget(self._hint, 1)
        foot.addWidget(self.send)
        column = QVBoxLayout(self)
        column.setContentsMargins(theme.SPACE_L, theme.SPACE_M, theme.SPACE_S + 2, theme.SPACE_S + 2)
        column.setSpacing(theme.SPACE_S)
        column.addLayout(self._chips)
        column.addWidget(self.field)
        column.addLayout(foot)
        QWidget.setTabOrder(self.field, self.look)
        QWidget.setTabOrder(self.look, self.send)


class LookButton(QPushButton):
    """Whether the screen is read for the next question."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setProperty("role", "chip")
        self.setText(" Look at my screen")
        self.setAccessibleName("Look at my screen")
        self.setCheckable(True)
        self.setIconSize(QSize(16, 16))
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.set_available(True)
        self._redraw()

    def set_available(self, available: bool, reason: str = "") -> None:
        """Say why when it can't be used."""
        self.setEnabled(available)
        if not available:
            self.setChecked(False)
        self.setToolTip(reason or "Reads the text on your screen once, when you send")
        self.setAccessibleDescription(self.toolTip())

    def changeEvent(self, event: QEvent) -> None:
        """Follow the theme."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange:
            self._redraw()

    def _redraw(self) -> None:
        now = theme.colours()
        self.setIcon(icon("screen", now.muted, checked=now.accent, disabled=now.faint))


class SendButton(QToolButton):
    """The round button: send, stop, or take back."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._icon_name = "send"
        self.setProperty("role", "send")
        self.setFixedSize(_BUTTON, _BUTTON)
        self.setIconSize(QSize(theme.ICON, theme.ICON))
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self._redraw()

    def show_as(self, icon_name: str, name: str, *, enabled: bool) -> None:
        """What pressing it does now."""
        self.setEnabled(enabled)
        self.setAccessibleName(name)
        self.setToolTip(name)
        if icon_name != self._icon_name:
            self._icon_name = icon_name
            self._redraw()

    def changeEvent(self, event: QEvent) -> None:
        """Follow the theme."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange:
            self._redraw()

    def _redraw(self) -> None:
        now = theme.colours()
        self.setIcon(icon(self._icon_name, now.on_accent, disabled=now.faint))


class PasteChip(QFrame):
    """A long pasted text, kept whole beside the field."""

    removed = Signal(object)

    def __init__(self, text: str, parent: QWidget) -> None:
        super().__init__(parent)
        self.text = text
        self.setProperty("role", "paste")
        words = ElidedLabel(f"Pasted text, {len(text):,} characters: {text[:200]}", self)
        words.setProperty("role", "small")
        remove = IconButton("close", "Remove the pasted text", self)
        remove.clicked.connect(lambda: self.removed.emit(self))
        row = QHBoxLayout(self)
        row.setContentsMargins(theme.SPACE_S, 2, 2, 2)
        row.setSpacing(theme.SPACE_S)
        row.addWidget(IconLabel("text", self))
        row.addWidget(words, 1)
        row.addWidget(remove)
