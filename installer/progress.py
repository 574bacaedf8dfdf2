"""What the person sees while things are installed: on stderr, so that stdout stays the app's own."""

from __future__ import annotations

import shutil
import sys
import time
from typing import TextIO

QUIET = 15.0  # seconds without a sign of life that a person should have to bear


class Progress:
    """Numbered steps; one live line on a terminal, whole lines now and then elsewhere."""

    def __init__(self, steps: int, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._live = self._stream.isatty()
        self._steps = steps
        self._number = 0
        self._title = ""
        self._detail = ""
        self._began = self._spoke = time.monotonic()

    @property
    def wait(self) -> float:
        """How often `tick` wants to be called, in seconds."""
        return 0.25 if self._live else 1.0

    def step(self, title: str) -> None:
        """A new step begins."""
        self._number += 1
        self._title, self._detail = f"[{self._number}/{self._steps}] {title}", ""
        self._began = self._spoke = time.monotonic()
        if self._live:
            self.tick()
        else:
            self._line(self._title)

    def detail(self, text: str) -> None:
        """What the step is at."""
        self._detail = text

    def tick(self) -> None:
        """Show that there is still something going on."""
        now = time.monotonic()
        elapsed = f"{now - self._began:.0f} s"
        if self._live:
            width = shutil.get_terminal_size().columns - 1
            text = f"{self._title}: {self._detail}" if self._detail else self._title
            self._stream.write(f"\r{text[: width - len(elapsed) - 2]}, {elapsed}\033[K")
            self._stream.flush()
        elif now - self._spoke >= QUIET:
            self._spoke = now
            self._line(f"      {self._detail or 'still at it'} ({elapsed})")

    def done(self, outcome: str = "") -> None:
        """The step has ended well."""
        elapsed = f"{time.monotonic() - self._began:.1f} s"
        if self._live:
            self._line(f"\r{self._title}: {outcome or 'done'}, {elapsed}\033[K")
        else:
            self._line(f"      {outcome or 'done'}, {elapsed}")

    def say(self, text: str) -> None:
        """A line of its own, that stays."""
        self._line(f"\r{text}\033[K" if self._live else text)

    def _line(self, text: str) -> None:
        self._stream.write(text + "\n")
        self._stream.flush()
