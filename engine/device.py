"""What hardware there is, and how politely we use it."""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

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
        thread = threading.get_native_id()
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, thread) + NICENESS)


@contextlib.contextmanager
def gentle_start() -> Iterator[None]:
    """While torch is first imported: its workers (GNU OpenMP) shall wait asleep, not spin for milliseconds.

    Between two operations they'd burn the very core that the other worker, or the window, is waiting for.
    Measured with every core of the machine busy: five times the tokens a second. It is read once, so it is
    then taken back, for the sake of programs we start.
    """
    is_ours = SPINS not in os.environ and "OMP_WAIT_POLICY" not in os.environ  # else the person has decided
    if is_ours:
        os.environ[SPINS] = SPIN_COUNT
    try:
        _open_torch()
        yield
    finally:
        if is_ours:
            del os.environ[SPINS]


def _open_torch() -> None:
    """Open torch's library before its import does: that would stop all Python threads, the window's too.

    A call by ctypes lets them run. Measured: the longest stop fell from 0.35 to 0.15 s. If it fails, so will
    the import, which says why.
    """
    found = (
        importlib.util.find_spec("torch") if sys.platform == "linux" and "torch" not in sys.modules else None
    )
    if found is not None and found.origin is not None:
        library = Path(found.origin).parent / "lib" / "libtorch_python.so"
        with contextlib.suppress(AttributeError):  # a C library without a dlopen of its own
            system = ctypes.CDLL(None).dlopen
            system.argtypes, system.restype = (ctypes.c_char_p, ctypes.c_int), ctypes.c_void_p
            system(os.fsencode(library), os.RTLD_NOW | os.RTLD_LOCAL)


def describe(threads: int) -> str:
    """The device in words."""
    return f"CPU, {threads} thread{'s' if threads != 1 else ''}"


def resident_bytes() -> int:
    """Memory this process holds."""
    return int(psutil.Process().memory_info().rss)


def memory_bytes() -> int:
    """The machine's memory."""
    return int(psutil.virtual_memory().total)
