"""Places and reading order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from app.observe.capture import Frame, blank_out
from app.observe.geometry import reading_order, to_image, to_screen

IMAGE = Image.new("RGB", (8, 8))


def lines(x, ys, width=300, height=14):
    return [(x, y, width, height) for y in ys]


def names(boxes, order):
    return [boxes[index] for index in order]


@given(
    st.integers(-4000, 4000),
    st.integers(-4000, 4000),
    st.sampled_from([1.0, 1.25, 1.5, 2.0, 3.0]),
    st.integers(0, 4000),
    st.integers(0, 4000),
)
def test_a_place_goes_to_the_image_and_back_exactly(left, top, scale, x, y):
    frame = Frame(IMAGE, "", left, top, 0.0, scale)
    point = to_image(frame, left + x, top + y)
    assert to_screen(frame, [point])[:2] == (left + x, top + y)


def test_a_box_holds_all_of_its_corners():
    frame = Frame(IMAGE, "", -100, 50, 0.0, 2.0)
    assert to_screen(frame, [(10.5, 3), (21, 4), (20, 11), (10, 10)]) == (-95, 51, 6, 5)


def test_rows_are_read_left_to_right_though_their_tops_differ():
    boxes = [(300, 12, 80, 14), (10, 10, 80, 14), (10, 40, 80, 14), (150, 9, 80, 14)]
    assert reading_order(boxes) == [1, 3, 0, 2]


def test_columns_of_text_are_read_one_after_the_other():
    left, right = lines(10, range(100, 400, 20)), lines(500, range(100, 400, 20))
    title = [(10, 20, 800, 30)]
    boxes = [box for pair in zip(left, right, strict=True) for box in pair] + title
    assert names(boxes, reading_order(boxes)) == title + left + right


def test_a_side_bar_is_read_before_the_page():
    bar, text = lines(10, range(60, 200, 33), 80), lines(300, range(60, 700, 20), 600)
    boxes = text + bar
    assert names(boxes, reading_order(boxes)) == bar + text


def test_a_table_is_read_row_by_row():
    cells = [(x, y, 60, 14) for y in range(10, 200, 22) for x in (10, 200, 420)]
    boxes = sorted(cells)
    assert names(boxes, reading_order(boxes)) == cells


@given(
    st.lists(
        st.tuples(st.integers(0, 2000), st.integers(0, 1000), st.integers(1, 900), st.integers(1, 60)),
        max_size=60,
    )
)
def test_every_line_is_read_once(boxes):
    assert sorted(reading_order(boxes)) == list(range(len(boxes)))


def test_thousands_of_lines_are_ordered():
    boxes = lines(10, range(0, 60_000, 20)) + lines(900, range(7, 60_000, 20))
    assert len(reading_order(boxes)) == 6_000


@pytest.mark.parametrize("scale", [1.0, 1.5, 2.0])
def test_a_mask_is_placed_at_every_scale(scale):
    frame = Frame(Image.new("RGB", (400, 300), "white"), "", 100, 50, 0.0, scale)
    image = blank_out(frame, [(110, 60, 40, 20)]).image
    inside = image.crop((round(10 * scale), round(10 * scale), round(50 * scale), round(30 * scale)))
    assert inside.getcolors() == [(inside.width * inside.height, (128, 128, 128))]
    assert image.getpixel((round(10 * scale) - 1, round(10 * scale))) == (255, 255, 255)
    assert image.getpixel((round(50 * scale), round(10 * scale))) == (255, 255, 255)
