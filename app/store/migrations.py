"""How the database came to be: append only. `PRAGMA user_version` says how many of these it has seen."""

from __future__ import annotations

import sqlite3

FIRST = (
    """CREATE TABLE conversations (
        id TEXT PRIMARY KEY,
        title TEXT NOT NULL,
        created REAL NOT NULL,
        updated REAL NOT NULL,
        deleted REAL
    ) STRICT""",
    """CREATE TABLE entries (
        id TEXT PRIMARY KEY,
        conversation_id TEXT NOT NULL REFERENCES conversations(id) ON DELETE CASCADE,
        position INTEGER NOT NULL,
        role TEXT NOT NULL,
        state TEXT NOT NULL,
        error TEXT NOT NULL DEFAULT '',
        created REAL NOT NULL,
        owner TEXT NOT NULL DEFAULT '',
        blocks TEXT NOT NULL DEFAULT '[]',
        UNIQUE (conversation_id, position)
    ) STRICT""",
    # What an answer gained since `blocks` was written; emptied into it when the turn ends.
    """CREATE TABLE deltas (
        number INTEGER PRIMARY KEY,
        entry_id TEXT NOT NULL REFERENCES entries(id) ON DELETE CASCADE,
        block TEXT NOT NULL
    ) STRICT""",
    "CREATE INDEX deltas_by_entry ON deltas(entry_id, number)",
    "CREATE INDEX conversations_by_time ON conversations(updated) WHERE deleted IS NULL",
    "CREATE INDEX entries_streaming ON entries(state) WHERE state = 'streaming'",
)

MIGRATIONS: tuple[tuple[str, ...], ...] = (FIRST,)


def version(connection: sqlite3.Connection) -> int:
    """How many migrations the database has seen."""
    number = connection.execute("PRAGMA user_version").fetchone()[0]
    assert isinstance(number, int)
    return number


def migrate(connection: sqlite3.Connection, migrations: tuple[tuple[str, ...], ...] = MIGRATIONS) -> None:
    """Apply what is missing, each migration whole or not at all; a second process may do the same."""
    for number in range(version(connection), len(migrations)):
        connection.execute("BEGIN IMMEDIATE")
        try:
            if version(connection) == number:
                for statement in migrations[number]:
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {number + 1}")
            connection.execute("COMMIT")
        except sqlite3.Error:
            connection.execute("ROLLBACK")
            raise
