import pytest

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
