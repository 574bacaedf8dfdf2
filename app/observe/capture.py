"""Grabbing a monitor's picture."""

from __future__ import annotations

from dataclasses import dataclass, field

from PIL import Image

Rectangle = tuple[int, int, int, int]  # left, top, width, height


@dataclass(frozen=True, slots=True)
class Frame:
    """A picture of a monitor. `left` and `top` are its place on the desktop, `taken` is seconds since the epoch."""

    image: Image.Image = field(compare=False)
    monitor: str  # "Screen 1, 1920x1080"
    left: int
    top: int
    taken: float
