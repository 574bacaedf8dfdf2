"""The real window on the real app with a scripted model, driven on Qt's loop; and a desktop to sit at."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import shiboken6
from fakes import Scripted
from person import Desktop, Person, can_be_had, why_not
from PySide6.QtCore import QEvent, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from qasync import QEventLoop

from app.build import Services, build
from app.paths import Paths, find
from ui.remembered import Remembered
from ui.theme import Theme
from ui.window import MainWindow


class Desk:
    """A window somebody sits at."""

    def __init__(self, app: QApplication, loop: QEventLoop, paths: Paths, backend: Any) -> None:
        self.app, self.loop, self.backend = app, loop, backend
        self.services: Services = build(paths, backend=backend)
        self.window = MainWindow(self.services, Remembered(paths.state / "window.ini"), Theme(app, "light"))
        self.window.resize(1_100, 760)
        self.window.show()
        self.run(self.start())
        self.window.activateWindow()
        self.until(lambda: self.window.loader.state != "loading", seconds=120)

    async def start(self) -> None:
        self.window.start()

    def run(self, coroutine: Any) -> Any:
        # not run_until_complete: qasync then processes events once more where no loop is running
        task = self.loop.create_task(coroutine)
        task.add_done_callback(lambda _: self.loop.stop())
        self.loop.run_forever()
        return task.result()

    def wait(self, seconds: float) -> None:
        self.run(asyncio.sleep(seconds))

    def until(self, condition: Callable[[], Any], seconds: float = 5) -> None:
        async def look() -> None:
            end = self.loop.time() + seconds
            while not condition():
                assert self.loop.time() < end, f"never came true: {condition.__code__.co_names}"
                await asyncio.sleep(0.005)

        self.run(look())

    @property
    def pane(self) -> Any:
        return self.window.pane

    @property
    def card(self) -> Any:
        return self.window.pane.drawer.card

    def type(self, text: str, *, enter: bool = True) -> None:
        """At the keyboard: goes where the focus is."""
        target = self.window.focusWidget()
        QTest.keyClicks(target, text)
        if enter:
            QTest.keyClick(self.window.focusWidget(), Qt.Key.Key_Return)

    def ask(self, text: str) -> None:
        """Send a message and wait for the end of its turn."""
        self.send(text)
        self.until(lambda: not self.window.turns.running())

    def send(self, text: str) -> None:
        async def submit() -> None:
            self.pane.composer.set_text(text)
            QTest.keyClick(self.pane.composer.field, Qt.Key.Key_Return)

        self.run(submit())

    def key(self, key: Qt.Key, modifiers: Qt.KeyboardModifier = Qt.KeyboardModifier.NoModifier) -> None:
        async def press() -> None:
            QTest.keyClick(self.window.focusWidget() or self.window, key, modifiers)

        self.run(press())

    def do(self, action: Callable[[], Any]) -> Any:
        """Call where a loop runs, as a click would."""

        async def act() -> Any:
            return action()

        return self.run(act())

    def titles(self) -> list[str]:
        rows = self.window.list.list
        return [rows.item(row).text() for row in range(rows.count())]

    def shown(self) -> list[tuple[str, str]]:
        """Role and text of every message of the chat in view, as stored."""
        if not self.pane.current:
            return []
        entries = self.services.assistant.conversation(self.pane.current).entries
        return [(entry.role, entry.text) for entry in entries]

    def close(self) -> None:
        from ui.main import close

        self.window.remember()
        self.window.hide()
        assert self.run(close(self.window, self.services)), "did not close in time"
        if self.window.tray is not None:
            self.window.tray.hide()
        self.window.deleteLater()
        self.app.sendPostedEvents(None, QEvent.Type.DeferredDelete)


@pytest.fixture
def loop(qapp: QApplication) -> Iterator[QEventLoop]:
    """Qt's loop as asyncio's."""
    made = QEventLoop(qapp)
    asyncio.set_event_loop(made)
    yield made
    made.close()
    # Its timers end here: those of a loop that is collected by another thread go on, and crash the process.
    shiboken6.delete(made._timer)
    asyncio.set_event_loop(None)


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Paths:
    """A home of its own."""
    monkeypatch.setenv("SIDELIGHT_HOME", str(tmp_path / "home"))
    return find()


@pytest.fixture
def sit(qapp: QApplication, loop: QEventLoop, paths: Paths) -> Iterator[Callable[..., Desk]]:
    """Sit down at a window whose model plays these scripts; a second call is a second start."""
    desks: list[Desk] = []

    def sit_down(*scripts: Any, backend: Any = None) -> Desk:
        if desks:
            desks.pop().close()
        desks.append(Desk(qapp, loop, paths, backend or Scripted(*scripts)))
        return desks[-1]

    yield sit_down
    for desk in desks:
        desk.close()


@pytest.fixture(scope="session")
def desktop() -> Iterator[Desktop]:
    """A display with a window manager."""
    if reason := why_not():
        (pytest.fail if can_be_had() else pytest.skip)(reason)
    made = Desktop()
    yield made
    made.close()


@pytest.fixture
def person(desktop: Desktop, tmp_path: Path) -> Iterator[Person]:
    """Somebody who sits there, with a home of their own."""
    made = Person(desktop, tmp_path)
    yield made
    made.leave()
