"""Grabbing a monitor's picture, or saying in a sentence why it can't be had."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from PIL import Image

from app.errors import UserError

Rectangle = tuple[int, int, int, int]  # left, top, width, height
GREY = (128, 128, 128)
NO_DISPLAY = "There is no display to look at."
WAYLAND = (
    "This desktop runs on Wayland, which does not let Sidelight see the screen yet. An X11 session works."
)
BLACK = "The screen came out black. It may be locked, or the system keeps it from being captured."


@dataclass(frozen=True, slots=True)
class Frame:
    """A picture of a monitor. `left`, `top`: its place on the desktop; `scale`: pixels per screen pixel."""

    image: Image.Image = field(compare=False)
    monitor: str  # "Screen 1, 1920x1080"
    left: int
    top: int
    taken: float  # seconds since the epoch
    scale: float = 1.0


class Capture:
    """Grabs one monitor (1 is the first, None all together); each thread has its own connection to it."""

    def __init__(self, monitor: int | None = 1) -> None:
        self.monitor = monitor
        self._local = threading.local()

    def grab(self, masked: Sequence[Rectangle] = ()) -> Frame:
        """The picture now, `masked` painted grey; raises UserError."""
        from mss.exception import ScreenShotError

        if reason := refusal(os.environ, sys.platform):
            raise UserError(reason)
        try:
            frame = self._grab()
        except (ScreenShotError, OSError, AssertionError) as error:  # mss asserts that the server answers
            self.close()
            raise UserError(f"The screen can't be captured: {_first_line(error)}") from error
        if frame.image.getbbox() is None:
            raise UserError(BLACK)
        return blank_out(frame, masked)

    def _grab(self) -> Frame:
        import mss

        if not hasattr(self._local, "mss"):
            self._local.mss = mss.MSS()
        source = self._local.mss
        monitors = source.monitors  # the first stands for all of them together
        index = 0 if self.monitor is None else self.monitor
        if not 0 <= index < len(monitors):
            raise UserError(f"There is no screen {index}; choose one of {len(monitors) - 1} in the settings.")
        place = monitors[index]
        shot = source.grab(place)
        image = Image.frombytes("RGB", (shot.width, shot.height), bytes(shot.bgra), "raw", "BGRX")
        name = f"Screen {index}" if index else "All screens"
        return Frame(
            image=image,
            monitor=f"{name}, {place['width']}x{place['height']}",
            left=place["left"],
            top=place["top"],
            taken=time.time(),
            scale=shot.width / place["width"],
        )

    def close(self) -> None:
        """Give this thread's connection back."""
        from mss.exception import ScreenShotError

        if source := self._local.__dict__.pop("mss", None):
            with suppress(ScreenShotError, OSError, AssertionError):  # the display is gone already
                source.close()


def refusal(environment: Mapping[str, str], platform: str) -> str:
    """Why the screen can't be captured in this session, or empty."""
    if not platform.startswith("linux"):
        return ""
    if environment.get("WAYLAND_DISPLAY") or environment.get("XDG_SESSION_TYPE") == "wayland":
        return WAYLAND
    return "" if environment.get("DISPLAY") else NO_DISPLAY


def blank_out(frame: Frame, masked: Sequence[Rectangle]) -> Frame:
    """The frame with these screen rectangles painted grey."""
    for left, top, width, height in masked:
        box = tuple(
            round(edge * frame.scale)
            for edge in (
                left - frame.left,
                top - frame.top,
                left - frame.left + width,
                top - frame.top + height,
            )
        )
        frame.image.paste(GREY, (box[0], box[1], box[2], box[3]))
    return frame


def _first_line(error: Exception) -> str:
    text = str(error).strip().splitlines()
    return text[0] if text else "the display does not answer."
