"""The card cannot be answered by accident, and shows the whole truth."""

import asyncio

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QPlainTextEdit, QVBoxLayout, QWidget

from app.events import PermissionAsked
from app.permissions.action import Action, Ask, Offer, Risk, Scope
from ui.dialogs.drawer import PermissionDrawer

OFFER = Offer(Scope.CHAT, "any `ls` & co under ~/work, this chat")


def ask(detail="rm -r build", offers=(OFFER,), id="1", **more) -> Ask:
    action = Action("shell.run", "{}", "Run a command?", detail, ("Network: no",), Risk.HIGH, "{}")
    return Ask(id, action, "The model asked.", offers, **more)


class Stand:
    """A window with a text field and the drawer, as in the app."""

    def __init__(self, qtbot, loop):
        self.loop = loop
        self.window = QWidget()
        qtbot.addWidget(self.window)
        self.field = QPlainTextEdit(tabChangesFocus=True)
        self.drawer = PermissionDrawer()
        layout = QVBoxLayout(self.window)
        layout.addWidget(self.drawer)
        layout.addWidget(self.field)
        self.window.resize(700, 700)
        self.window.show()
        self.window.activateWindow()
        self.field.setFocus()
        self.wait(0.05)

    def wait(self, seconds):
        self.loop.run_until_complete(asyncio.sleep(seconds))

    def add(self, question=None):
        future = self.loop.create_future()
        self.drawer.add(PermissionAsked(question or ask(), future))
        return future

    @property
    def card(self):
        return self.drawer.card

    def ready(self):
        self.wait(0.75)
        assert self.card.once.isEnabled()


@pytest.fixture
def stand(qtbot, loop):
    return Stand(qtbot, loop)


def click(button):
    QTest.mouseClick(button, Qt.MouseButton.LeftButton)


def test_allow_sleeps_at_first_and_wakes_later(stand):
    future = stand.add()
    stand.wait(0.3)
    assert stand.card.isVisible() and not stand.card.once.isEnabled() and not stand.card.more.isEnabled()
    click(stand.card.once)
    stand.wait(0.05)
    assert not future.done()
    stand.ready()
    click(stand.card.once)
    stand.wait(0.05)
    assert future.result().allow and future.result().scope is Scope.ONCE
    assert not stand.drawer.isVisible()


@pytest.mark.parametrize("change", ["resize", "move", "hide", "deactivate", "press"])
def test_a_change_starts_the_wait_again(stand, change):
    future = stand.add()
    stand.ready()
    if change == "resize":
        stand.window.resize(740, 700)
    elif change == "move":
        stand.window.move(stand.window.pos() + QPoint(30, 0))
    elif change == "hide":
        stand.window.hide()
        stand.window.show()
    elif change == "deactivate":
        other = QWidget()
        other.show()
        other.activateWindow()
        stand.wait(0.05)
        other.close()
        stand.window.activateWindow()
    else:
        stand.card.guard.upset()
    stand.wait(0.05)
    assert not stand.card.once.isEnabled()
    click(stand.card.once)
    assert not future.done()
    stand.ready()


@pytest.mark.parametrize("part", ["headline", "once", "more"])
def test_clicks_during_the_wait_prolong_it(stand, part):
    """On the button that does not work yet most of all: that is where somebody in a hurry clicks."""
    future = stand.add()
    for _ in range(4):
        stand.wait(0.4)
        widget = getattr(stand.card, part)
        place = widget.mapTo(stand.window, widget.rect().center())
        QTest.mouseClick(
            stand.window.windowHandle(), Qt.MouseButton.LeftButton, pos=place
        )  # as X delivers it
        stand.wait(0.02)
        assert not stand.card.once.isEnabled() and not future.done()
    stand.ready()


def test_typing_elsewhere_goes_on_and_answers_nothing(stand):
    future = stand.add()
    stand.ready()
    for text in "please refactor a y n ":
        QTest.keyClicks(stand.window.focusWidget(), text)
    for key in (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Escape, Qt.Key.Key_Space):
        QTest.keyClick(stand.window.focusWidget(), key)
    QTest.keyClick(stand.window.focusWidget(), Qt.Key.Key_A, Qt.KeyboardModifier.AltModifier)
    stand.wait(0.05)
    assert stand.field.hasFocus() and stand.field.toPlainText().startswith("please refactor a y n ")
    assert not future.done()


