"""Where our windows lie in screen pixels."""

import pytest
from PySide6.QtCore import QPoint, QRect
from PySide6.QtWidgets import QWidget

from ui.mask import native, own_windows


class Screen:
    def __init__(self, scale, origin):
        self._scale, self._origin = scale, origin

    def devicePixelRatio(self):
        return self._scale

    def geometry(self):
        return QRect(self._origin, self._origin)


@pytest.mark.parametrize(
    ("scale", "origin", "pixels"),
    [
        (1, QPoint(0, 0), (100, 50, 300, 200)),
        (2, QPoint(0, 0), (200, 100, 600, 400)),
        (1.5, QPoint(-60, 20), (180, 65, 450, 300)),
    ],
)
def test_scaled_coordinates_become_pixels(scale, origin, pixels):
    assert native(QRect(100, 50, 300, 200), Screen(scale, origin)) == pixels


def test_only_windows_in_view_count(qtbot):
    before = len(own_windows())
    window = QWidget()
    qtbot.addWidget(window)
    assert len(own_windows()) == before
    window.setGeometry(10, 20, 30, 40)
    window.show()
    qtbot.waitExposed(window)
    assert len(own_windows()) == before + 1
    window.showMinimized()
    assert len(own_windows()) == before
