"""Reading a frame's text."""

from __future__ import annotations

from dataclasses import dataclass

from app.observe.capture import Frame, Rectangle


@dataclass(frozen=True, slots=True)
class Line:
    """A line of text and its box (left, top, width, height) in screen pixels."""

    text: str
    box: Rectangle


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read, in reading order."""

    lines: tuple[Line, ...]
    source: str = ""  # "Screen 1, 1920x1080"

    @property
    def plain(self) -> str:
        """The text alone, a line each."""
        return "\n".join(line.text for line in self.lines)

    @property
    def text(self) -> str:
        """A line each, with its middle on the screen: `[x,y] text`."""
        return "\n".join(
            f"[{left + width // 2},{top + height // 2}] {line.text}"
            for line in self.lines
            for left, top, width, height in (line.box,)
        )

    @property
    def words(self) -> int:
        """How many words were read."""
        return len(self.plain.split())


class Reader:
    """Reads frames in a worker thread of its own; the models are loaded with the first one."""

    async def read(self, frame: Frame) -> Reading:
        """The text of a frame."""
        raise NotImplementedError

    async def close(self) -> None:
        """Give the worker thread back."""
        raise NotImplementedError
