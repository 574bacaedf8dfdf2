"""What stands beside the chat: as the person wants it, as far as the window is wide enough."""

from __future__ import annotations

from PySide6.QtWidgets import QSplitter, QWidget

from ui.remembered import Remembered

LEFT, RIGHT = "sidebar", "panel"  # the names under which is remembered what the person wants
LEAST = {LEFT: 660, RIGHT: 1_000}  # width of the window below which a side gives its room to the chat


class Sides:
    """The list of chats on the left and, once it is there, the side panel on the right."""

    def __init__(self, splitter: QSplitter, left: QWidget, remembered: Remembered) -> None:
        self._splitter, self._remembered = splitter, remembered
        self._sides = {LEFT: left}

    def add_right(self, panel: QWidget) -> None:
        """The side panel is there now."""
        self._sides[RIGHT] = panel
        self._splitter.addWidget(panel)
        self._splitter.setStretchFactor(2, 0)
        self.restore(RIGHT)

    def restore(self, name: str) -> None:
        """Show a side if it is wanted and there is room."""
        self._sides[name].setVisible(self._is_due(name, self._width()))

    def toggle(self, name: str) -> None:
        """Show or hide a side, and remember that."""
        if name not in self._sides:
            return
        shown = self._sides[name].isHidden()
        self._remembered.set(name, shown)
        if shown:
            self.show(name)
        else:
            self._sides[name].hide()
            if name == RIGHT:
                self.restore(LEFT)  # it may have made room

    def show(self, name: str) -> None:
        """Show a side; in a narrow window the other one gives way, and a slim window becomes wider."""
        if name not in self._sides:
            return
        self._sides[name].show()
        self._hide_others(name, self._width())
        least = self._needed() + self._splitter.handleWidth()  # the new side's own isn't counted yet
        if least > self._width():
            window = self._splitter.window()
            window.resize(least, window.height())

    def resized(self, before: int, now: int) -> None:
        """The window has another width: sides go where it has become narrow, and come back."""
        for name, side in self._sides.items():
            if (before >= LEAST[name]) is not (now >= LEAST[name]):
                side.setVisible(self._is_due(name, now))
        self._hide_others("", now)

    def _hide_others(self, kept: str, width: int) -> None:
        for name in (RIGHT, LEFT):
            if name != kept and name in self._sides and self._needed() > width:
                self._sides[name].hide()

    def _is_due(self, name: str, width: int) -> bool:
        return self._remembered.flag(name, True) and width >= LEAST[name]

    def _needed(self) -> int:
        return self._splitter.minimumSizeHint().width()

    def _width(self) -> int:
        return self._splitter.window().width()
