"""The database file: opened, refused, set aside, shared and migrated."""

import sqlite3
import subprocess
import sys
import threading

import pytest

from app.errors import UserError
from app.store import database as module
from app.store.database import Database, connect
from app.store.migrations import MIGRATIONS, migrate, version


@pytest.fixture
def path(tmp_path):
    return tmp_path / "conversations.db"


def rows(database, statement="SELECT id FROM conversations"):
    return database.read(lambda connection: connection.execute(statement).fetchall())


def add(id):
    return lambda db: db.execute("INSERT INTO conversations VALUES (?, '', 1, 1, NULL)", (id,)).rowcount


def test_writes_are_there_when_their_future_is_done(path):
    database = Database(path)
    assert database.write(add("a")).result() == 1
    assert rows(database) == [("a",)]
    assert rows(database, "PRAGMA journal_mode") == [("wal",)]
    database.close()
    database.close()
    assert path.stat().st_mode & 0o077 == 0
    with pytest.raises(UserError, match="closing"):
        database.write(add("b")).result()


def test_a_failed_write_leaves_nothing_behind_and_the_next_one_works(path):
    database = Database(path)

    def half(connection):
        add("a")(connection)
        raise UserError("No.")

    with pytest.raises(UserError, match="No"):
        database.write(half).result()
    database.write(add("b")).result()
    with pytest.raises(UserError, match="UNIQUE"):
        database.write(add("b")).result()
    assert rows(database) == [("b",)]
    database.close()


def test_a_write_that_was_given_up_is_not_done_and_harms_nothing(path):
    database = Database(path)
    go = threading.Event()
    database.write(lambda connection: go.wait(10))
    given_up = database.write(add("a"))
    assert given_up.cancel()
    go.set()
    assert database.write(add("b")).result() == 1
    assert rows(database) == [("b",)]
    database.close()


def test_closing_finishes_what_was_asked_for(path):
    database = Database(path)
    writes = [database.write(add(str(number))) for number in range(300)]
    database.close()
    assert all(write.result() == 1 for write in writes)


@pytest.mark.parametrize("damage", [b"this is no database " * 100, b"\0" * 4096])
def test_a_damaged_file_is_set_aside(path, damage):
    path.write_bytes(damage)
    database = Database(path)
    database.write(add("a")).result()
    assert rows(database) == [("a",)]
    [aside] = path.parent.glob("*.damaged-*.db")
    assert aside.read_bytes() == damage
    assert len(database.notices) == 1 and str(aside) in database.notices[0]
    database.close()


def test_a_file_damaged_inside_is_set_aside(path):
    database = Database(path)
    for number in range(2_000):
        database.write(add(f"{number:0100}"))
    database.close()
    data = bytearray(path.read_bytes())
    data[8_192:40_000] = b"\xaa" * (40_000 - 8_192)
    path.write_bytes(data)
    database = Database(path)
    assert len(database.notices) == 1
    assert rows(database) == []
    database.close()


def test_a_newer_file_is_refused_and_left_alone(path):
    Database(path).close()
    with connect(path) as connection:
        connection.execute("PRAGMA user_version = 999")
    connection.close()
    with pytest.raises(UserError, match="newer"):
        Database(path)
    assert not list(path.parent.glob("*damaged*"))


def test_an_older_file_is_copied_then_migrated(path, monkeypatch):
    first = Database(path)
    first.write(add("a")).result()
    first.close()
    more = (*MIGRATIONS, ("ALTER TABLE conversations ADD COLUMN colour TEXT",))
    monkeypatch.setattr(module, "MIGRATIONS", more)
    monkeypatch.setattr(module, "migrate", lambda connection: migrate(connection, more))
    second = Database(path)
    assert rows(second, "SELECT id, colour FROM conversations") == [("a", None)]
    second.close()
    copy = sqlite3.connect(path.parent / f"conversations.version-{len(MIGRATIONS)}.db")
    assert copy.execute("SELECT * FROM conversations").fetchall() == [("a", "", 1, 1, None)]
    copy.close()


def test_a_migration_that_fails_leaves_the_file_as_it_was(path):
    Database(path).close()
    connection = connect(path)
    with pytest.raises(sqlite3.Error):
        migrate(connection, (*MIGRATIONS, ("CREATE TABLE extra (x)", "this is no SQL")))
    assert version(connection) == len(MIGRATIONS)
    assert not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'extra'").fetchall()
    connection.close()


def test_a_folder_in_its_place_is_a_sentence(path):
    path.mkdir()
    with pytest.raises(UserError, match="can't be opened"):
        Database(path)


def test_a_lock_held_by_another_program_is_a_sentence(path, monkeypatch):
    monkeypatch.setattr(module, "BUSY_MS", 50)
    database = Database(path)
    other = connect(path)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(UserError, match="another program"):
        database.write(add("a")).result()
    other.execute("ROLLBACK")
    other.close()
    assert database.write(add("a")).result() == 1
    database.close()


def test_reads_go_on_while_a_write_is_under_way(path):
    database = Database(path)
    begun, go = threading.Event(), threading.Event()

    def slow(connection):
        add("a")(connection)
        begun.set()
        assert go.wait(10)

    write = database.write(slow)
    assert begun.wait(10)
    assert rows(database) == []
    go.set()
    write.result()
    assert rows(database) == [("a",)]
    database.close()


MANY = """
import sys
from pathlib import Path
from app.store.database import Database
database = Database(Path(sys.argv[1]))
for number in range(60):
    database.write(lambda db, n=number: db.execute(
        "INSERT INTO conversations VALUES (?, '', 1, 1, NULL)", (f"{sys.argv[2]}-{n}",))).result()
database.close()
"""


def test_several_processes_begin_and_fill_one_file(path):
    processes = [subprocess.Popen([sys.executable, "-c", MANY, str(path), str(n)]) for n in range(4)]
    assert [process.wait(60) for process in processes] == [0, 0, 0, 0]
    database = Database(path)
    assert not database.notices
    assert len(rows(database)) == 240
    assert rows(database, "PRAGMA integrity_check") == [("ok",)]
    database.close()
