"""Markdown on screen: text on the page, code in panels with a copy button."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QEvent, QRect, QRectF, QSize, Qt, QTimer
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen, QResizeEvent
from PySide6.QtWidgets import QPushButton, QWidget

from ui import theme
from ui.chat.document import MarkdownDocument
from ui.chat.flow import FlowView, copy_text
from ui.chat.styling import CODE_HEADER, CODE_PADDING, INDENT, QUOTE_STEP, Area
from ui.widgets.icons import icon

_COPIED_MS = 1500
_LOOK_CHANGES = (QEvent.Type.PaletteChange, QEvent.Type.FontChange)
_ROOM = 4  # between a panel's edge and its button


class MarkdownView(FlowView):
    """One message's markdown; it may still be growing."""

    def __init__(self, parent: QWidget | None = None) -> None:
        self._markdown = MarkdownDocument()
        self._buttons: dict[int, CopyButton] = {}  # by the start of their code
        self._look = (theme.is_dark(), theme.pixels(theme.BODY))
        super().__init__(self._markdown, parent)
        self._placing = QTimer(self)
        self._placing.setSingleShot(True)
        self._placing.timeout.connect(self._place_buttons)
        self._markdown.documentLayout().documentSizeChanged.connect(self._placing.start)

    def set_source(self, source: str) -> None:
        """Show this, whole."""
        self._markdown.set_source(source)

    def append(self, text: str) -> None:
        """More of it came."""
        self._markdown.append(text)

    def finish(self) -> None:
        """It is complete."""
        self._markdown.finish()

    def markdown(self) -> str:
        """The markdown itself."""
        return self._markdown.source

    def panels(self) -> list[QRect]:
        """Where each code panel is."""
        return [self._rectangle(area) for area in self._code_areas()]

    def changeEvent(self, event: QEvent) -> None:
        """Follow the theme and the font."""
        super().changeEvent(event)
        look = (theme.is_dark(), theme.pixels(theme.BODY))
        if event.type() in _LOOK_CHANGES and look != self._look:
            self._look = look
            self._markdown.redraw()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Keep the buttons in their corners."""
        super().resizeEvent(event)
        self._placing.start()

    def paintEvent(self, event: QPaintEvent) -> None:
        """The panels first, then the text on them."""
        painter = QPainter(self.viewport())
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        for area in self._markdown.areas:
            box = self._rectangle(area)
            if box.intersects(event.rect()):
                _paint(painter, area, box)
                if area.kind == "code" and area.start not in self._buttons:
                    self._placing.start()
        painter.end()
        super().paintEvent(event)

    def _code_areas(self) -> list[Area]:
        return [area for area in self._markdown.areas if area.kind == "code"]

    def _rectangle(self, area: Area) -> QRect:
        layout, first = self._markdown.documentLayout(), self._markdown.findBlock(area.start)
        top = layout.blockBoundingRect(first).top()
        bottom = layout.blockBoundingRect(self._markdown.findBlock(area.end)).bottom()
        left = first.blockFormat().indent() * INDENT
        if area.kind == "code":
            top, bottom = top - CODE_HEADER, bottom + CODE_PADDING
        return QRect(left, round(top), self.viewport().width() - left, round(bottom - top))

    def _place_buttons(self) -> None:
        """Code in sight gets its button; the rest when it comes into sight."""
        areas = {area.start: area for area in self._code_areas()}
        for start in self._buttons.keys() - areas.keys():
            button = self._buttons.pop(start)
            button.hide()
            button.deleteLater()
        seen = self.visibleRegion().boundingRect()
        for start, area in areas.items():
            box = self._rectangle(area)
            if start in self._buttons or box.intersects(seen):
                self._button(start).place(box)

    def _button(self, start: int) -> CopyButton:
        if start not in self._buttons:
            self._buttons[start] = CopyButton(lambda: self._code_at(start), self.viewport())
        return self._buttons[start]

    def _code_at(self, start: int) -> str:
        return next((self._markdown.text_of(area) for area in self._code_areas() if area.start == start), "")


class CopyButton(QPushButton):
    """Copies one code block, and says so for a moment."""

    def __init__(self, code: Callable[[], str], parent: QWidget) -> None:
        super().__init__(parent)
        self._code = code
        self.setProperty("role", "fold")
        self.setIconSize(QSize(14, 14))
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setAccessibleName("Copy code")
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.timeout.connect(self._rest)
        self.clicked.connect(self._copy)
        self._rest()

    def place(self, box: QRect) -> None:
        """Sit in the top right corner of a panel."""
        self.ensurePolished()
        size = self.sizeHint()
        self.resize(size)
        self.move(box.right() - size.width() - _ROOM, box.top() + (CODE_HEADER - size.height()) // 2)
        self.show()

    def changeEvent(self, event: QEvent) -> None:
        """Follow the theme."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange and not self._timer.isActive():
            self._rest()

    def _copy(self) -> None:
        copy_text(self._code())
        self.setText(" Copied")
        self.setIcon(icon("check", theme.colours().success))
        self._fit()
        self._timer.start(_COPIED_MS)

    def _rest(self) -> None:
        self.setText(" Copy")
        self.setIcon(icon("copy", theme.colours().muted))
        self._fit()

    def _fit(self) -> None:
        right = self.geometry().right()
        self.resize(self.sizeHint())
        self.move(right - self.width() + 1, self.y())


def _paint(painter: QPainter, area: Area, box: QRect) -> None:
    now = theme.colours()
    if area.kind == "code":
        painter.setPen(QPen(QColor(now.border), 1))
        painter.setBrush(QColor(now.code))
        painter.drawRoundedRect(QRectF(box).adjusted(0.5, 0.5, -0.5, -0.5), theme.RADIUS_M, theme.RADIUS_M)
        painter.setPen(QColor(now.muted))
        painter.setFont(theme.text_font(theme.TINY))
        header = QRect(box.left() + CODE_PADDING, box.top(), box.width() // 2, CODE_HEADER)
        painter.drawText(header, Qt.AlignmentFlag.AlignVCenter, area.detail or "text")
    elif area.kind == "quote":
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(now.border_strong))
        for level in range(int(area.detail)):
            bar = QRectF(box.left() + level * QUOTE_STEP, box.top(), 3, box.height())
            painter.drawRoundedRect(bar, 1.5, 1.5)
    else:
        painter.fillRect(box.left(), box.center().y(), box.width(), 1, QColor(now.border_strong))
