"""Chatting in the window as a person does, over the real app with a scripted model."""

import asyncio

from fakes import Pause, Scripted, call, say
from PySide6.QtCore import Qt
from PySide6.QtGui import QAccessible
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QComboBox, QLineEdit, QMessageBox, QPlainTextEdit, QTextEdit

from engine import EngineError, Text

CTRL = Qt.KeyboardModifier.ControlModifier


def test_a_question_and_its_answer(sit):
    desk = sit(say("Hello there, friend."))
    assert desk.window.windowTitle() == "New chat — Sidelight"
    desk.ask("Say hello.")
    assert desk.shown() == [("user", "Say hello."), ("assistant", "Hello there, friend.")]
    assert desk.titles() == ["Say hello."]
    assert desk.window.windowTitle() == "Say hello. — Sidelight"
    assert desk.pane.composer.text() == ""


def test_stop_keeps_what_was_written(sit):
    never = asyncio.Event()
    desk = sit([Text("Half an "), Text("answer"), Pause(never)])
    desk.send("Talk.")
    desk.until(lambda: ("assistant", "Half an answer") in desk.shown())
    desk.key(Qt.Key.Key_Escape)
    desk.until(lambda: not desk.window.turns.running())
    assert desk.shown()[-1] == ("assistant", "Half an answer")
    assert desk.services.assistant.conversation(desk.pane.current).entries[-1].state == "stopped"
    desk.ask("And now?")
    assert desk.shown()[-1] == ("assistant", "Done.")


def test_the_second_start_shows_the_last_chat_and_its_draft(sit):
    desk = sit(say("One."))
    desk.ask("First chat")
    desk.pane.composer.set_text("not sent yet")
    again = sit()
    assert again.window.windowTitle() == "First chat — Sidelight"
    assert again.shown()[-1] == ("assistant", "One.")
    assert again.pane.composer.text() == "not sent yet"


def test_each_chat_has_its_own_draft(sit):
    desk = sit(say("One."), say("Two."))
    desk.ask("First")
    first = desk.pane.current
    desk.pane.composer.set_text("for the first")
    desk.key(Qt.Key.Key_N, CTRL)
    assert desk.pane.current == "" and desk.pane.composer.text() == ""
    desk.ask("Second")
    desk.pane.composer.set_text("for the second")
    desk.window.open(first)
    assert desk.pane.composer.text() == "for the first"
    desk.key(Qt.Key.Key_N, CTRL)
    assert desk.pane.composer.text() == ""


def test_an_answer_goes_on_while_another_chat_is_shown(sit):
    go = asyncio.Event()
    desk = sit([Text("Begun, "), Pause(go), *say("ended.")])
    desk.send("Long one")
    first = desk.pane.current
    desk.until(lambda: ("assistant", "Begun, ") in desk.shown())
    desk.do(lambda: desk.window.open(""))
    assert desk.window.list.list.item(0).data(Qt.ItemDataRole.UserRole + 2) == "Writing…"
    desk.do(lambda: desk.window.open(first))
    go.set()
    desk.until(lambda: not desk.window.turns.running())
    assert desk.shown()[-1] == ("assistant", "Begun, ended.")
    answers = [slot.entry.text for slot in desk.pane.transcript._column.slots]
    assert answers == ["Long one", "Begun, ended."]  # nothing twice, nothing missing


def test_what_cannot_be_sent_returns(sit):
    desk = sit()
    desk.ask("x")
    desk.services.assistant._store.delete(desk.pane.current).result()  # gone behind the window's back
    desk.send("a long thought")
    desk.until(lambda: desk.pane.notice.isVisible())
    assert desk.pane.composer.text() == "a long thought"
    assert "not there any more" in desk.pane.notice.text.text()


def test_rename_delete_undo_and_search(sit):
    desk = sit()
    for title in ("Apples and pears", "Bread"):
        desk.do(lambda: desk.window.open(""))
        desk.ask(title)
    assert desk.titles() == ["Bread", "Apples and pears"]
    rows = desk.window.list
    rows.list.setFocus()
    desk.key(Qt.Key.Key_F2)
    editor = rows.list.findChild(QLineEdit)
    editor.selectAll()
    QTest.keyClicks(editor, "Baking")
    desk.do(lambda: QTest.keyClick(editor, Qt.Key.Key_Return))
    desk.until(lambda: desk.window.windowTitle().startswith("Baking"))
    gone = desk.pane.current
    desk.do(rows.delete_current)
    assert desk.titles() == ["Apples and pears"] and desk.pane.current == ""
    assert rows.undo_bar.isVisible() and "Baking" in rows.undo_text.text()
    desk.do(rows._undo)
    assert desk.titles() == ["Baking", "Apples and pears"] and desk.pane.current == gone
    rows.search.setText("PEAR")
    assert [rows.list.item(row).isHidden() for row in range(2)] == [True, False]
    rows.search.setText("nothing like it")
    assert rows.none_found.isVisible()


def test_a_model_that_cannot_load_is_explained_and_tried_again(sit):
    backend = Scripted()
    backend.failure = EngineError("The file is cut off.")
    desk = sit(backend=backend)
    card = desk.pane.model_card
    assert card.isVisible() and "The file is cut off." in card.sentence.text() and card.retry.isVisible()
    desk.send("Sent all the same")
    desk.until(lambda: not desk.window.turns.running())
    assert desk.shown()[0] == ("user", "Sent all the same")
    backend.failure = None
    desk.do(card.retry.click)
    desk.until(lambda: desk.window.loader.state == "ready")
    assert not card.isVisible()