def test_keyboard_alone_can_allow_but_enter_cannot(stand):
    future = stand.add()
    stand.ready()
    stand.card.detail.setFocus(Qt.FocusReason.TabFocusReason)
    for _ in range(3):
        QTest.keyClick(stand.window.focusWidget(), Qt.Key.Key_Tab)
    assert stand.card.once.hasFocus()
    QTest.keyClick(stand.card.once, Qt.Key.Key_Return)
    stand.wait(0.05)
    assert not future.done()
    QTest.keyClick(stand.card.once, Qt.Key.Key_Space)
    stand.wait(0.05)
    assert future.result().allow


@pytest.mark.parametrize("part", ["detail", "deny", "note"])
@pytest.mark.parametrize("key", [Qt.Key.Key_Escape, Qt.Key.Key_Return, Qt.Key.Key_Enter])
def test_escape_and_enter_on_the_card_deny(stand, part, key):
    future = stand.add()
    getattr(stand.card, part).setFocus()
    QTest.keyClick(getattr(stand.card, part), key)
    stand.wait(0.05)
    assert not future.result().allow


def test_deny_works_at_once_and_takes_a_reason(stand):
    future = stand.add()
    stand.card.note.setText("  not that folder ")
    click(stand.card.deny)
    stand.wait(0.05)
    assert not future.result().allow and future.result().note == "not that folder"


def test_an_offer_says_its_rule_in_words_and_grants_its_scope(stand):
    future = stand.add()
    stand.ready()
    action = stand.card.menu.actions()[0]
    assert action.text() == "any `ls` && co under ~/work, this chat"
    click(stand.card.more)
    action.trigger()  # the second half of a double click
    stand.wait(0.05)
    assert not future.done()
    stand.wait(0.45)
    action.trigger()
    stand.wait(0.05)
    assert future.result().scope is Scope.CHAT
    stand.card.menu.close()


def test_what_is_hidden_is_shown(stand):
    stand.add(ask("open inv\u202egpj.exe <b>safe</b>\tx", chat="a\u200bb"))
    shown = stand.card.detail.toPlainText()
    assert "\u202e" not in shown and "U+202E" in shown and "<b>safe</b>" in shown
    assert "\u200b" not in stand.card.chat.text()


def test_a_long_text_is_whole_but_may_be_allowed_once_only(stand):
    text = "\n".join(f"line {number} of a very long command" for number in range(400))
    assert len(text) > 10_000
    future = stand.add(ask(text))
    stand.wait(0.75)
    assert stand.card.banner.isVisible() and not stand.card.more.isVisible()
    assert f"{len(text):,} characters" in stand.card.length.text()
    assert "line 399 of" in stand.card.detail.toPlainText()
    assert not stand.card.once.isEnabled()  # its end has not been seen
    click(stand.card.once)
    assert not future.done()
    bar = stand.card.detail.verticalScrollBar()
    bar.setValue(bar.maximum())
    assert stand.card.once.isEnabled()


def test_a_call_that_is_gone_takes_its_card_along(stand):
    future = stand.add()
    stand.ready()
    future.cancel()
    stand.wait(0.05)
    assert not stand.drawer.isVisible() and len(stand.drawer) == 0
    click(stand.card.once)  # a late click does nothing


def test_one_at_a_time_with_a_count(stand):
    first, second, third = (stand.add(ask(f"echo {number}", id=str(number))) for number in range(3))
    stand.ready()
    assert stand.card.detail.toPlainText() == "echo 0" and "2 more" in stand.card.count.text()
    second.cancel()
    stand.wait(0.02)
    assert "1 more" in stand.card.count.text()
    click(stand.card.once)
    stand.wait(0.05)
    assert first.result().allow
    assert stand.card.detail.toPlainText() == "echo 2"
    assert not stand.card.once.isEnabled()  # another question: another wait
    click(stand.card.deny)
    stand.wait(0.05)
    assert not third.result().allow and not stand.drawer.isVisible()


def test_the_models_word_comes_last_and_unverified(stand):
    stand.add(ask(said="I only list files.", tainted=True))
    assert stand.card.said.text() == "The assistant says (not verified): I only list files."
    below = [
        w for w in (stand.card.headline, stand.card.detail, stand.card.risk, stand.card.why) if w.isVisible()
    ]
    assert all(widget.y() < stand.card.said.y() for widget in below)
    assert stand.card.why.property("role") == "warning"
