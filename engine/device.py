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
# Some 50 microseconds: until the next operation. Measured on two cores, in tokens a second: not spinning has
# 38 instead of 50 when the machine is idle, and 2 to 5 times as many when others keep it very busy.
SPIN_COUNT = "5000"
# Behind the window, ahead of idle jobs. Measured beside two busy programs: 17 tokens a second; with 5 they
# are 10, since each operation waits for the slowest thread.
NICENESS = 2


def cores() -> int:
    """Physical cores this process may use."""
    physical = psutil.cpu_count(logical=False) or os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        return max(1, min(physical, len(os.sched_getaffinity(0))))
    return physical


def yield_to_others() -> None:
    """Put this thread's priority, and that of those it will start, below the main thread's; once is enough.

    Only Linux keeps one for each thread.
    """
    if sys.platform == "linux":
        main = os.getpriority(os.PRIO_PROCESS, os.getpid())
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), main + NICENESS)


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
