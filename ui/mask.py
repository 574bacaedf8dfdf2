"""Where our own windows lie on the screen, so that they are left out of what the assistant sees."""

from __future__ import annotations

from PySide6.QtCore import QRect
from PySide6.QtGui import QScreen
from PySide6.QtWidgets import QApplication, QWidget

Rectangle = tuple[int, int, int, int]  # left, top, width, height in screen pixels


def own_windows() -> list[Rectangle]:
    """Every window of ours in view, menus and dialogs too."""
    return [
        native(window.frameGeometry(), window.screen())
        for window in QApplication.topLevelWidgets()
        if window.isVisible() and not window.isMinimized()
    ]


def native(area: QRect, screen: QScreen) -> Rectangle:
    """Qt's scaled coordinates as pixels: a screen's own origin is not scaled, what lies on it is."""
    scale, origin = screen.devicePixelRatio(), screen.geometry().topLeft()
    inside = area.translated(-origin)
    return (
        round(origin.x() + inside.x() * scale),
        round(origin.y() + inside.y() * scale),
        round(area.width() * scale),
        round(area.height() * scale),
    )


def covered(window: QWidget) -> float:
    """The share of its screen that a window covers."""
    screen = window.screen().geometry()
    over = window.frameGeometry().intersected(screen)
    return over.width() * over.height() / max(1, screen.width() * screen.height())
