"""One bar made of parts, and what each part is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPainterPath, QPaintEvent
from PySide6.QtWidgets import QGridLayout, QSizePolicy, QVBoxLayout, QWidget

from ui import theme
from ui.widgets.labels import label


@dataclass(frozen=True, slots=True)
class Part:
    """A share of the bar. `colour` names a colour of the theme; `shown` is its value in words."""

    name: str
    value: float
    colour: str
    shown: str


class StackedBar(QWidget):
    """The bar alone, 10 pixels high with round ends."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._parts: Sequence[Part] = ()
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def set_parts(self, parts: Sequence[Part]) -> None:
        """Show these, left to right."""
        self._parts = parts
        self.update()

    def sizeHint(self) -> QSize:
        """As wide as there is room."""
        return QSize(120, 10)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Each part as wide as its share, cut off by the bar's round outline."""
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        outline = QPainterPath()
        outline.addRoundedRect(QRectF(self.rect()), 5, 5)
        painter.setClipPath(outline)
        painter.fillRect(self.rect(), QColor(theme.colours().pressed))
        whole = sum(part.value for part in self._parts) or 1.0
        left = 0.0
        for part in self._parts:
            width = self.width() * part.value / whole
            painter.fillRect(
                QRectF(left, 0, max(width - 1, 0.0), self.height()), QColor(colour_of(part.colour))
            )
            left += width


class Dot(QWidget):
    """The colour of a part in the legend."""

    def __init__(self, colour: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.colour = colour
        self.setFixedSize(10, 10)

    def paintEvent(self, event: QPaintEvent) -> None:
        """A filled disc."""
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(colour_of(self.colour)))
        painter.drawEllipse(QRectF(0.5, 0.5, 9, 9))


class PartsView(QWidget):
    """A bar with its legend below: colour, name and value of each part."""

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._name = name
        self.bar = StackedBar()
        self._legend = QGridLayout()
        self._legend.setColumnStretch(1, 1)
        self._legend.setHorizontalSpacing(theme.SPACE_S)
        self._legend.setVerticalSpacing(theme.SPACE_XS)
        self._rows: list[tuple[Dot, QWidget, QWidget]] = []
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(theme.SPACE_M)
        layout.addWidget(self.bar)
        layout.addLayout(self._legend)

    def set_parts(self, parts: Sequence[Part]) -> None:
        """Show these parts."""
        self.bar.set_parts(parts)
        described = ", ".join(f"{part.name} {part.shown}" for part in parts)
        self.bar.setAccessibleName(f"{self._name}: {described}")
        for row in self._rows:
            for widget in row:
                self._legend.removeWidget(widget)
                widget.deleteLater()
        self._rows = [self._add_row(number, part) for number, part in enumerate(parts)]

    def _add_row(self, number: int, part: Part) -> tuple[Dot, QWidget, QWidget]:
        row = Dot(part.colour), label(part.name, "small"), label(part.shown, "muted")
        self._legend.addWidget(row[0], number, 0, Qt.AlignmentFlag.AlignVCenter)
        self._legend.addWidget(row[1], number, 1)
        self._legend.addWidget(row[2], number, 2, Qt.AlignmentFlag.AlignRight)
        return row


def colour_of(name: str) -> str:
    """A colour of the theme in use."""
    return str(getattr(theme.colours(), name))
