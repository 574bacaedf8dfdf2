"""Ctrl+C and a polite kill end the app as Quit does."""

from __future__ import annotations

import contextlib
import signal
import socket
from collections.abc import Callable
from types import FrameType

from PySide6.QtCore import QObject, QSocketNotifier

QUIT_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class QuitSignals(QObject):
    """Calls `quit_` on the loop. Qt sleeps in C, where Python handles no signal, so a socket wakes it."""

    def __init__(self, quit_: Callable[[], None], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._quit = quit_
        self._read, self._write = socket.socketpair()
        self._read.setblocking(False)
        self._write.setblocking(False)
        self._before = signal.set_wakeup_fd(self._write.fileno(), warn_on_full_buffer=False)
        self._handlers = {number: signal.signal(number, ignore) for number in QUIT_SIGNALS}
        self._notifier = QSocketNotifier(self._read.fileno(), QSocketNotifier.Type.Read, self)
        self._notifier.activated.connect(self._wake)

    def close(self) -> None:
        """Put back what was there before."""
        self._notifier.setEnabled(False)
        signal.set_wakeup_fd(self._before)
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self._read.close()
        self._write.close()

    def _wake(self) -> None:
        with contextlib.suppress(BlockingIOError):
            numbers = self._read.recv(64)
            if any(number in numbers for number in QUIT_SIGNALS):
                self._quit()


def ignore(number: int, frame: FrameType | None) -> None:
    """The work is done when the socket wakes the loop."""
