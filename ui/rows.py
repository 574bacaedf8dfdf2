"""How a chat looks in the list: its title, and when it was last used."""

from __future__ import annotations

import time

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QRect, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPalette, QPen
from PySide6.QtWidgets import QStyle, QStyledItemDelegate, QStyleOptionViewItem

from ui import theme

ID = Qt.ItemDataRole.UserRole
UPDATED = Qt.ItemDataRole.UserRole + 1
MARK = Qt.ItemDataRole.UserRole + 2  # a word about the chat, shown instead of the time


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
