"""Conversations and their entries, stored before they are shown."""

from __future__ import annotations

import json
import sqlite3
import time
import uuid
from concurrent.futures import Future
from dataclasses import dataclass, replace

from app.history import Block, Conversation, Entry, State, TextBlock
from app.store import owner
from app.store.blocks import dump, dump_all, fold, load
from app.store.database import Database

TITLE = 48  # letters
DAY = 86_400.0
KEPT_DAYS = 30  # after a chat was deleted it can be brought back so long

LIST = "SELECT id, title, created, updated FROM conversations WHERE deleted IS NULL"
ENTRIES = (
    "SELECT id, role, state, error, owner, blocks FROM entries WHERE conversation_id = ? ORDER BY position"
)
ADD_ENTRY = """INSERT INTO entries (id, conversation_id, position, role, state, created, owner, blocks)
    VALUES (?, ?, (SELECT COALESCE(MAX(position), 0) + 1 FROM entries WHERE conversation_id = ?),
            ?, ?, ?, ?, ?)"""


@dataclass(frozen=True, slots=True)
class Begun:
    """A turn's two entries, and when they are on disk."""

    question_id: str
    answer_id: str
    written: Future[None]


class Conversations:
    """All conversations. Writes return futures: what they hold is on disk when they are done."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._me = owner.own()
        self._streaming: set[str] = set()  # entries that a turn of this process writes
        database.write(lambda connection: recover(connection, self._me)).result()

    def all(self) -> list[Conversation]:
        """Those not deleted, newest first, without their entries."""
        rows = self._database.read(
            lambda db: db.execute(f"{LIST} ORDER BY updated DESC, rowid DESC").fetchall()
        )
        return [Conversation(*row) for row in rows]

    def get(self, id: str) -> Conversation | None:
        """One with its entries; None when there is none, or it was deleted."""
        ours = frozenset(self._streaming)  # as of before the read: what ends meanwhile is no orphan
        return self._database.read(lambda connection: self._get(connection, id, ours))

    def _get(self, connection: sqlite3.Connection, id: str, ours: frozenset[str]) -> Conversation | None:
        row = connection.execute(f"{LIST} AND id = ?", (id,)).fetchone()
        if row is None:
            return None
        found = connection.execute(ENTRIES, (id,)).fetchall()
        entries = tuple(self._entry(connection, ours, *fields) for fields in found)
        return replace(Conversation(*row), entries=entries)

    def _entry(
        self,
        connection: sqlite3.Connection,
        ours: frozenset[str],
        id: str,
        role: str,
        state: State,
        error: str,
        by: str,
        blocks: str,
    ) -> Entry:
        if state == "streaming" and not (id in ours if by == self._me else owner.is_alive(by)):
            state = "interrupted"
        assert role in ("user", "assistant")
        return Entry(
            id, "user" if role == "user" else "assistant", folded(connection, id, blocks), state, error
        )

    def create(self) -> Future[Conversation]:
        """A new, empty one."""
        now = time.time()
        made = Conversation(uuid.uuid4().hex, "", now, now)

        def work(connection: sqlite3.Connection) -> Conversation:
            connection.execute(
                "INSERT INTO conversations (id, title, created, updated) VALUES (?, ?, ?, ?)",
                (made.id, made.title, made.created, made.updated),
            )
            return made

        return self._database.write(work)

    def rename(self, id: str, title: str) -> Future[None]:
        """Give it another title."""
        return self._update("UPDATE conversations SET title = ? WHERE id = ?", plain(title), id)

    def delete(self, id: str) -> Future[None]:
        """Take it away; it can be restored until it is erased, some weeks later."""
        return self._update("UPDATE conversations SET deleted = ? WHERE id = ?", time.time(), id)

    def restore(self, id: str) -> Future[None]:
        """Bring a deleted one back."""
        return self._update("UPDATE conversations SET deleted = NULL WHERE id = ?", id)

    def begin(self, conversation_id: str, question: str) -> Begun:
        """Store a question and an empty answer that is being written."""
        question_id, answer_id = uuid.uuid4().hex, uuid.uuid4().hex
        self._streaming.add(answer_id)
        blocks = dump_all([TextBlock(question)])

        def work(connection: sqlite3.Connection) -> None:
            now = time.time()
            at = (conversation_id, conversation_id)
            connection.execute(ADD_ENTRY, (question_id, *at, "user", "complete", now, "", blocks))
            connection.execute(ADD_ENTRY, (answer_id, *at, "assistant", "streaming", now, self._me, "[]"))
            connection.execute("UPDATE conversations SET updated = ? WHERE id = ?", (now, conversation_id))
            connection.execute(
                "UPDATE conversations SET title = ? WHERE id = ? AND title = ''",
                (title_of(question), conversation_id),
            )

        return Begun(question_id, answer_id, self._database.write(work))

    def append(self, entry_id: str, block: Block) -> Future[None]:
        """Add to an entry: a piece of text joins the text before it, a tool's result its call."""
        return self._update("INSERT INTO deltas (entry_id, block) VALUES (?, ?)", entry_id, dump(block))

    def finish(self, entry_id: str, state: State, error: str = "") -> Future[None]:
        """Say how an answer ended, and keep it as one row."""
        written = self._database.write(lambda connection: close_entry(connection, entry_id, state, error))
        written.add_done_callback(lambda _: self._streaming.discard(entry_id))  # ours until it is on disk
        return written

    def settle(self, entry_id: str) -> Future[None]:
        """Keep an entry that gained something later, such as a question's screen text, as one row."""
        return self._database.write(lambda connection: close_entry(connection, entry_id, "complete", ""))

    def _update(self, statement: str, *values: object) -> Future[None]:
        def work(connection: sqlite3.Connection) -> None:
            connection.execute(statement, values)

        return self._database.write(work)


