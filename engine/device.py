"""What hardware there is, and how politely we use it."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator

import psutil

SPINS = "GOMP_SPINCOUNT"
SPIN_COUNT = "5000"  # some 50 microseconds: until the next operation
NICENESS = 5  # behind the window and other programs, ahead of idle jobs


def cores() -> int:
    """Physical cores this process may use."""
    physical = psutil.cpu_count(logical=False) or os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        return max(1, min(physical, len(os.sched_getaffinity(0))))
    return physical


def yield_to_others() -> None:
    """Lower this thread's priority, and of those it will start. Only Linux keeps one for each thread."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)


@contextlib.contextmanager
def patient_workers() -> Iterator[None]:
    """While torch is first imported: its workers (GNU OpenMP) shall wait asleep, not spin for milliseconds.

    Between two operations they'd burn the very core that the other worker, or the window, is waiting for.
    Measured with every core of the machine busy: five times the tokens a second. It is read once, so it is
    then taken back, for the sake of programs we start.
    """
    if SPINS in os.environ or "OMP_WAIT_POLICY" in os.environ:
        yield  # the person has decided
        return
    os.environ[SPINS] = SPIN_COUNT
    try:
        yield
    finally:
        del os.environ[SPINS]


def describe(threads: int) -> str:
    """The device in words."""
    return f"CPU, {threads} thread{'s' if threads != 1 else ''}"


def resident_bytes() -> int:
    """Memory this process holds."""
    return int(psutil.Process().memory_info().rss)
