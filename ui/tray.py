"""The icon beside the clock, where the desktop has one."""

from __future__ import annotations

from typing import Literal

from PySide6.QtCore import QObject, QRectF, Qt, Signal
from PySide6.QtGui import QAction, QColor, QIcon, QPainter, QPen, QPixmap
from PySide6.QtWidgets import QMenu, QSystemTrayIcon, QWidget

Mood = Literal["idle", "thinking", "watching", "waiting"]
COLOURS: dict[Mood, str] = {
    "idle": "#8a93a6",
    "thinking": "#6d8cff",
    "watching": "#2fb380",
    "waiting": "#f0a020",
}
WORDS: dict[Mood, str] = {
    "idle": "Sidelight",
    "thinking": "Sidelight is answering",
    "watching": "Sidelight is watching the screen",
    "waiting": "Sidelight is waiting for your permission",
}


class Tray(QObject):
    """Shows the mood; its menu shows the window, pauses observation and quits."""

    show_wanted = Signal()
    pause_wanted = Signal()
    quit_wanted = Signal()

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._mood: Mood | None = None
        self._icon = QSystemTrayIcon(self)
        self._menu = QMenu(parent)
        self._menu.addAction("Show Sidelight").triggered.connect(self.show_wanted)
        self.pause: QAction = self._menu.addAction("Pause observation")
        self.pause.triggered.connect(self.pause_wanted)
        self._menu.addSeparator()
        self._menu.addAction("Quit").triggered.connect(self.quit_wanted)
        self._icon.setContextMenu(self._menu)
        self._icon.activated.connect(self._clicked)
        self._icon.messageClicked.connect(self.show_wanted)
        self.set_mood("idle")
        self._icon.show()

    @staticmethod
    def is_available() -> bool:
        """Does this desktop have a tray now?"""
        return QSystemTrayIcon.isSystemTrayAvailable()

    def set_mood(self, mood: Mood) -> None:
        """Show what the assistant does."""
        if mood != self._mood:
            self._mood = mood
            self._icon.setIcon(draw(mood))
            self._icon.setToolTip(WORDS[mood])

    def set_observing(self, state: str) -> None:
        """Offer to pause or to go on; off when nothing is observed."""
        self.pause.setEnabled(state != "off")
        self.pause.setText("Resume observation" if state == "paused" else "Pause observation")

    def say(self, title: str, text: str) -> None:
        """A notification; a click on it shows the window."""
        self._icon.showMessage(title, text, draw(self._mood or "idle"), 8_000)

    def hide(self) -> None:
        """Take the icon away."""
        self._icon.hide()

    def _clicked(self, reason: QSystemTrayIcon.ActivationReason) -> None:
        if reason in (QSystemTrayIcon.ActivationReason.Trigger, QSystemTrayIcon.ActivationReason.DoubleClick):
            self.show_wanted.emit()


def draw(mood: Mood) -> QIcon:
    """Our sign, a lit disc from the side; the colour and, for all but idle, a dot tell the mood."""
    icon = QIcon()
    for size in (16, 22, 32, 48, 64, 128, 256):
        icon.addPixmap(draw_at(mood, size))
    return icon


def draw_at(mood: Mood, size: int) -> QPixmap:
    """The sign at one size."""
    pixmap = QPixmap(size, size)
    pixmap.fill(Qt.GlobalColor.transparent)
    painter = QPainter(pixmap)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    colour = QColor(COLOURS[mood] if mood != "idle" else "#6d8cff")
    disc = QRectF(size * 0.1, size * 0.1, size * 0.8, size * 0.8)
    painter.setPen(QPen(colour, max(1.5, size * 0.09)))
    painter.setBrush(QColor(colour.red(), colour.green(), colour.blue(), 40))
    painter.drawEllipse(disc)
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(colour)
    painter.drawChord(disc, -90 * 16, 180 * 16)  # the right half is lit
    if mood != "idle":
        dot = QRectF(size * 0.58, size * 0.58, size * 0.4, size * 0.4)
        painter.setPen(QPen(QColor("white"), max(1.0, size * 0.05)))
        painter.setBrush(QColor(COLOURS[mood]))
        painter.drawEllipse(dot)
    painter.end()
    return pixmap
