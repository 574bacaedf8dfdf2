from importlib.resources import files

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor
from PySide6.QtWidgets import QLabel

from ui.widgets.collapsible import Collapsible
from ui.widgets.elided import ElidedLabel
from ui.widgets.icons import IconButton, icon_pixmap
from ui.widgets.spinner import Spinner

ICONS = sorted(path.name.removesuffix(".svg") for path in (files("resources") / "icons").iterdir())


@pytest.mark.parametrize("name", ICONS)
def test_every_icon_draws_in_the_colour_asked_for(qapp, name):
    image = icon_pixmap(name, "#ff0000", 24, 2.0).toImage()
    assert image.width() == 48
    drawn = {
        image.pixelColor(x, y).name()
        for x in range(48)
        for y in range(48)
        if image.pixelColor(x, y).alpha() == 255
    }
    assert drawn == {QColor("#ff0000").name()}


def test_an_icon_button_has_a_name_and_takes_focus_by_tab(qtbot):
    button = IconButton("copy", "Copy message", shortcut="Ctrl+C")
    qtbot.addWidget(button)
    assert button.accessibleName() == "Copy message"
    assert button.toolTip() == "Copy message (Ctrl+C)"
    assert button.focusPolicy() & Qt.FocusPolicy.TabFocus


def test_the_spinner_only_turns_while_it_shows(qtbot):
    spinner = Spinner()
    qtbot.addWidget(spinner)
    assert spinner._timer == 0
    spinner.show()
    assert spinner._timer
    angle = spinner._angle
    qtbot.waitUntil(lambda: spinner._angle != angle, timeout=1000)
    spinner.hide()
    assert spinner._timer == 0


def test_a_label_is_cut_on_screen_and_whole_in_its_tooltip(qtbot):
    label = ElidedLabel("a rather long name\nof a conversation")
    qtbot.addWidget(label)
    label.resize(60, 20)
    label.show()
    label.grab()
    assert label.toolTip() == "a rather long name of a conversation"
    label.resize(600, 20)
    label.grab()
    assert label.toolTip() == ""


def test_a_section_folds_and_says_so(qtbot):
    section = Collapsible("Details")
    qtbot.addWidget(section)
    content = QLabel("inside")
    section.set_content(content)
    section.show()
    assert content.isHidden()
    assert section.header.accessibleName() == "Details, collapsed"
    qtbot.keyClick(section.header, Qt.Key.Key_Space)
    assert content.isVisible()
    assert section.header.accessibleName() == "Details, expanded"
