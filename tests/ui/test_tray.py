"""The icon beside the clock; closing goes there, once explained."""

import pytest

from ui.tray import COLOURS, Tray, draw_at


@pytest.fixture
def tray_there(monkeypatch):
    monkeypatch.setattr(Tray, "is_available", staticmethod(lambda: True))


def test_each_mood_looks_different(qapp):
    pictures = [draw_at(mood, 32).toImage() for mood in COLOURS]
    assert all(a != b for at, a in enumerate(pictures) for b in pictures[at + 1 :])
    assert draw_at("idle", 16).width() == 16


def test_closing_hides_in_the_tray_and_says_so_once(sit, tray_there):
    desk = sit()
    said, quits = [], []
    desk.window.tray.say = lambda title, text: said.append(title)
    desk.window.quit_wanted.connect(lambda: quits.append(1))
    for _ in range(2):
        desk.do(desk.window.close)
        assert not desk.window.isVisible() and not quits
        desk.do(desk.window.show_again)
        assert desk.window.isVisible()
    assert said == ["Sidelight is still running"]


def test_quit_from_the_tray_quits(sit, tray_there):
    desk = sit()
    quits = []
    desk.window.quit_wanted.connect(lambda: quits.append(1))
    desk.do(desk.window.tray.quit_wanted.emit)
    assert quits == [1]


def test_without_a_tray_closing_quits(sit):
    desk = sit()
    assert desk.window.tray is None
    quits = []
    desk.window.quit_wanted.connect(lambda: quits.append(1))
    desk.do(desk.window.close)
    assert quits == [1]


def test_a_question_reaches_a_hidden_window_without_taking_the_focus(sit, tray_there):
    from fakes import call

    desk = sit(call("shell.run", {"argv": ["echo", "hi"], "timeout": 10}))
    said = []
    desk.window.tray.say = lambda title, text: said.append((title, text))
    desk.send("Run it")
    desk.do(desk.window.hide)
    desk.until(lambda: desk.window.isVisible())
    assert said == [("Permission needed", "Run a command?")]
    assert desk.window._mood() == "waiting"
    desk.do(desk.window.pane.stop)


def test_observation_is_paused_from_the_tray(sit, tray_there, monkeypatch):
    desk = sit()
    assert not desk.window.tray.pause.isEnabled()

    async def grab():
        from PIL import Image

        from app.observe import Frame

        return Frame(Image.new("RGB", (8, 8)), "Screen 1, 8x8", 0, 0, 0.0), 1

    monkeypatch.setattr(desk.services.observer, "_grab", grab)
    desk.do(desk.services.observer.start)
    assert desk.window.tray.pause.isEnabled() and desk.window._mood() == "watching"
    desk.do(desk.window.tray.pause.trigger)
    assert desk.services.observer.state == "paused"
    assert desk.window.tray.pause.text() == "Resume observation"
    desk.do(desk.window.tray.pause.trigger)
    assert desk.services.observer.state == "watching"
