"""Conversations: stored, read back, deleted, and recovered after a crash."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as some

from app.errors import UserError
from app.history import NoticeBlock, ReasoningBlock, ScreenBlock, TextBlock, ToolBlock
from app.store import owner
from app.store.blocks import dump, fold, load
from app.store.conversations import DAY, Conversations, title_of
from app.store.database import Database


@pytest.fixture
def database(tmp_path):
    database = Database(tmp_path / "conversations.db")
    yield database
    database.close()


@pytest.fixture
def store(database):
    return Conversations(database)


def ask(store, text="Hello there", chat=None):
    chat = chat or store.create().result().id
    begun = store.begin(chat, text)
    begun.written.result()
    return chat, begun.question_id, begun.answer_id


def test_a_turn_is_stored_as_it_grows(store, database):
    chat, question, answer = ask(store)
    for piece in ("One", " two", " three"):
        store.append(answer, TextBlock(piece)).result()
    entries = store.get(chat).entries
    assert [(entry.id, entry.role, entry.state) for entry in entries] == [
        (question, "user", "complete"),
        (answer, "assistant", "streaming"),
    ]
    assert entries[1].blocks == (TextBlock("One two three"),)
    store.finish(answer, "complete").result()
    assert store.get(chat).entries[1].blocks == (TextBlock("One two three"),)
    assert store.get(chat).entries[1].state == "complete"
    assert database.read(lambda db: db.execute("SELECT COUNT(*) FROM deltas").fetchone()) == (0,)


def test_how_it_ended_is_kept(store):
    chat, _, answer = ask(store)
    store.finish(answer, "failed", "The model is missing.").result()
    assert store.get(chat).entries[1].state == "failed"
    assert store.get(chat).entries[1].error == "The model is missing."


def test_screen_text_joins_the_question(store):
    chat, question, _ = ask(store)
    store.append(question, ScreenBlock("Inbox", "Screen 1, 800x600", 1)).result()
    store.settle(question).result()
    assert store.get(chat).entries[0].blocks == (
        TextBlock("Hello there"),
        ScreenBlock("Inbox", "Screen 1, 800x600", 1),
    )


def test_the_list_is_newest_first_without_deleted_ones(store):
    first, second = (store.create().result().id for _ in range(2))
    ask(store, chat=first)
    assert [chat.id for chat in store.all()] == [first, second]
    store.delete(first).result()
    assert [chat.id for chat in store.all()] == [second]
    assert store.get(first) is None
    store.restore(first).result()
    assert len(store.get(first).entries) == 2
    store.rename(second, "  My\nchat \x1b[2J ").result()
    assert {chat.title for chat in store.all()} == {"Hello there", "My chat [2J"}


def test_the_first_question_names_the_chat_the_second_does_not(store):
    chat, *_ = ask(store, "What is   the weather\nlike today?")
    ask(store, "And tomorrow?", chat)
    assert store.get(chat).title == "What is the weather like today?"


@pytest.mark.parametrize(
    ("question", "title"),
    [
        ("a" * 100, "a" * 48 + "…"),
        ("word " * 30, "word word word word word word word word word…"),
        ("short", "short"),
        ("\u202e\x00 \n", ""),
        ("\ud800 lone", "lone"),
        ("漢" * 60, "漢" * 48 + "…"),
    ],
)
def test_titles(question, title):
    assert title_of(question) == title


def test_a_question_for_a_chat_that_is_gone_is_refused(store):
    with pytest.raises(Exception, match="FOREIGN KEY"):
        store.begin("nowhere", "Hello").written.result()


PIECES = some.lists(
    some.one_of(
        some.builds(TextBlock, some.text()),
        some.builds(ReasoningBlock, some.text()),
        some.builds(NoticeBlock, some.text()),
    )
)


@given(PIECES)
def test_folding_loses_no_text_and_is_done_once(pieces):
    once = fold(pieces)
    assert fold(once) == once
    for kind in (TextBlock, ReasoningBlock, NoticeBlock):
        assert "".join(b.text for b in once if type(b) is kind) == "".join(
            b.text for b in pieces if type(b) is kind
        )


def test_a_result_finds_its_call_even_when_ids_repeat():
    call = ToolBlock("1", "files.read", {"path": "a"})
    done = ToolBlock("1", "files.read", {}, "text", True)
    again = ToolBlock("1", "files.read", {"path": "b"})
    denied = ToolBlock("1", "files.read", {}, "No.", False, "rule")
    assert fold([call, done, TextBlock("x"), again, denied]) == (
        ToolBlock("1", "files.read", {"path": "a"}, "text", True),
        TextBlock("x"),
        ToolBlock("1", "files.read", {"path": "b"}, "No.", False, "rule"),
    )


def test_calls_stored_before_it_was_kept_who_denied_them_are_still_read(store, database):
    chat, _, answer = ask(store)
    old = '{"kind": "tool", "call_id": "1", "tool": "t", "arguments": {}, "result": "No.", "ok": false}'
    database.write(
        lambda db: db.execute("UPDATE entries SET blocks = ? WHERE id = ?", (f"[{old}]", answer))
    ).result()
    store.append(answer, TextBlock("Then.")).result()
    store.finish(answer, "complete").result()
    assert store.get(chat).entries[1].blocks == (ToolBlock("1", "t", {}, "No.", False), TextBlock("Then."))


@pytest.mark.parametrize(
    "block",
    [
        TextBlock("\ud800 \x00 🙂"),
        ReasoningBlock("hm"),
        ScreenBlock("a", "b", 1),
        ToolBlock("1", "t", {"a": [1, None]}, "r", True),
        ToolBlock("1", "t", {}, "The user said no.", False, "person"),
        NoticeBlock("n"),
    ],
)
def test_blocks_come_back(store, block):
    chat, _, answer = ask(store)
    store.append(answer, block).result()
    assert store.get(chat).entries[1].blocks == (block,)
    assert "\ud800" not in dump(block)
    assert load({"kind": "text", "text": "a"}) == TextBlock("a")


def test_what_no_turn_owns_reads_as_interrupted(store, database):
    chat, _, answer = ask(store)
    store._streaming.clear()
    assert store.get(chat).entries[1].state == "interrupted"
    database.write(
        lambda db: db.execute("UPDATE entries SET owner = '1:0.0' WHERE id = ?", (answer,))
    ).result()
    assert store.get(chat).entries[1].state == "interrupted"
    database.write(
        lambda db: db.execute("UPDATE entries SET owner = ? WHERE id = ?", (parent(), answer))
    ).result()
    assert store.get(chat).entries[1].state == "streaming"
    Conversations(database)
    assert store.get(chat).entries[1].state == "streaming"


def test_an_answer_is_ours_until_its_end_is_on_disk(store, database, monkeypatch):
    chat, _, answer = ask(store)
    seen = []

    def write(work):
        def watched(connection):
            result = work(connection)
            seen.append(store.get(chat).entries[1].state)  # done, not yet committed
            return result

        return plain_write(watched)

    plain_write = database.write
    monkeypatch.setattr(database, "write", write)
    store.finish(answer, "complete").result()
    assert seen == ["streaming"]
    assert store.get(chat).entries[1].state == "complete"


def test_an_answer_that_ends_while_it_is_read_does_not_read_as_interrupted(store, database, monkeypatch):
    chat, _, answer = ask(store)

    def read(work):
        def late(connection):
            connection.execute("SELECT * FROM entries").fetchall()  # this state of the file is what it sees
            store.finish(answer, "complete").result()
            return work(connection)

        return plain_read(late)

    plain_read = database.read
    monkeypatch.setattr(database, "read", read)
    assert store.get(chat).entries[1].state == "streaming"
    monkeypatch.undo()
    assert store.get(chat).entries[1].state == "complete"


def test_an_answer_whose_end_could_not_be_stored_is_no_turns_any_more(store, database):
    chat, _, answer = ask(store)
    refuse = (
        "CREATE TEMP TRIGGER t BEFORE UPDATE ON entries BEGIN SELECT RAISE(ABORT, 'the disk is full'); END"
    )
    database.write(lambda db: db.execute(refuse)).result()
    with pytest.raises(UserError, match="the disk is full"):
        store.finish(answer, "complete").result()
    store.create().result()  # the writer has gone on
    assert store.get(chat).entries[1].state == "interrupted"


def parent():
    import psutil

    return f"{os.getppid()}:{psutil.Process(os.getppid()).create_time():.2f}"


def test_owners():
    assert owner.is_alive(owner.own())
    assert owner.is_alive(parent())
    number, _, started = owner.own().partition(":")
    assert not owner.is_alive(f"{number}:{float(started) - 60}")
    assert not owner.is_alive("") and not owner.is_alive("x:y") and not owner.is_alive("99999999:1")


def test_a_zombie_is_not_alive():
    process = subprocess.Popen([sys.executable, "-c", ""])
    import psutil

    by = f"{process.pid}:{psutil.Process(process.pid).create_time():.2f}"
    deadline = time.time() + 10
    while owner.is_alive(by) and time.time() < deadline:
        time.sleep(0.02)
    assert not owner.is_alive(by)
    process.wait()


def test_old_deleted_and_never_used_chats_are_erased_at_the_start(store, database):
    old, kept, used = (store.create().result().id for _ in range(3))
    ask(store, chat=used)
    store.delete(used).result()

    def age(db):
        db.execute("UPDATE conversations SET updated = ? WHERE id = ?", (time.time() - 2 * DAY, old))
        db.execute("UPDATE conversations SET deleted = ? WHERE id = ?", (time.time() - 31 * DAY, used))

    database.write(age).result()
    again = Conversations(database)
    again.restore(used).result()
    assert [chat.id for chat in again.all()] == [kept]
    assert database.read(lambda db: db.execute("SELECT COUNT(*) FROM entries").fetchone()) == (0,)


STREAM = """
import sys
from pathlib import Path
from app.history import TextBlock
from app.store.conversations import Conversations
from app.store.database import Database
store = Conversations(Database(Path(sys.argv[1])))
chat = store.create().result().id
begun = store.begin(chat, "Count")
begun.written.result()
answer = begun.answer_id
for number in range(1_000_000):
    store.append(answer, TextBlock(f"{number} ")).result()
    sys.stdout.write(f"{number} ")
    sys.stdout.flush()
