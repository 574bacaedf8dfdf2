"""One SQLite file: all writes on one thread, reads on a connection of their own."""

from __future__ import annotations

import logging
import os
import queue
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import closing
from pathlib import Path
from typing import TypeVar

from app.errors import UserError
from app.store.migrations import MIGRATIONS, migrate, version

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]

log = logging.getLogger(__name__)

BUSY_MS = 5_000
CHECKED_BYTES = 64 << 20  # a bigger file isn't read whole at every start
DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


class Database:
    """An open database. `notices` are sentences on what was found when it was opened."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.notices: list[str] = []
        self._reads = self._open()
        self._reading = threading.Lock()
        self._writes: queue.SimpleQueue[Callable[[sqlite3.Connection], None] | None] = queue.SimpleQueue()
        self._closed = False
        self._writer = threading.Thread(target=self._write_all, name="database", daemon=True)
        self._writer.start()

    def read(self, work: Work[T]) -> T:
        """Do `work(connection)` here and now, on one state of the file; UserError when it cannot be read."""
        with self._reading:
            try:
                self._reads.execute("BEGIN")
                try:
                    return work(self._reads)
                finally:
                    self._reads.execute("COMMIT")
            except sqlite3.Error as error:
                raise explained(error, self.path) from error

    def write(self, work: Work[T]) -> Future[T]:
        """Do `work(connection)` on the writer thread, in a transaction of its own. Errors are UserError."""
        future: Future[T] = Future()
        if self._closed:
            future.set_exception(UserError("Sidelight is closing; nothing more can be saved."))
            return future
        self._writes.put(lambda connection: self._carry_out(connection, work, future))
        return future

    def close(self) -> None:
        """Finish the writes that were asked for, then close the file."""
        if self._closed:
            return
        self._closed = True
        self._writes.put(None)
        self._writer.join()
        with self._reading:
            self._reads.close()

    def _carry_out(self, connection: sqlite3.Connection, work: Work[T], future: Future[T]) -> None:
        if not future.set_running_or_notify_cancel():
            return  # who asked for it gave it up before it began
        try:
            connection.execute("BEGIN IMMEDIATE")
            result = work(connection)
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            log.error("A write failed: %s", error)
            future.set_exception(explained(error, self.path))
        except UserError as error:
            connection.execute("ROLLBACK")
            future.set_exception(error)
        else:
            future.set_result(result)

    def _write_all(self) -> None:
        with closing(connect(self.path)) as connection:
            while (work := self._writes.get()) is not None:
                work(connection)

    def _open(self) -> sqlite3.Connection:
        try:
            return open_checked(self.path)
        except sqlite3.Error as error:
            if not is_damage(error):
                raise explained(error, self.path) from error
            log.error("The database is damaged: %s", error)
        self.notices.append(self._set_aside())
        try:
            return open_checked(self.path)
        except sqlite3.Error as error:
            raise explained(error, self.path) from error

    def _set_aside(self) -> str:
        """Move the damaged file away, with its journal; the sentence says where it is."""
        aside = self.path.with_name(f"{self.path.stem}.damaged-{time.strftime('%Y%m%d-%H%M%S')}.db")
        try:
            for end in ("", "-wal", "-shm"):
                if (part := self.path.with_name(self.path.name + end)).exists():
                    os.replace(part, aside.with_name(aside.name + end))
        except OSError as error:
            raise UserError(f"{self.path} is damaged and can't be moved: {error.strerror}.") from error
        return f"The saved conversations were damaged, so a new file was begun. The old one is {aside}."


def connect(path: Path) -> sqlite3.Connection:
    """A connection with our settings; transactions are written out."""
    connection = sqlite3.connect(path, timeout=BUSY_MS / 1000, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA synchronous = NORMAL")  # with WAL: nothing torn, at most the last moment lost
    connection.execute("PRAGMA foreign_keys = ON")
    return connection


def open_checked(path: Path) -> sqlite3.Connection:
    """Open, look it over and migrate. UserError for a newer version; sqlite3.Error for damage."""
    connection = connect(path)
    try:
        _look_over(connection, path)
        connection.execute("PRAGMA journal_mode = WAL")
        found = version(connection)
        if found > len(MIGRATIONS):
            raise UserError(f"{path} was written by a newer Sidelight. Please update this one.")
        if 0 < found < len(MIGRATIONS):
            _back_up(connection, path, found)
        migrate(connection)
    except (sqlite3.Error, UserError):
        connection.close()
        raise
    path.chmod(0o600)
    return connection


def _look_over(connection: sqlite3.Connection, path: Path) -> None:
    if not path.exists() or path.stat().st_size > CHECKED_BYTES:
        return
    found = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if found != "ok":
        error = sqlite3.DatabaseError(found)
        error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise error


def _back_up(connection: sqlite3.Connection, path: Path, found: int) -> None:
    copy = path.with_name(f"{path.stem}.version-{found}.db")
    with closing(sqlite3.connect(copy)) as target:
        connection.backup(target)


def is_damage(error: sqlite3.Error) -> bool:
    """Whether the file itself is bad, not its folder, its disk or its moment."""
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in DAMAGED


def explained(error: sqlite3.Error, path: Path) -> UserError:
    """The sentence for a failure of SQLite."""
    code = (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
    if code in DAMAGED:
        return UserError(f"{path} is damaged. Start Sidelight again to set it aside and begin a new one.")
    reason = {
        sqlite3.SQLITE_BUSY: "another program is using it",
        sqlite3.SQLITE_LOCKED: "another program is using it",
        sqlite3.SQLITE_FULL: "the disk is full",
        sqlite3.SQLITE_READONLY: "it may not be written to",
        sqlite3.SQLITE_CANTOPEN: "it can't be opened",
        sqlite3.SQLITE_IOERR: "the disk reports an error",
    }.get(code, str(error))
    return UserError(f"Conversations can't be saved in {path}: {reason}.")
