"""What nobody caught: into the log, and in a dialog; the app goes on."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from types import TracebackType
from typing import Any

from PySide6.QtCore import QMessageLogContext, QObject, QtMsgType, Signal, qInstallMessageHandler
from PySide6.QtWidgets import QWidget

from ui.dialogs.failure import FailureDialog, describe

log = logging.getLogger(__name__)


class Failures(QObject):
    """Takes the place of Python's hooks, the threads' and the loop's until closed."""

    _elsewhere = Signal(object)  # an error of another thread, on its way to this one

    def __init__(self, loop: asyncio.AbstractEventLoop, window: QWidget) -> None:
        super().__init__()
        self._loop, self._window = loop, window
        self.dialog: FailureDialog | None = None
        self._elsewhere.connect(self._show)
        sys.excepthook = self._unhandled
        threading.excepthook = self._in_thread
        loop.set_exception_handler(self._in_loop)
        qInstallMessageHandler(qt_message)

    def close(self) -> None:
        """From now on failures are Python's to report."""
        qInstallMessageHandler(None)
        sys.excepthook = sys.__excepthook__
        threading.excepthook = threading.__excepthook__

    def report(self, error: BaseException) -> None:
        """Log an error and show it."""
        log.critical("Nobody caught this", exc_info=error)
        self._elsewhere.emit(error)

    def _show(self, error: BaseException) -> None:
        if self.dialog is not None:
            return  # one at a time: what fails in a timer fails often
        self.dialog = FailureDialog(describe(error), self._window)
        self.dialog.finished.connect(self._forget)
        self.dialog.open()

    def _forget(self) -> None:
        self.dialog = None

    def _unhandled(
        self, kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        if isinstance(error, KeyboardInterrupt):
            self._loop.stop()
        else:
            self.report(error)

    def _in_loop(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, Exception):
            self.report(error)
        else:
            log.error("In the event loop: %s", context.get("message"))

    def _in_thread(self, args: threading.ExceptHookArgs) -> None:
        if args.exc_value is not None:
            self.report(args.exc_value)


def qt_message(kind: QtMsgType, context: QMessageLogContext, text: str) -> None:
    """What Qt has to say goes to the log, not to the terminal."""
    serious = kind in (QtMsgType.QtCriticalMsg, QtMsgType.QtFatalMsg)
    log.log(logging.ERROR if serious else logging.INFO, "Qt: %s", text)
