"""How late the Qt loop runs: a heartbeat timer, and what it missed.

As a library: `with Heartbeat() as beat: ...; beat.lateness()`. As a command, with the loop idle or busy:
`python tests/tools/stall.py [--seconds 5] [--busy]`.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from dataclasses import dataclass
from types import TracebackType

from PySide6.QtCore import QCoreApplication, QObject, Qt, QTimer

BEAT_MS = 5


@dataclass(frozen=True)
class Lateness:
    """Milliseconds by which beats came late."""

    beats: int
    p50: float
    p99: float
    worst: float

    def __str__(self) -> str:
        figures = f"p50 {self.p50:.1f} ms, p99 {self.p99:.1f} ms, max {self.worst:.1f} ms"
        return f"{self.beats} beats, late by {figures}"


class Heartbeat(QObject):
    """Beats every 5 ms while entered; a loop that is held up beats late."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.late: list[float] = []
        self._last = 0.0
        self._timer = QTimer(self, interval=BEAT_MS, timerType=Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(self._beat)

    def __enter__(self) -> Heartbeat:
        self.late.clear()
        self._last = time.perf_counter()
        self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._beat()  # a stall that lasts until the end counts too
        self._timer.stop()

    def _beat(self) -> None:
        now = time.perf_counter()
        self.late.append(max(0.0, (now - self._last) * 1_000 - BEAT_MS))
        self._last = now

    def lateness(self) -> Lateness:
        """The figures so far."""
        late = sorted(self.late)
        return Lateness(len(late), at(late, 0.5), at(late, 0.99), late[-1] if late else 0.0)


def at(ordered: list[float], share: float) -> float:
    """The value below which `share` of them lie."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0


def main(argv: list[str]) -> int:
    """Measure a bare loop."""
    options = argparse.ArgumentParser(description="Measures how late the Qt loop runs.")
    options.add_argument("--seconds", type=float, default=5)
    options.add_argument("--busy", action="store_true", help="with a pure-Python thread beside it")
    chosen = options.parse_args(argv)
    app = QCoreApplication([])
    if chosen.busy:
        threading.Thread(target=spin, daemon=True).start()
    QTimer.singleShot(int(chosen.seconds * 1_000), app.quit)
    with Heartbeat() as beat:
        app.exec()
    print(beat.lateness())
    return 0


def spin() -> None:
    """Hold the interpreter as a badly written worker would."""
    while True:
        sum(range(1_000))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
