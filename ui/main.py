"""Starts the window: checks first, the window next, the model behind it; and ends everything in order."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from app.errors import UserError
from ui import display

if TYPE_CHECKING:
    from PySide6.QtWidgets import QApplication

    from app.build import Services
    from ui.single import SingleInstance
    from ui.window import MainWindow

CLOSE_SECONDS = 1.5  # what takes longer to close is left to the system
log = logging.getLogger(__name__)


def main(argv: list[str]) -> int:
    """Open the window and stay until it is closed. 2: it could not open, and a sentence said why."""
    options = parse(argv)
    try:
        display.check()
        return start(options.model)
    except UserError as error:
        print(error, file=sys.stderr)  # noqa: T201 - there is no window to say it in
        return 2


def parse(argv: list[str]) -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(prog="sidelight", description="Opens Sidelight's window.")
    parser.add_argument("--model", type=Path, help="a model file (GGUF) to use this time")
    return parser.parse_args(argv)


def start(model: Path | None) -> int:
    """Make the application, unless one is running already."""
    from app.build import build
    from app.paths import find
    from ui.single import SingleInstance

    paths = find()
    app = make_application()
    instance = SingleInstance(paths.data)
    if not instance.claim():
        return 0
    try:
        status = run(app, build(paths, model=model), instance)
    finally:
        instance.close()
    if "torch" in sys.modules:
        leave(status)
    return status


def leave(status: int) -> None:
    """End the process now. All is closed and stored, but torch would take seconds to unregister itself."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def make_application() -> QApplication:
    """Qt's side, with our name and icon."""
    from PySide6.QtWidgets import QApplication

    from ui.tray import draw

    app = QApplication(["sidelight"])
    app.setApplicationName("sidelight")
    app.setApplicationDisplayName("Sidelight")
    app.setDesktopFileName("sidelight")
    app.setQuitOnLastWindowClosed(False)  # what closing means is the window's to say
    app.setWindowIcon(draw("idle"))
    return app


def run(app: QApplication, services: Services, instance: SingleInstance) -> int:
    """Show the window and serve it until quit."""
    from PySide6.QtCore import QTimer
    from qasync import QEventLoop

    from ui.failures import Failures
    from ui.mask import own_windows
    from ui.remembered import Remembered
    from ui.signals import QuitSignals
    from ui.theme import Theme
    from ui.window import MainWindow

    theme = Theme(app, cast(Any, services.settings.text("window.theme")))
    loop = QEventLoop(app)
    asyncio.set_event_loop(loop)
    window = MainWindow(services, Remembered(services.paths.state / "window.ini"), theme)
    failures = Failures(loop, window)
    signals = QuitSignals(loop.stop)
    services.observer.mask(own_windows)
    window.quit_wanted.connect(loop.stop)
    app.commitDataRequest.connect(lambda _: window.agree_to_quit())
    instance.raised.connect(window.show_again)
    window.show()
    QTimer.singleShot(0, window, window.start)
    try:
        loop.run_forever()
    finally:
        end(loop, window, services)
        signals.close()
        failures.close()
    return 0


def end(loop: asyncio.AbstractEventLoop, window: MainWindow, services: Services) -> None:
    """Save, stop what runs, close the services, then the loop, before Qt's application goes."""
    window.remember()
    window.hide()
    if window.tray is not None:
        window.tray.hide()
    finished = loop.run_until_complete(close(window, services))
    if not finished:
        log.warning("Closing took too long; ending without it.")
        leave(0)  # everything is stored; a thread in the middle of a load would hold the exit up
    window.deleteLater()
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    asyncio.set_event_loop(None)


async def close(window: MainWindow, services: Services) -> bool:
    """Turns, tasks, services. False: not done in time."""
    from ui.tasks import cancel_all

    async def in_order() -> None:
        await window.turns.close()
        await cancel_all()
        await services.close()

    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(asyncio.shield(asyncio.ensure_future(in_order())), CLOSE_SECONDS)
        return True
    return False


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
