"""Watching the screen: off until started; only the newest frame is kept, in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

from app.errors import UserError
from app.observe.capture import Capture, Frame, Rectangle, blank_out
from app.observe.change import fingerprint

ObserverState = Literal["off", "watching", "paused"]
PAUSED = "Looking at the screen is paused."


class Observer:
    """Watches one monitor (1 is the first, None all together), about every `interval` seconds."""

    def __init__(self, monitor: int | None = 1, interval: float = 1.0) -> None:
        self._capture, self._interval = Capture(monitor), interval
        # One thread, so that the connection to the display is used by the thread that made it.
        self._worker = ThreadPoolExecutor(1, "capture")
        self._state: ObserverState = "off"
        self._problem = ""
        self._latest: Frame | None = None
        self._print: int | None = None
        self._listeners: list[Callable[[], None]] = []
        self._masked: Callable[[], list[Rectangle]] = list
        self._watch: asyncio.Task[None] | None = None

    @property
    def state(self) -> ObserverState:
        """Whether it watches."""
        return self._state

    @property
    def problem(self) -> str:
        """A sentence when watching stopped by itself, else empty."""
        return self._problem

    def start(self) -> None:
        """Watch from now on; needs a running event loop."""
        if self._state != "watching":
            self._watch = asyncio.get_running_loop().create_task(self._look(), name="watch the screen")
            self._enter("watching")

    def pause(self) -> None:
        """Stop looking until resumed; `frame()` refuses meanwhile."""
        self._enter("paused")

    def resume(self) -> None:
        """Look again; an observer that is off stays off."""
        if self._state == "paused":
            self.start()

    def stop(self) -> None:
        """Stop watching and forget the newest frame."""
        self._enter("off")

    def choose(self, monitor: int | None) -> None:
        """Look at another monitor from now on."""
        if monitor != self._capture.monitor:
            self._capture.monitor, self._print = monitor, None

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call `listener` on the loop's thread whenever the state or the newest frame changed."""
        self._listeners.append(listener)

    def latest(self) -> Frame | None:
        """The newest frame while watching."""
        return self._latest

    def mask(self, rectangles: Callable[[], list[Rectangle]]) -> None:
        """Our own windows as (left, top, width, height) in screen pixels, painted grey in every frame.

        Called on the loop's thread, before and after each grab: a window may move meanwhile.
        """
        self._masked = rectangles

    async def frame(self) -> Frame:
        """Grab now; raises UserError with a sentence if it can't."""
        if self._state == "paused":
            raise UserError(self._problem or PAUSED)
        frame, _ = await self._grab()
        return frame

    async def close(self) -> None:
        """Stop, and give the worker thread back."""
        self.stop()
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._worker, self._capture.close)
        self._worker.shutdown(wait=False)

    async def _grab(self) -> tuple[Frame, int]:
        loop = asyncio.get_running_loop()
        before = self._masked()
        frame = await loop.run_in_executor(self._worker, self._capture.grab, before)
        # The picture is not handed on before the places our windows moved to are grey as well.
        return await loop.run_in_executor(self._worker, _finish, frame, self._masked())

    async def _look(self) -> None:
        while True:
            try:
                frame, seen = await self._grab()
            except UserError as error:
                self._enter("paused", str(error))
                return
            if seen != self._print:
                self._latest, self._print = frame, seen
                self._tell()
            await asyncio.sleep(self._interval)

    def _enter(self, state: ObserverState, problem: str = "") -> None:
        changed = (state, problem) != (self._state, self._problem)
        self._state, self._problem = state, problem
        if state != "watching":
            self._latest = self._print = None
            task, self._watch = self._watch, None
            if task is not None and task is not _current_task():
                task.cancel()
        if changed:
            self._tell()

    def _tell(self) -> None:
        for listener in list(self._listeners):
            listener()


def _finish(frame: Frame, masked: list[Rectangle]) -> tuple[Frame, int]:
    done = blank_out(frame, masked)
    return done, fingerprint(done.image)


def _current_task() -> asyncio.Task[None] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # no loop runs here
        return None
