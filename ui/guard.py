"""A moment of standing still before a dangerous button works."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, QTimer, Signal
from PySide6.QtWidgets import QWidget

STILL_MS = 600
_UPSETS = frozenset(
    {
        QEvent.Type.Show,
        QEvent.Type.Hide,
        QEvent.Type.Move,
        QEvent.Type.Resize,
        QEvent.Type.ZOrderChange,
        QEvent.Type.WindowActivate,
        QEvent.Type.WindowDeactivate,
        QEvent.Type.WindowStateChange,
        QEvent.Type.ApplicationStateChange,
    }
)
_PRESSES = frozenset({QEvent.Type.MouseButtonPress, QEvent.Type.MouseButtonDblClick})


class Guard(QObject):
    """Is armed once `card` has been painted and nothing moved, changed or was clicked for `still_ms`.

    A person who types or clicks elsewhere when the card appears cannot answer it by accident.
    """

    changed = Signal(bool)
    upsetting = Signal()

    def __init__(self, card: QWidget, still_ms: int = STILL_MS) -> None:
        super().__init__(card)
        self._card = card
        self._armed = False
        self._painted = False
        self._window: QWidget | None = None
        self._timer = QTimer(self, singleShot=True, interval=still_ms)
        self._timer.timeout.connect(self._arm)
        card.installEventFilter(self)

    def watch(self, *buttons: QWidget) -> None:
        """Count presses on these too: a button that is disabled does not hand them on to its card."""
        for button in buttons:
            button.installEventFilter(self)

    @property
    def armed(self) -> bool:
        """May the button be used?"""
        return self._armed

    def upset(self) -> None:
        """Start over: the card changed. The wait runs from the next time it is painted."""
        self._timer.stop()
        self._painted = False
        self._set(False)
        self.upsetting.emit()
        self._card.update()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Watch the card and its window."""
        kind = event.type()
        if kind in _PRESSES:
            if watched is not self._window and not self._armed:
                self.upset()
        elif kind == QEvent.Type.Paint and watched is self._card:
            self._begin()
        elif kind == QEvent.Type.Show and watched is self._card:
            self._watch_window()
            self.upset()
        elif kind in _UPSETS and watched in (self._card, self._window):
            self.upset()
        return False

    def _watch_window(self) -> None:
        window = self._card.window()
        if window is self._window or window is self._card:
            return
        if self._window is not None:
            self._window.removeEventFilter(self)
        self._window = window
        window.installEventFilter(self)

    def _begin(self) -> None:
        if not self._painted:
            self._painted = True
            self._timer.start()

    def _arm(self) -> None:
        if self._card.isVisible() and not self._card.window().isMinimized():
            self._set(True)

    def _set(self, armed: bool) -> None:
        if armed != self._armed:
            self._armed = armed
            self.changed.emit(armed)
