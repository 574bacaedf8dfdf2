"""Many deltas, one repaint."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from PySide6.QtCore import QObject, QTimer

INTERVAL_MS = 33
_SHARE = 4  # a slow paint is followed by at least this many times its own length for everything else


class Coalescer(QObject):
    """Calls `paint` at most once an interval however often it is touched, and more seldom if that is slow."""

    def __init__(self, paint: Callable[[], None], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._paint = paint
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.timeout.connect(self._run)
        self._ready_at = 0.0

    def touch(self) -> None:
        """Something changed: paint soon."""
        if not self._timer.isActive():
            self._timer.start(max(0, round((self._ready_at - monotonic()) * 1000)))

    def flush(self) -> None:
        """Paint now whatever is waiting."""
        if self._timer.isActive():
            self._timer.stop()
            self._run()

    def drop(self) -> None:
        """Forget what is waiting."""
        self._timer.stop()

    def _run(self) -> None:
        started = monotonic()
        self._paint()
        ended = monotonic()
        self._ready_at = max(started + INTERVAL_MS / 1000, ended + _SHARE * (ended - started))
