from time import perf_counter

import pytest
from PySide6.QtCore import QMimeData, QPoint, Qt
from PySide6.QtGui import QImage, QInputMethodEvent
from PySide6.QtWidgets import QApplication

from ui.chat.composer import Composer, PasteChip
from ui.chat.field import MOST_LINES

ENTER = Qt.Key.Key_Return
SHIFT = Qt.KeyboardModifier.ShiftModifier


@pytest.fixture
def composer(qtbot):
    made = Composer()
    qtbot.addWidget(made)
    made.resize(600, 120)
    made.show()
    qtbot.waitExposed(made)
    made.focus()
    made.sent = []
    made.submitted.connect(lambda *sent: made.sent.append(sent))
    return made


def paste(composer, text):
    data = QMimeData()
    data.setText(text)
    data.setHtml(f"<b>{text[:20]}</b>")
    composer.field.insertFromMimeData(data)


def test_enter_sends_and_shift_enter_makes_a_line(composer, qtbot):
    qtbot.keyClicks(composer.field, "one")
    qtbot.keyClick(composer.field, ENTER, SHIFT)
    qtbot.keyClicks(composer.field, "two")
    composer.set_look(True)
    qtbot.keyClick(composer.field, ENTER)
    assert composer.sent == [("one\ntwo", True)]
    assert composer.text() == ""


def test_nothing_is_sent_without_words(composer, qtbot):
    qtbot.keyClicks(composer.field, "   ")
    qtbot.keyClick(composer.field, ENTER)
    assert composer.sent == []


def test_enter_only_accepts_a_word_while_an_input_method_composes(composer, qtbot):
    composer.set_text("さ")
    QApplication.sendEvent(composer.field, QInputMethodEvent("かな", []))
    qtbot.keyClick(composer.field, ENTER)
    assert composer.sent == []
    done = QInputMethodEvent()
    done.setCommitString("かな")
    QApplication.sendEvent(composer.field, done)
    qtbot.keyClick(composer.field, ENTER)
    assert composer.sent == [("さかな", False)]


def test_while_busy_the_button_and_escape_stop_and_typing_goes_on(composer, qtbot):
    composer.set_busy(True)
    stops = []
    composer.stopped.connect(lambda: stops.append(1))
    qtbot.keyClicks(composer.field, "next")
    qtbot.keyClick(composer.field, ENTER)
    assert composer.sent == []
    assert composer.text() == "next"
    assert composer.send.accessibleName() == "Stop"
    qtbot.mouseClick(composer.send, Qt.MouseButton.LeftButton)
    qtbot.keyClick(composer.field, Qt.Key.Key_Escape)
    assert len(stops) == 2
    composer.set_busy(False)
    assert composer.send.accessibleName() == "Send"


def test_what_was_sent_before_the_model_is_ready_goes_out_then(composer, qtbot):
    composer.set_ready(False, "The model is loading")
    qtbot.keyClicks(composer.field, "hello")
    qtbot.keyClick(composer.field, ENTER)
    assert composer.sent == []
    assert composer.text() == "hello"
    composer.set_ready(True)
    assert composer.sent == [("hello", False)]


def test_a_waiting_message_can_be_taken_back(composer, qtbot):
    composer.set_ready(False, "The model is loading")
    qtbot.keyClicks(composer.field, "hello")
    qtbot.keyClick(composer.field, ENTER)
    qtbot.keyClick(composer.field, Qt.Key.Key_Escape)
    composer.set_ready(True)
    assert composer.sent == []
    assert composer.text() == "hello"


def test_restored_text_never_replaces_what_was_written_since(composer, qtbot):
    qtbot.keyClicks(composer.field, "newer")
    composer.restore("older")
    assert composer.text() == "older\n\nnewer"


def test_only_plain_text_is_pasted(composer):
    paste(composer, "a\r\nb")
    assert composer.text() == "a\nb"
    picture = QMimeData()
    picture.setImageData(QImage(2, 2, QImage.Format.Format_RGB32))
    assert not composer.field.canInsertFromMimeData(picture)


def test_half_a_million_characters_are_kept_beside_the_field_and_sent_whole(composer, qtbot):
    text = "x" * 500_000
    qtbot.keyClicks(composer.field, "Read this:")
    started = perf_counter()
    paste(composer, text)
    QApplication.processEvents()
    assert perf_counter() - started < 0.3
    assert composer.text() == "Read this:\n\n" + text
    qtbot.keyClick(composer.field, ENTER)
    assert composer.sent == [("Read this:\n\n" + text, False)]
    assert composer.text() == ""
    composer.restore(text)
    assert composer.text() == text
    composer.findChildren(PasteChip)[-1].removed.emit(composer._pastes[0])
    assert composer.text() == ""


def test_the_field_grows_with_its_text_up_to_a_limit(composer, qtbot):
    heights = []
    for lines in (1, 3, MOST_LINES, 40):
        composer.set_text("\n".join(["line"] * lines))
        qtbot.wait(30)  # it grows a moment after its text
        heights.append(composer.field.height())
    assert heights[0] < heights[1] < heights[2] == heights[3]


def test_every_control_has_a_name_and_tab_reaches_it(composer, qtbot):
    composer.set_text("x")
    assert [part.accessibleName() for part in (composer.field, composer.look, composer.send)] == [
        "Message",
        "Look at my screen",
        "Send",
    ]
    reached = []
    for _ in range(3):
        reached.append(QApplication.focusWidget())
        qtbot.keyClick(QApplication.focusWidget(), Qt.Key.Key_Tab)
    assert reached == [composer.field, composer.look, composer.send]


def test_the_screen_switch_says_why_it_cannot_be_used(composer):
    toggles = []
    composer.look_toggled.connect(toggles.append)
    composer.look.click()
    composer.set_look_enabled(False, "No screen can be read here.")
    assert toggles == [True, False]
    assert not composer.look.isEnabled()
    assert composer.look.toolTip() == "No screen can be read here."


def test_a_click_beside_the_text_means_the_field(composer, qtbot):
    composer.send.setFocus()
    qtbot.mouseClick(composer, Qt.MouseButton.LeftButton, pos=QPoint(300, 6))
    assert composer.field.hasFocus()
