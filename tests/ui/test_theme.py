from dataclasses import asdict

import pytest
from PySide6.QtGui import QColor, QPalette
from PySide6.QtWidgets import QLabel, QVBoxLayout, QWidget

from ui import theme
from ui.chat.markdown import MarkdownView
from ui.theme import DARK, LIGHT, Theme
from ui.widgets.icons import IconButton


def contrast(one, other):
    """Contrast ratio by WCAG 2."""

    def light(colour):
        parts = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
                 for part in QColor(colour).getRgbF()[:3]]  # fmt: skip
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    high, low = sorted((light(one), light(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.fixture
def chosen(qapp):
    sheet, palette, font = qapp.styleSheet(), qapp.palette(), qapp.font()
    made = Theme(qapp, "light")
    yield made
    made.deleteLater()
    qapp.setStyleSheet(sheet)
    qapp.setPalette(palette)
    qapp.setFont(font)


@pytest.mark.parametrize("colours", [LIGHT, DARK])
def test_text_can_be_read_on_every_background(colours):
    grounds = [colours.window, colours.sidebar, colours.surface, colours.bubble, colours.code]
    for ground in grounds:
        assert contrast(colours.text, ground) >= 7
        assert contrast(colours.muted, ground) >= 4.5
        assert contrast(colours.accent, ground) >= 4.5
    assert contrast(colours.on_accent, colours.accent) >= 4.5
    assert contrast(colours.on_danger, colours.danger) >= 4.5
    assert contrast(colours.on_selection, colours.selection) >= 7
    for name, colour in asdict(colours).items():
        if name.startswith("syntax"):
            assert contrast(colour, colours.code) >= 4.5, name


@pytest.mark.parametrize("colours", [LIGHT, DARK])
def test_the_stylesheet_has_every_colour_filled_in(qapp, colours):
    sheet = theme.stylesheet(colours)
    assert "$" not in sheet
    assert colours.accent in sheet


def test_what_is_on_screen_follows_the_theme(chosen, qtbot):
    window = QWidget()
    qtbot.addWidget(window)
    column = QVBoxLayout(window)
    button, view = IconButton("copy", "Copy"), MarkdownView()
    view.set_source("`code` and [a](https://b.c)")
    column.addWidget(button)
    column.addWidget(view)
    column.addWidget(QLabel("x"))
    window.show()
    before = button.icon().pixmap(18, 18).toImage()
    assert LIGHT.accent in view.document().toHtml()
    heard = []
    chosen.changed.connect(lambda: heard.append(theme.is_dark()))
    chosen.set_scheme("dark")
    assert heard == [True]
    assert window.palette().color(QPalette.ColorRole.Window) == QColor(DARK.window)
    assert button.icon().pixmap(18, 18).toImage() != before
    assert DARK.accent in view.document().toHtml()
    assert LIGHT.accent not in view.document().toHtml()
