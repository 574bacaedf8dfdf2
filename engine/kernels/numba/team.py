"""The threads that multiply: one that asks, and helpers that rest when nobody asks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from threading import Lock, Semaphore, Thread

import numpy as np

from engine import device
from engine.kernels.numba.products import BYTES, CLOSED, RESTING, multiply, room, scale_bytes, serve


class Team:
    """So many threads. Who asks is one of them; one at a time."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._job = room(BYTES)
        self._numbers = self._job.view(np.int64)
        self._address = self._job.ctypes.data
        self._asking, self._wake = Lock(), Semaphore(0)
        self._x, self._s = room(64), room(64)
        self._is_started = False

    def multiply(
        self,
        parts: Sequence[tuple[int, int, int, int]],
        columns: int,
        source: int,
        rows: int,
        out: int,
        stride: int,
    ) -> None:
        """Parts of a matrix, one below the other: each a layout, a rounding, an address, and tiles."""
        with self._asking:
            self._rouse()
            rounded, at = -1, out
            for layout, rounding, weights, tiles in parts:
                x, s = self._scratch(rows * columns, rows * scale_bytes(rounding, columns))
                multiply(
                    self._address,
                    self.threads,
                    rounding == rounded,
                    layout,
                    rounding,
                    weights,
                    tiles,
                    columns,
                    source,
                    rows,
                    at,
                    stride,
                    x,
                    s,
                )
                rounded, at = rounding, at + 32 * tiles

    def _scratch(self, x: int, s: int) -> tuple[int, int]:
        if self._x.size < x:
            self._x = room(x)
        if self._s.size < s:
            self._s = room(s)
        return self._x.ctypes.data, self._s.ctypes.data

    def _rouse(self) -> None:
        """Wake the helpers that rest."""
        if self.threads > 1 and not self._is_started:
            self._is_started = True
            for number in range(1, self.threads):
                Thread(target=self._help, name=f"kernel {number}", daemon=True).start()
        while self._numbers[RESTING // 8]:
            self._numbers[RESTING // 8] -= 1
            self._wake.release()

    def _help(self) -> None:
        device.yield_to_others()
        while not self._numbers[CLOSED // 8]:
            serve(self._address)
            self._numbers[RESTING // 8] += 1
            self._wake.acquire()


@cache
def team_of(threads: int) -> Team:
    """Teams are few and long-lived: models share them."""
    return Team(threads)