"""


def test_after_kill_9_everything_shown_is_there(tmp_path):
    """Twelve real processes, killed at moments of chance, one after another on the same file."""
    path, shown = tmp_path / "conversations.db", []
    for _ in range(12):
        process = subprocess.Popen(
            [sys.executable, "-c", STREAM, str(path)], stdout=subprocess.PIPE, text=True
        )
        start = process.stdout.read(2)
        time.sleep(random.uniform(0, 0.15))
        process.send_signal(signal.SIGKILL)
        shown.append(start + process.communicate()[0])
    database = Database(path)
    store = Conversations(database)
    answers = [store.get(chat.id).entries[1] for chat in reversed(store.all())]
    assert not database.notices
    assert [answer.state for answer in answers] == ["interrupted"] * 12
    for answer, text in zip(answers, shown, strict=True):
        assert len(text) > 1
        assert answer.text.startswith(text)
        assert len(answer.text) - len(text) < 20  # one token at most was stored and not yet shown
    database.close()
    assert sqlite3.connect(path).execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_two_processes_share_a_file_and_see_each_other_alive(tmp_path):
    path = tmp_path / "conversations.db"
    process = subprocess.Popen([sys.executable, "-c", STREAM, str(path)], stdout=subprocess.PIPE, text=True)
    process.stdout.read(2)
    database = Database(path)
    store = Conversations(database)
    [theirs] = store.all()
    mine, _, answer = ask(store)
    for _ in range(50):
        store.append(answer, TextBlock("x")).result()
    assert store.get(theirs.id).entries[1].state == "streaming"
    process.kill()
    process.communicate()
    assert store.get(theirs.id).entries[1].state == "interrupted"
    assert store.get(mine).entries[1].text == "x" * 50
    database.close()
