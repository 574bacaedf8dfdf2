"""One window for each data folder: a second start raises the first one and ends."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

from PySide6.QtCore import QDir, QLockFile, QObject, Signal
from PySide6.QtNetwork import QLocalServer, QLocalSocket

from app.errors import UserError

SHOW = b"show"
TIMEOUT_MS = 1_000
LONGEST_SOCKET_PATH = 100  # Linux allows 107 bytes, macOS 103


class SingleInstance(QObject):
    """Holds the lock of `folder`; emits `raised` when somebody starts the app again."""

    raised = Signal()

    def __init__(self, folder: Path, parent: QObject | None = None) -> None:
        super().__init__(parent)
        folder.mkdir(parents=True, exist_ok=True)
        self._name = socket_name(folder)
        self._lock = QLockFile(str(folder / "window.lock"))
        self._lock.setStaleLockTime(0)  # an old lock is not a dead one; a dead process is noticed anyway
        self._server = QLocalServer(self)
        self._server.setSocketOptions(QLocalServer.SocketOption.UserAccessOption)
        self._server.newConnection.connect(self._greet)

    def claim(self) -> bool:
        """True: we are the first. False: another is running and has been asked to show itself."""
        if self._lock.tryLock(0):
            QLocalServer.removeServer(self._name)  # left by a process that was killed
            self._server.listen(self._name)
            return True
        if self._lock.error() == QLockFile.LockError.PermissionError:
            raise UserError(f"Sidelight cannot write to {self._lock.fileName()}.")
        if not self._ask_first():
            raise UserError(
                "Sidelight is running already but does not answer. Close it, then start it again."
            )
        return False

    def close(self) -> None:
        """Stop listening and let the next start be the first."""
        self._server.close()
        self._lock.unlock()

    def _ask_first(self) -> bool:
        socket = QLocalSocket()
        socket.connectToServer(self._name)
        if not socket.waitForConnected(TIMEOUT_MS):
            return False
        socket.write(SHOW)
        return socket.waitForBytesWritten(TIMEOUT_MS) and socket.waitForReadyRead(TIMEOUT_MS * 3)

    def _greet(self) -> None:
        socket = self._server.nextPendingConnection()
        socket.readyRead.connect(self._read)
        socket.disconnected.connect(socket.deleteLater)
        if socket.bytesAvailable():
            self._answer(socket)

    def _read(self) -> None:
        socket = self.sender()
        if isinstance(socket, QLocalSocket):
            self._answer(socket)

    def _answer(self, socket: QLocalSocket) -> None:
        if bytes(socket.read(len(SHOW)).data()) == SHOW:
            socket.write(b"yes")
            socket.flush()
            self.raised.emit()


def socket_name(folder: Path) -> str:
    """In the data folder, where only its owner reaches; in the temporary folder if that is too long."""
    path = folder / "window.socket"
    if sys.platform != "win32" and len(str(path).encode()) <= LONGEST_SOCKET_PATH:
        return str(path)
    name = f"sidelight-{hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:16]}"
    return name if sys.platform == "win32" else QDir.temp().filePath(name)
