"""Watching a real display, and every way it can be refused."""

from __future__ import annotations

import asyncio
import time

import pytest

from app.errors import UserError
from app.observe import Observer
from app.observe.capture import BLACK, NO_DISPLAY, WAYLAND, Capture, refusal
from app.observe.observer import PAUSED

GREY = (128, 128, 128)


@pytest.fixture
async def observer():
    here = Observer(interval=0.05)
    yield here
    await here.close()


async def until(holds, seconds=10.0):
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it did not happen in time"
        await asyncio.sleep(0.02)


async def test_a_frame_is_the_screen(display, observer):
    display.show("Hello")
    frame = await observer.frame()
    assert (frame.image.mode, frame.image.size) == ("RGB", (1280, 720))
    assert (frame.monitor, frame.left, frame.top, frame.scale) == ("Screen 1, 1280x720", 0, 0, 1.0)
    assert abs(frame.taken - time.time()) < 5
    assert frame.image.getpixel((590, 90)) == (255, 255, 255) and frame.image.getpixel((50, 50)) == (0, 0, 0)
    assert observer.state == "off" and observer.latest() is None


async def test_watching_keeps_the_newest_frame_and_only_tells_of_changes(display, observer):
    display.show("One")
    told = []
    observer.on_change(lambda: told.append(observer.state))
    observer.start()
    assert observer.state == "watching"
    await until(lambda: observer.latest() is not None)
    first, count = observer.latest(), len(told)
    await asyncio.sleep(0.6)  # a dozen looks at an idle screen
    assert observer.latest() is first and len(told) == count
    display.say("Two")
    await until(lambda: observer.latest() is not first)
    assert len(told) > count


async def test_paused_sees_nothing_and_keeps_nothing(display, observer):
    display.show("One")
    observer.start()
    await until(lambda: observer.latest() is not None)
    observer.pause()
    assert observer.state == "paused" and observer.latest() is None
    with pytest.raises(UserError, match=PAUSED):
        await observer.frame()
    await asyncio.sleep(0.2)
    assert observer.latest() is None
    observer.resume()
    await until(lambda: observer.latest() is not None)
    observer.stop()
    assert observer.state == "off" and observer.latest() is None
    observer.resume()
    assert observer.state == "off"


async def test_our_own_windows_are_painted_over(display, observer):
    display.show("One")
    observer.mask(lambda: [(550, 80, 50, 20), (-10, -10, 20, 20), (1270, 710, 500, 500)])
    frame = await observer.frame()
    for place in ((550, 80), (599, 99), (0, 0), (9, 9), (1279, 719)):
        assert frame.image.getpixel(place) == GREY
    assert frame.image.getpixel((549, 85)) == (255, 255, 255)
    assert frame.image.getpixel((10, 10)) == (0, 0, 0)


async def test_a_window_that_moves_during_the_grab_is_painted_over_in_both_places(display, observer):
    display.show("One")
    places = iter([[(550, 80, 10, 10)], [(560, 90, 10, 10)]])
    observer.mask(lambda: next(places))
    frame = await observer.frame()
    assert frame.image.getpixel((555, 85)) == GREY and frame.image.getpixel((565, 95)) == GREY


async def test_a_black_screen_is_not_passed_on(display, observer):
    with pytest.raises(UserError, match=BLACK):
        await observer.frame()
    observer.start()
    await until(lambda: observer.state == "paused")
    assert observer.problem == BLACK


async def test_a_display_that_goes_away_pauses_and_says_why(display, observer):
    display.show("One")
    observer.start()
    await until(lambda: observer.latest() is not None)
    display.close()
    await until(lambda: observer.state == "paused")
    assert "can't be captured" in observer.problem
    with pytest.raises(UserError, match="can't be captured"):
        await observer.frame()


async def test_a_display_that_comes_back_is_seen_again(display, observer, monkeypatch):
    display.show("One")
    monkeypatch.setenv("DISPLAY", ":9999")
    with pytest.raises(UserError, match="can't be captured"):
        await observer.frame()
    monkeypatch.setenv("DISPLAY", display.name)
    assert (await observer.frame()).image.size == (1280, 720)


async def test_a_screen_that_is_not_there_is_said(display):
    observer = Observer(monitor=7)
    with pytest.raises(UserError, match="There is no screen 7; choose one of 1"):
        await observer.frame()
    await observer.close()


async def test_all_screens_together(display):
    display.show("One")
    observer = Observer(monitor=None)
    assert (await observer.frame()).monitor == "All screens, 1280x720"
    await observer.close()


@pytest.mark.parametrize(
    ("environment", "platform", "said"),
    [
        ({}, "linux", NO_DISPLAY),
        ({"DISPLAY": ""}, "linux", NO_DISPLAY),
        ({"DISPLAY": ":0", "WAYLAND_DISPLAY": "wayland-0"}, "linux", WAYLAND),
        ({"DISPLAY": ":0", "XDG_SESSION_TYPE": "wayland"}, "linux", WAYLAND),
        ({"DISPLAY": ":0", "XDG_SESSION_TYPE": "x11"}, "linux", ""),
        ({}, "win32", ""),
        ({}, "darwin", ""),
    ],
)
def test_why_a_session_cannot_be_seen(environment, platform, said):
    assert refusal(environment, platform) == said


def test_no_display_is_a_sentence(monkeypatch):
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "XDG_SESSION_TYPE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    with pytest.raises(UserError, match=NO_DISPLAY):
        Capture().grab()


async def test_the_loop_goes_on_while_it_watches(display, observer):
    display.show("One")
    observer.start()
    await until(lambda: observer.latest() is not None)
    longest, last = 0.0, time.perf_counter()
    for _ in range(200):
        await asyncio.sleep(0.002)
        longest, last = max(longest, time.perf_counter() - last), time.perf_counter()
    assert longest < 0.25  # generous: other programs may hold this machine's cores


async def test_a_listener_that_stops_it_is_obeyed(display, observer):
    display.show("One")
    observer.on_change(lambda: observer.stop() if observer.latest() else None)
    observer.start()
    await until(lambda: observer.state == "off")
    await asyncio.sleep(0.2)
    assert observer.latest() is None
