"""A quiet sign that something is going on."""

from __future__ import annotations

from PySide6.QtCore import QRectF, Qt, QTimerEvent
from PySide6.QtGui import QColor, QHideEvent, QPainter, QPaintEvent, QPen, QShowEvent
from PySide6.QtWidgets import QWidget

from ui import theme

_TURN_MS = 1000
_FRAME_MS = 50


class Spinner(QWidget):
    """A turning arc; it costs nothing while it isn't visible."""

    def __init__(self, parent: QWidget | None = None, *, size: int = 16) -> None:
        super().__init__(parent)
        self.setFixedSize(size, size)
        self.setAccessibleName("Working")
        self._angle = 0.0
        self._timer = 0

    def showEvent(self, event: QShowEvent) -> None:
        """Start turning."""
        super().showEvent(event)
        if not self._timer:
            self._timer = self.startTimer(_FRAME_MS)

    def hideEvent(self, event: QHideEvent) -> None:
        """Stop turning."""
        super().hideEvent(event)
        if self._timer:
            self.killTimer(self._timer)
            self._timer = 0

    def timerEvent(self, event: QTimerEvent) -> None:
        """Turn a step."""
        self._angle = (self._angle + 360 * _FRAME_MS / _TURN_MS) % 360
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the ring and the arc on it."""
        now = theme.colours()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        ring = QRectF(self.rect()).adjusted(2, 2, -2, -2)
        for colour, start, span in ((now.border, 0.0, 360.0), (now.accent, -self._angle, 100.0)):
            painter.setPen(QPen(QColor(colour), 2, Qt.PenStyle.SolidLine, Qt.PenCapStyle.RoundCap))
            painter.drawArc(ring, round(start * 16), round(span * 16))
