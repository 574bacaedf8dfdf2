"""Places: from a picture to the screen and back, and the order in which lines are read."""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Sequence
from statistics import median

from app.observe.capture import Frame, Rectangle

Point = tuple[float, float]
DEEPEST = 8  # cuts within cuts
WIDE_GAP = 2.0  # between columns, in line heights
FEWEST = 3  # lines in a column
PROSE = 8.0  # a line this many times as wide as its box is high is running text; boxes have some air


def to_screen(frame: Frame, points: Sequence[Point]) -> Rectangle:
    """The smallest box of whole screen pixels around points of the frame's image."""
    left = math.floor(frame.left + min(x for x, _ in points) / frame.scale)
    top = math.floor(frame.top + min(y for _, y in points) / frame.scale)
    right = math.ceil(frame.left + max(x for x, _ in points) / frame.scale)
    bottom = math.ceil(frame.top + max(y for _, y in points) / frame.scale)
    return left, top, right - left, bottom - top


def to_image(frame: Frame, x: float, y: float) -> Point:
    """The place in the frame's image of a place on the screen."""
    return (x - frame.left) * frame.scale, (y - frame.top) * frame.scale


def reading_order(boxes: Sequence[Rectangle]) -> list[int]:
    """Indexes in reading order: columns one after the other where they are plain, else row by row."""
    return _order(boxes, list(range(len(boxes))), DEEPEST)


def _order(boxes: Sequence[Rectangle], chosen: list[int], depth: int) -> list[int]:
    if len(chosen) < 2 * FEWEST or not depth:
        return _by_rows(boxes, chosen)
    for cut in (_columns(boxes, chosen), _bands(boxes, chosen)):
        if cut:
            first, second = cut
            return _order(boxes, first, depth - 1) + _order(boxes, second, depth - 1)
    return _by_rows(boxes, chosen)


def _by_rows(boxes: Sequence[Rectangle], chosen: list[int]) -> list[int]:
    """Top to bottom; boxes that share half a line's height are one row, left to right."""
    rows: list[list[int]] = []
    for index in sorted(chosen, key=lambda i: boxes[i][1] + boxes[i][3] / 2):
        middle = boxes[index][1] + boxes[index][3] / 2
        if rows and middle - _middle(boxes, rows[-1]) < boxes[index][3] / 2:
            rows[-1].append(index)
        else:
            rows.append([index])
    return [index for row in rows for index in sorted(row, key=lambda i: boxes[i][0])]


def _middle(boxes: Sequence[Rectangle], row: list[int]) -> float:
    return sum(boxes[i][1] + boxes[i][3] / 2 for i in row) / len(row)


def _columns(boxes: Sequence[Rectangle], chosen: list[int]) -> tuple[list[int], list[int]] | None:
    """Left and right of the widest empty strip from top to bottom, if it parts columns, not table cells."""
    height = median(boxes[i][3] for i in chosen)
    gap, place = _widest_gap([(boxes[i][0], boxes[i][0] + boxes[i][2]) for i in chosen])
    if gap < WIDE_GAP * height:
        return None
    left = [i for i in chosen if boxes[i][0] < place]
    right = [i for i in chosen if boxes[i][0] >= place]
    if min(len(left), len(right)) < FEWEST or _is_table(boxes, left, right):
        return None
    return left, right


def _is_table(boxes: Sequence[Rectangle], left: list[int], right: list[int]) -> bool:
    """Whether the two sides are rows of one table: their lines stand side by side, and one side is short."""
    few, many = sorted((left, right), key=len)
    middles = sorted(_middle(boxes, [i]) for i in many)
    aligned = sum(_nearest(middles, _middle(boxes, [i])) < 0.3 * boxes[i][3] for i in few)
    prose = all(median(boxes[i][2] / boxes[i][3] for i in side) >= PROSE for side in (left, right))
    return aligned > 0.7 * len(few) and not prose


def _nearest(places: list[float], place: float) -> float:
    """How far the nearest of sorted places is."""
    at = bisect(places, place)
    return min(abs(each - place) for each in places[max(at - 1, 0) : at + 1])


def _bands(boxes: Sequence[Rectangle], chosen: list[int]) -> tuple[list[int], list[int]] | None:
    """Above and below the widest empty strip from left to right."""
    gap, place = _widest_gap([(boxes[i][1], boxes[i][1] + boxes[i][3]) for i in chosen])
    if gap <= 0:
        return None
    return [i for i in chosen if boxes[i][1] < place], [i for i in chosen if boxes[i][1] >= place]


def _widest_gap(spans: list[tuple[int, int]]) -> tuple[int, int]:
    """The widest stretch no span covers, and where it ends."""
    best, place, reach = 0, 0, -math.inf
    for start, end in sorted(spans):
        if reach > -math.inf and start - reach > best:
            best, place = int(start - reach), start
        reach = max(reach, end)
    return best, place
