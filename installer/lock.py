"""One installation at a time: a second one waits for the first."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

WAITING = "Sidelight is being set up by another start of this command; waiting for it to finish."


@contextmanager
def locked(path: Path) -> Iterator[int]:
    """Hold the lock; yields its descriptor, which a child may inherit to keep the lock after our death."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        if not take(descriptor):
            wait(descriptor)
        yield descriptor
    finally:
        os.close(descriptor)


def wait(descriptor: int) -> None:
    """Wait for the lock, with a sign of life now and then."""
    print(WAITING, file=sys.stderr, flush=True)
    spoke = time.monotonic()
    while not take(descriptor):
        time.sleep(0.3)
        if time.monotonic() - spoke >= 15:
            spoke = time.monotonic()
            print("      still waiting", file=sys.stderr, flush=True)


if sys.platform == "win32":
    import msvcrt

    def take(descriptor: int) -> bool:
        """Take the lock if it is free."""
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def take(descriptor: int) -> bool:
        """Take the lock if it is free."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
