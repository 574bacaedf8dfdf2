"""Files only the person may read: locked against a second copy of the app, replaced as a whole."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def open_private(path: Path, flags: int) -> int:
    """A descriptor of our own file: made if need be, closed to others, never through a link."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    number = os.open(
        path, flags | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0), 0o600
    )
    if os.name == "posix" and os.fstat(number).st_mode & 0o077:
        os.fchmod(number, 0o600)
    return number


@contextmanager
def locked(number: int) -> Iterator[None]:
    """Hold the file against other processes of ours."""
    if sys.platform == "win32":
        import msvcrt

        os.lseek(number, 0, os.SEEK_SET)
        msvcrt.locking(number, msvcrt.LK_LOCK, 1)
        try:
            yield
        finally:
            os.lseek(number, 0, os.SEEK_SET)
            msvcrt.locking(number, msvcrt.LK_UNLCK, 1)
    else:
        import fcntl

        fcntl.flock(number, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(number, fcntl.LOCK_UN)


def replace(path: Path, data: bytes) -> None:
    """Write the file anew; a crash leaves the old one or the new one."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    number = open_private(partial, os.O_WRONLY | os.O_TRUNC)
    with os.fdopen(number, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)