def test_a_question_sent_while_the_model_loads_waits_for_it(sit):
    class Slow(Scripted):
        loaded = asyncio.Event()

        async def load(self, say=lambda _: None):
            say("Preparing, once: about a minute…")
            await self.loaded.wait()
            return await super().load()

    backend = Slow(say("At last."))
    backend.loaded.set()
    desk = sit(backend=backend)
    backend.loaded.clear()
    desk.do(desk.window.loader.start)
    card = desk.pane.model_card
    assert card.isVisible() and "Loading" in card.title.text() and not card.retry.isVisible()
    assert card.sentence.isVisible() and "about a minute" in card.sentence.text()
    desk.send("Are you there?")
    desk.until(lambda: ("user", "Are you there?") in desk.shown())
    desk.wait(0.1)
    assert desk.window.turns.running()
    backend.loaded.set()
    desk.until(lambda: not desk.window.turns.running())
    assert desk.shown()[-1] == ("assistant", "At last.")


def test_a_command_is_asked_for_denied_allowed_and_logged(sit):
    run = {"argv": ["echo", "hi"], "timeout": 10}
    desk = sit(call("shell.run", run), say("As you wish."), call("shell.run", run), say("It ran."))
    desk.send("Run it")
    desk.until(lambda: desk.card.isVisible())
    assert "echo hi" in desk.card.detail.toPlainText()
    assert desk.pane.composer.field.hasFocus()
    desk.do(desk.card.deny.click)
    desk.until(lambda: not desk.window.turns.running())
    desk.send("Run it after all")
    desk.until(lambda: desk.card.once.isEnabled())
    desk.do(desk.card.once.click)
    desk.until(lambda: not desk.window.turns.running(), seconds=20)
    told = [message.text for message in desk.backend.requests[-1].messages if message.role == "tool"]
    assert "hi" in told[-1]
    decided = [entry.event for entry in desk.services.audit.entries()]
    assert "denied" in decided and "allowed" in decided
    desk.do(lambda: desk.window._open_panel("Log"))
    log = desk.window.panel.pages["Log"]
    desk.until(lambda: log.entries.count() == len(decided))


def test_stopping_takes_the_question_away(sit):
    desk = sit(call("shell.run", {"argv": ["echo", "hi"], "timeout": 10}))
    desk.send("Run it")
    desk.until(lambda: desk.card.isVisible())
    desk.do(desk.window.pane.stop)
    desk.until(lambda: not desk.window.turns.running())
    desk.wait(0.05)
    assert not desk.pane.drawer.isVisible()
    assert "allowed" not in [entry.event for entry in desk.services.audit.entries()]


def test_closing_while_an_answer_is_written_asks_first(sit):
    never = asyncio.Event()
    desk = sit([Text("So"), Pause(never)])
    quits = []
    desk.window.quit_wanted.connect(lambda: quits.append(1))
    desk.send("Talk")
    desk.until(lambda: desk.window.turns.running())
    desk.do(desk.window.close)
    assert desk.window.isVisible() and not quits
    box = desk.window.findChild(QMessageBox)
    goes_on = next(button for button in box.buttons() if button.text() == "Go on")
    desk.do(goes_on.click)
    desk.do(desk.pane.stop)
    desk.until(lambda: not desk.window.turns.running())
    desk.do(desk.window.close)
    assert quits == [1]


def test_the_three_cards_begin_something(sit):
    desk = sit()
    desk.do(desk.pane.start.cards[2].click)
    assert desk.pane.composer.text() == "What is on my screen?" and desk.pane.composer.look.isChecked()
    desk.key(Qt.Key.Key_Return)
    desk.until(lambda: not desk.window.turns.running())
    assert not desk.pane.composer.look.isChecked()  # one look is one look


def test_keys_show_and_hide_the_sides(sit):
    desk = sit()
    desk.pane.composer.focus()
    for key, part in ((Qt.Key.Key_B, desk.window.list), (Qt.Key.Key_J, desk.window.panel)):
        before = part.isVisible()
        desk.key(key, CTRL)
        assert part.isVisible() is not before
        desk.key(key, CTRL)
        assert part.isVisible() is before


def test_every_control_has_a_name_for_a_screen_reader(sit):
    desk = sit(call("shell.run", {"argv": ["echo", "hi"], "timeout": 10}))
    desk.send("Run it")
    desk.until(lambda: desk.card.isVisible())
    nameless = []
    for kind in (QAbstractButton, QLineEdit, QComboBox, QPlainTextEdit, QTextEdit):
        for control in desk.window.findChildren(kind):
            name = QAccessible.queryAccessibleInterface(control).text(QAccessible.Text.Name)
            if not name and not control.objectName().startswith("qt_") and control.isVisibleTo(desk.window):
                nameless.append(f"{type(control).__name__} in {type(control.parent()).__name__}")
    assert nameless == []


def test_tab_reaches_the_composer_and_comes_back(sit):
    desk = sit(say("One."))
    desk.ask("Hello")
    desk.pane.composer.focus()
    seen = []
    for _ in range(60):
        focus = desk.window.focusWidget()
        if focus in seen:
            break
        seen.append(focus)
        desk.key(Qt.Key.Key_Tab)
    assert desk.window.focusWidget() is seen[0]
    assert {
        desk.pane.composer.field,
        desk.window.list.list,
        desk.window.list.new,
        desk.window.header.more,
    } <= set(seen)
