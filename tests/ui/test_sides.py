"""The list and the side panel beside the chat, in windows of every width."""

import pytest

LIST, PANEL = "list", "panel"


@pytest.fixture
def desk(sit):
    return sit()


def sides(desk):
    """The names of what is shown beside the chat; nothing that is shown may be cut off."""
    window = desk.window
    desk.wait(0.05)
    assert window._splitter.minimumSizeHint().width() <= window.width()
    return {name for name in (LIST, PANEL) if not getattr(window, name).isHidden()}


def widen(desk, width):
    desk.do(lambda: desk.window.resize(width, 600))
    return sides(desk)


def test_a_narrow_window_gives_its_room_to_the_chat_and_a_wide_one_has_all(desk):
    assert widen(desk, 1_100) == {LIST, PANEL}
    assert widen(desk, 700) == {LIST}
    assert widen(desk, 480) == set()
    assert widen(desk, 700) == {LIST}
    assert widen(desk, 1_100) == {LIST, PANEL}


def test_in_a_narrow_window_one_side_gives_way_to_the_other(desk):
    widen(desk, 700)
    desk.do(lambda: desk.window._open_panel("Log"))
    assert sides(desk) == {PANEL} and desk.window.width() == 700
    desk.do(desk.window._search)
    assert sides(desk) == {LIST}
    desk.do(desk.window.header.panel.click)
    assert sides(desk) == {PANEL}
    desk.do(desk.window.header.panel.click)
    assert sides(desk) == {LIST}, "it is back where it was"
    desk.do(desk.window.header.panel.click)
    assert widen(desk, 600) == set(), "neither fits"


@pytest.mark.parametrize("side", [LIST, PANEL])
def test_a_window_too_slim_for_any_side_grows_when_one_is_wanted(desk, side):
    widen(desk, 480)
    desk.do((desk.window.header.sidebar if side == LIST else desk.window.header.panel).click)
    assert sides(desk) == {side} and 480 < desk.window.width() < 700


def test_what_was_hidden_stays_hidden_at_every_width_and_after_a_restart(desk, sit):
    widen(desk, 1_100)
    desk.do(desk.window.header.sidebar.click)
    assert sides(desk) == {PANEL}
    widen(desk, 480)
    assert widen(desk, 1_100) == {PANEL}
    assert sides(sit()) == {PANEL}
