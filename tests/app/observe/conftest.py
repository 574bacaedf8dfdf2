"""A display of its own, with a window that shows a known sentence."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

WINDOW = """
import sys
from PySide6.QtWidgets import QApplication, QLabel
app = QApplication([])
label = QLabel(sys.argv[1])
label.setStyleSheet("font: 14px 'DejaVu Sans'; background: white; color: black; padding-left: 20px")
label.setGeometry(100, 80, 500, 60)
label.show()
def change():
    label.setText(sys.stdin.readline())
from PySide6.QtCore import QSocketNotifier
notifier = QSocketNotifier(0, QSocketNotifier.Type.Read)
notifier.activated.connect(change)
app.exec()
"""


class Display:
    """Xvfb and a window in it."""

    sentence = "The heron waits by the river at dawn."

    def __init__(self) -> None:
        self.server = subprocess.Popen(
            ["Xvfb", "-displayfd", "1", "-screen", "0", "1280x720x24", "-nolisten", "tcp"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self.server.stdout is not None
        self.name = f":{int(self.server.stdout.readline())}"
        self.window: subprocess.Popen[bytes] | None = None

    def show(self, text: str) -> None:
        """Open the window, and wait until it is there."""
        env = {**os.environ, "DISPLAY": self.name, "QT_QPA_PLATFORM": "xcb"}
        self.window = subprocess.Popen(
            [sys.executable, "-c", WINDOW, text], env=env, stdin=subprocess.PIPE, bufsize=0
        )
        from app.observe.capture import Capture

        capture, until = Capture(), time.monotonic() + 30
        while time.monotonic() < until:
            if self.window.poll() is not None:
                pytest.fail("the test's window did not start; Qt's xcb plugin needs libxcb-cursor0")
            frame = capture._grab()
            if frame.image.getpixel((590, 90)) == (255, 255, 255):
                capture.close()
                return
            time.sleep(0.1)
        pytest.fail("the test's window did not appear")

    def say(self, text: str) -> None:
        """Change what the window shows."""
        assert self.window is not None and self.window.stdin is not None
        self.window.stdin.write(text.encode() + b"\n")

    def close(self) -> None:
        for process in (self.window, self.server):
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()


@pytest.fixture
def display(monkeypatch: pytest.MonkeyPatch) -> Iterator[Display]:
    """A running X server that is the test's display."""
    if shutil.which("Xvfb") is None:
        pytest.skip("Xvfb is not installed")
    here = Display()
    monkeypatch.setenv("DISPLAY", here.name)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.delenv("XDG_SESSION_TYPE", raising=False)
    yield here
    here.close()
