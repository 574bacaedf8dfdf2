"""Places in a picture as the model names them, 0 to 1000 from edge to edge, and as pixels."""

from __future__ import annotations

from dataclasses import dataclass

from engine.api import BadRequest

STEPS = 1_000


@dataclass(frozen=True, slots=True)
class Box:
    """Edges, left before right, top before bottom; of pixels, right and bottom are the first outside."""

    left: int
    top: int
    right: int
    bottom: int

    def __post_init__(self) -> None:
        if self.left > self.right or self.top > self.bottom:
            raise BadRequest(f"({self.left}, {self.top}) to ({self.right}, {self.bottom}) is not a box.")


def to_pixels(box: Box, width: int, height: int) -> Box:
    """A box of the model's, in a picture of this size: the nearest edges, and never less than a pixel."""
    _check(box, STEPS, STEPS)
    left, right = _span(box.left, box.right, width)
    top, bottom = _span(box.top, box.bottom, height)
    return Box(left, top, right, bottom)


def to_steps(box: Box, width: int, height: int) -> Box:
    """A box of pixels, as the model would name it: the nearest steps."""
    _check(box, width, height)
    return Box(
        _nearest(box.left, width, STEPS),
        _nearest(box.top, height, STEPS),
        _nearest(box.right, width, STEPS),
        _nearest(box.bottom, height, STEPS),
    )


def point_to_pixel(x: int, y: int, width: int, height: int) -> tuple[int, int]:
    """The pixel that the model's point lies in; at the far edge, the last one."""
    _check(Box(x, y, x, y), STEPS, STEPS)
    return min(width - 1, x * width // STEPS), min(height - 1, y * height // STEPS)


def pixel_to_point(x: int, y: int, width: int, height: int) -> tuple[int, int]:
    """The step nearest to a pixel's middle; of two, the first, since the second is the next pixel's."""
    _check(Box(x, y, x + 1, y + 1), width, height)
    return _middle(x, width), _middle(y, height)


def _middle(pixel: int, size: int) -> int:
    """(pixel + 1/2) / size in steps, rounded; halves down."""
    return ((2 * pixel + 1) * STEPS + size - 1) // (2 * size)


def _span(start: int, end: int, size: int) -> tuple[int, int]:
    first, last = _nearest(start, STEPS, size), _nearest(end, STEPS, size)
    if first == last:
        first = min(first, size - 1)
        last = first + 1
    return first, last


def _nearest(value: int, steps: int, size: int) -> int:
    """value / steps * size, rounded in whole numbers; halves up."""
    return (2 * value * size + steps) // (2 * steps)


def _check(box: Box, width: int, height: int) -> None:
    if box.left < 0 or box.top < 0 or box.right > width or box.bottom > height:
        raise BadRequest(
            f"({box.left}, {box.top}) to ({box.right}, {box.bottom}) is not inside {width:,} x {height:,}."
        )
