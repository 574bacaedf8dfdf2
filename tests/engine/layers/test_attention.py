import pytest
import torch

from engine.layers.attention import Span


@pytest.mark.parametrize("window", [None, 1, 3, 50])
def test_a_token_sees_itself_and_what_is_before_in_its_window(window: int | None) -> None:
    span = Span(start=7, count=5)
    mask = span.mask(window)
    assert mask is not None
    for row, token in enumerate(range(7, 12)):
        seen = [span.first(window) + int(at) for at in (mask[row] == 0).nonzero()[:, 0]]
        assert seen == list(range(0 if window is None else max(0, token - window + 1), token + 1))


def test_a_window_bounds_the_mask_however_long_the_prompt() -> None:
    mask = Span(start=100_000, count=64).mask(512)
    assert mask is not None
    assert mask.shape == (64, 511 + 64)


def test_one_token_needs_no_mask() -> None:
    assert Span(start=600, count=1).mask(512) is None
    assert Span(start=600, count=1).first(512) == 89


@pytest.mark.parametrize("window", [None, 1, 6, 11, 30])
def test_the_mask_of_a_part_is_that_part_of_the_mask(window: int | None) -> None:
    span = Span(start=20, count=5)
    low, whole = span.first(window), span.mask(window)
    assert whole is not None
    for first in range(low, span.end):
        for end in range(first + 1, span.end + 1):
            part, expected = span.mask(window, first, end), whole[:, first - low : end - low]
            assert torch.equal(torch.zeros_like(expected) if part is None else part, expected)
