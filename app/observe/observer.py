"""Watching the screen: off until started; the newest frame is kept in memory only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from app.observe.capture import Frame, Rectangle

ObserverState = Literal["off", "watching", "paused"]


class Observer:
    """Watches one monitor. `monitor` 1 is the first; None is all of them."""

    def __init__(self, monitor: int | None = 1, interval: float = 1.0) -> None:
        self._state: ObserverState = "off"

    @property
    def state(self) -> ObserverState:
        """Whether it watches."""
        return self._state

    @property
    def problem(self) -> str:
        """A sentence when watching stopped by itself, else empty."""
        raise NotImplementedError

    def start(self) -> None:
        """Watch from now on; needs a running event loop."""
        raise NotImplementedError

    def pause(self) -> None:
        """Stop looking until resumed; `frame()` refuses meanwhile."""
        raise NotImplementedError

    def resume(self) -> None:
        """Go on watching."""
        raise NotImplementedError

    def stop(self) -> None:
        """Stop watching and forget the newest frame."""
        raise NotImplementedError

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call `listener` on the loop's thread when the state or the newest frame changed."""
        raise NotImplementedError

    async def frame(self) -> Frame:
        """Grab now; raises UserError with a sentence if it can't."""
        raise NotImplementedError

    def latest(self) -> Frame | None:
        """The newest frame while watching."""
        raise NotImplementedError

    def mask(self, rectangles: Callable[[], list[Rectangle]]) -> None:
        """Our own windows as (left, top, width, height) in screen pixels, painted grey in every frame."""
        raise NotImplementedError

    async def close(self) -> None:
        """Stop and give the worker thread back."""
        raise NotImplementedError
