"""The threads that run programs: one that asks, and helpers that rest when nobody asks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock, Semaphore, Thread

import numpy as np

from engine import device
from engine.kernels.numba.products import scale_bytes
from engine.kernels.numba.program import (
    BYTES,
    CLOSED,
    FRAME,
    IS_RUNNING,
    RESTING,
    ROUNDED,
    ROWS,
    SCALES,
    room,
    run,
    serve,
)


class Frame:
    """What a program works on, by `program`'s places; its rooms grow and stay."""

    def __init__(self) -> None:
        self._values = np.zeros(FRAME, np.int64)
        self._rooms: dict[int, np.ndarray] = {}
        self.address = self._values.ctypes.data

    def put(self, place: int, value: int) -> None:
        """A number, or the address of something that outlives the run."""
        self._values[place] = value

    def make_room(self, place: int, size: int) -> None:
        """At least so many bytes there, of whatever."""
        if place not in self._rooms or self._rooms[place].size < size:
            self._rooms.pop(place, None)
            self._rooms[place] = room(size)
        self._values[place] = self._rooms[place].ctypes.data

    def round(self, mask: int, rows: int, columns: int) -> None:
        """Room for so many rows, those that the run is over, rounded in these ways, or for narrower ones."""
        self._values[ROWS] = rows
        for rounding in range(3):
            if mask >> rounding & 1:
                self.make_room(ROUNDED + rounding, rows * columns)
                self.make_room(SCALES + rounding, rows * scale_bytes(rounding, columns))


class Team:
    """So many threads. Who asks is one of them; one at a time."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._job = room(BYTES)
        self._numbers = self._job.view(np.int64)
        self._address = self._job.ctypes.data
        self._asking, self._going_to_rest, self._wake = Lock(), Lock(), Semaphore(0)
        self._frame = Frame()
        self._is_started = False

    @contextmanager
    def asked(self) -> Iterator[Frame]:
        """The frame, for who fills it and then calls `run`."""
        with self._asking:
            yield self._frame

    def run(self, program: np.ndarray) -> None:
        """Operations, (n, `WORDS`) whole numbers, over what the frame holds."""
        self._rouse()
        run(self._address, program.ctypes.data, len(program), self._frame.address, self.threads)

    def _rouse(self) -> None:
        """Start the helpers, or wake those that rest; from now on none of them goes to rest."""
        if self.threads > 1 and not self._is_started:
            self._is_started = True
            for number in range(1, self.threads):
                Thread(target=self._help, name=f"kernel {number}", daemon=True).start()
        with self._going_to_rest:
            self._numbers[IS_RUNNING // 8] = 1
            while self._numbers[RESTING // 8]:
                self._numbers[RESTING // 8] -= 1
                self._wake.release()

    def _help(self) -> None:
        device.yield_to_others()
        while not self._numbers[CLOSED // 8]:
            serve(self._address)
            with self._going_to_rest:  # whoever asks in between would find nobody to wake
                if self._numbers[IS_RUNNING // 8]:
                    continue
                self._numbers[RESTING // 8] += 1
            self._wake.acquire()


@cache
def team_of(threads: int) -> Team:
    """Teams are few and long-lived: models share them."""
    return Team(threads)
