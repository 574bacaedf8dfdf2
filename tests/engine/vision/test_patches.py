"""Grids and pixels against transformers' image processor, as `golden_pixels.py` wrote them down."""

from __future__ import annotations

import json
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from tests.engine.vision.golden_pixels import CUTTING, GOLDEN, sampled
from tests.engine.vision.pictures import SIZES, picture

RECORD = json.loads(GOLDEN.read_text())


def test_the_record_has_every_size() -> None:
    assert len(SIZES) == 30
    assert [tuple(entry["size"]) for entry in RECORD] == list(SIZES)


@pytest.mark.parametrize("entry", RECORD, ids=lambda entry: "x".join(map(str, entry["size"])))
def test_grid_and_pixels_are_those_of_transformers(entry: dict) -> None:
    width, height = entry["size"]
    grid = CUTTING.grid(width, height)
    assert list(grid) == entry["grid"]
    ours = CUTTING.cut(picture(width, height), grid)
    assert ours.shape == (grid[0] * grid[1] * 4, 3 * 14 * 14)
    levels = sampled(ours.numpy()) * 127.5 + 127.5
    assert np.abs(levels - np.array(entry["levels"])).mean() <= 1
    assert levels.std() > 20 or min(width, height) == 1


@given(st.integers(1, 20_000), st.integers(1, 20_000))
def test_a_grid_is_never_empty_nor_too_large(width: int, height: int) -> None:
    rows, columns = CUTTING.grid(width, height)
    assert 1 <= rows * columns <= CUTTING.most
    assert rows >= 1
    assert columns >= 1


@given(st.integers(28, 8_000), st.integers(28, 8_000))
def test_on_its_side_a_picture_has_the_grid_on_its_side_or_one_as_near(width: int, height: int) -> None:
    rows, columns = CUTTING.grid(width, height)
    down, across = CUTTING.grid(height, width)
    assert abs(rows - across) <= 1
    assert abs(columns - down) <= 1


@pytest.mark.parametrize(
    ("size", "grid"),
    [
        ((1920, 1080), (39, 69)),
        ((2560, 1440), (48, 85)),
        ((3840, 2160), (48, 85)),
        ((1366, 768), (27, 48)),
        ((1024, 1024), (37, 37)),  # 36 x 36 is as near: the larger
        ((336, 336), (12, 12)),
        ((1, 1), (1, 1)),
        ((200_000, 1), (1, 4_096)),  # as many as there may be, of the 7,143 it has pixels for
        ((1, 200_000), (4_096, 1)),
        ((16_384, 16_384), (64, 64)),
    ],
)
def test_grids(size: tuple[int, int], grid: tuple[int, int]) -> None:
    assert CUTTING.grid(*size) == grid


def test_patches_lie_row_by_row_and_in_them_colour_by_colour() -> None:
    values = np.zeros((56, 84, 3), np.uint8)
    for row, column, colour in product(range(4), range(6), range(3)):
        values[row * 14 : row * 14 + 14, column * 14 : column * 14 + 14, colour] = (
            row * 40 + column * 5 + colour
        )
    values[15, 2] = 255  # the second row of pixels, third column, of the patch below the first
    patches = CUTTING.cut(Image.fromarray(values), (2, 3)).view(4, 6, 3, 14, 14) * 127.5 + 127.5
    assert patches[1, 0, :, 1, 2].tolist() == pytest.approx([255, 255, 255])
    patches[1, 0, :, 1, 2] = patches[1, 0, :, 0, 0]
    expected = torch.arange(4)[:, None, None] * 40 + torch.arange(6)[:, None] * 5 + torch.arange(3)
    torch.testing.assert_close(patches, expected[..., None, None].expand(4, 6, 3, 14, 14).float())