def folded(connection: sqlite3.Connection, entry_id: str, blocks: str) -> tuple[Block, ...]:
    """The blocks of an entry, with what it gained since they were written."""
    rows = connection.execute("SELECT block FROM deltas WHERE entry_id = ? ORDER BY number", (entry_id,))
    return fold(load(value) for value in [*json.loads(blocks), *(json.loads(row[0]) for row in rows)])


def close_entry(connection: sqlite3.Connection, entry_id: str, state: State, error: str) -> None:
    """Fold an entry into its own row."""
    row = connection.execute("SELECT blocks FROM entries WHERE id = ?", (entry_id,)).fetchone()
    if row is None:
        return
    blocks = dump_all(folded(connection, entry_id, row[0]))
    connection.execute(
        "UPDATE entries SET blocks = ?, state = ?, error = ?, owner = '' WHERE id = ?",
        (blocks, state, error, entry_id),
    )
    connection.execute("DELETE FROM deltas WHERE entry_id = ?", (entry_id,))


def recover(connection: sqlite3.Connection, me: str) -> None:
    """Close what processes that died were writing; erase what was deleted long ago or never used."""
    streaming = connection.execute("SELECT id, owner FROM entries WHERE state = 'streaming'").fetchall()
    for entry_id, by in streaming:
        if by != me and not owner.is_alive(by):
            close_entry(connection, entry_id, "interrupted", "")
    now = time.time()
    connection.execute("DELETE FROM conversations WHERE deleted < ?", (now - KEPT_DAYS * DAY,))
    connection.execute(
        "DELETE FROM conversations WHERE updated < ? AND title = '' "
        "AND NOT EXISTS (SELECT 1 FROM entries WHERE conversation_id = conversations.id)",
        (now - DAY,),
    )


def plain(title: str) -> str:
    """One line without control characters."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in title).split())


def title_of(question: str) -> str:
    """The first words of a question."""
    text = plain(question[: TITLE * 20])
    if len(text) <= TITLE:
        return text
    cut = text[: TITLE + 1].rsplit(" ", 1)[0] if " " in text[: TITLE + 1] else text[:TITLE]
    return f"{cut.rstrip('.,;:')}…"
