"""Places in a picture: exact, both ways."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.api import BadRequest
from engine.vision.boxes import Box, pixel_to_point, point_to_pixel, to_pixels, to_steps

STEP = st.integers(0, 1_000)
SMALL, LARGE = st.integers(1, 1_000), st.integers(1_000, 20_000)


def box(xs: tuple[int, int], ys: tuple[int, int]) -> Box:
    return Box(min(xs), min(ys), max(xs), max(ys))


BOXES = st.builds(box, st.tuples(STEP, STEP), st.tuples(STEP, STEP))


def test_a_box_of_the_models() -> None:
    assert to_pixels(Box(0, 390, 520, 603), 1920, 1080) == Box(0, 421, 998, 651)
    assert to_pixels(Box(0, 0, 1_000, 1_000), 1366, 768) == Box(0, 0, 1366, 768)


@given(BOXES, LARGE, LARGE)
def test_steps_survive_pixels_where_those_are_finer(steps: Box, width: int, height: int) -> None:
    pixels = to_pixels(steps, width, height)
    if steps.left < steps.right and steps.top < steps.bottom:
        assert to_steps(pixels, width, height) == steps
    for edge, step, size in ((pixels.left, steps.left, width), (pixels.top, steps.top, height)):
        if 0 < step < 1_000:
            assert abs(edge - Fraction(step * size, 1_000)) <= Fraction(1, 2)


@given(SMALL, SMALL, st.data())
def test_pixels_survive_steps_where_those_are_finer(width: int, height: int, data: st.DataObject) -> None:
    left, top = data.draw(st.integers(0, width - 1)), data.draw(st.integers(0, height - 1))
    pixels = Box(left, top, data.draw(st.integers(left + 1, width)), data.draw(st.integers(top + 1, height)))
    assert to_pixels(to_steps(pixels, width, height), width, height) == pixels
    assert point_to_pixel(*pixel_to_point(left, top, width, height), width, height) == (left, top)


@given(BOXES, st.integers(1, 20_000), st.integers(1, 20_000))
def test_a_box_in_pixels_is_inside_and_never_empty(steps: Box, width: int, height: int) -> None:
    pixels = to_pixels(steps, width, height)
    assert 0 <= pixels.left < pixels.right <= width
    assert 0 <= pixels.top < pixels.bottom <= height


@given(STEP, STEP, st.integers(1, 20_000), st.integers(1, 20_000))
def test_a_point_is_a_pixel_of_the_picture(x: int, y: int, width: int, height: int) -> None:
    column, row = point_to_pixel(x, y, width, height)
    assert 0 <= column < width
    assert 0 <= row < height
    assert Fraction(column, width) <= Fraction(x, 1_000) <= Fraction(column + 1, width)


def test_every_pixel_has_a_point_of_its_own() -> None:
    for size in (1, 2, 3, 499, 500, 998, 999, 1_000):
        for pixel in range(size):
            assert point_to_pixel(*pixel_to_point(pixel, 0, size, 1), size, 1) == (pixel, 0)


def test_what_is_not_in_the_picture_is_refused() -> None:
    with pytest.raises(BadRequest, match="is not inside 1,000 x 1,000"):
        to_pixels(Box(0, 0, 1_001, 5), 1920, 1080)
    with pytest.raises(BadRequest, match="is not inside 1,920 x 1,080"):
        to_steps(Box(0, 0, 1_921, 5), 1920, 1080)
    with pytest.raises(BadRequest, match="is not inside"):
        point_to_pixel(-1, 5, 1920, 1080)
    with pytest.raises(BadRequest, match="is not a box"):
        Box(5, 0, 4, 1)
