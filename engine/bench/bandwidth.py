"""How fast this machine's memory can be read: a bound for engines, which read all weights for each token."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import Any

import numpy as np
import psutil

BYTES = 1 << 30
SHARE = 1 / 4  # of the memory that is free, at most
PASSES = 3


class Memory:
    """A large array that threads add up, a part each."""

    def __init__(self, threads: int) -> None:
        import numba

        size = min(BYTES, int(psutil.virtual_memory().available * SHARE))
        self._values = np.ones(size // 8, np.int64)
        self._parts = np.array_split(self._values, threads)
        self._add: Callable[[np.ndarray], Any] = numba.njit(nogil=True)(_add)
        self._add(self._values[:1_000])

    @property
    def bytes(self) -> int:
        """How many are read."""
        return self._values.nbytes

    def measure(self) -> float:
        """Bytes a second, the best of a few passes."""
        with ThreadPoolExecutor(len(self._parts), "read") as pool:
            return max(self._pass(pool) for _ in range(PASSES))

    def _pass(self, pool: ThreadPoolExecutor) -> float:
        started = perf_counter()
        total = sum(pool.map(self._add, self._parts))
        seconds = perf_counter() - started
        assert total == len(self._values)
        return self.bytes / seconds


def _add(values: np.ndarray) -> int:
    total = 0
    for value in values:
        total += value
    return total
