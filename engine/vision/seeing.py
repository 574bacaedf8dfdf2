"""The pictures of one prompt, encoded one short step at a time, each when its turn comes."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable

from engine.layers.decoder import Insert
from engine.text.pictures import Picture
from engine.vision.features import ImageFeatures, VisionEncoder


class Seeing:
    """What of a prompt's pictures is encoded. Without an encoder there are none."""

    def __init__(self, encoder: VisionEncoder | None, pictures: Iterable[Picture]) -> None:
        self._encoder, self._waiting = encoder, deque(pictures)
        self._steps: Generator[None, None, ImageFeatures] | None = None
        self._inserts: list[Insert] = []

    def step(self, end: int) -> bool:
        """Encode a little more of a picture that begins before position `end`. False: they all are ready."""
        if self._encoder is None or not self._waiting or self._waiting[0].start >= end:
            return False
        self._steps = self._steps or self._encoder.steps(self._waiting[0].data)
        try:
            next(self._steps)
        except StopIteration as done:
            self._inserts.append(Insert(self._waiting.popleft().start, done.value.features))
            self._steps = None
        return True

    def inserts(self, start: int) -> list[Insert]:
        """The features of what is encoded and not over at position `start`; the others are let go."""
        self._inserts = [insert for insert in self._inserts if insert.start + len(insert.rows) > start]
        return self._inserts
