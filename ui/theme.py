"""The design system: colours, type scale, spacing and radii; light and dark, following the system."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from importlib.resources import files
from string import Template
from typing import Literal

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QColor, QFont, QFontDatabase, QFontInfo, QGuiApplication, QPalette
from PySide6.QtWidgets import QApplication

Scheme = Literal["system", "light", "dark"]

# Distances in device-independent pixels.
SPACE_XS, SPACE_S, SPACE_M, SPACE_L, SPACE_XL, SPACE_XXL = 4, 8, 12, 16, 24, 32
RADIUS_S, RADIUS_M, RADIUS_L = 6, 10, 16
COLUMN = 760  # widest line of chat text
ICON = 18  # an icon inside a button

# Text sizes in pixels at the usual system font; `pixels` scales them when the person's font is larger.
TINY, SMALL, BODY, HEADING, TITLE = 12, 13, 15, 17, 22
_USUAL = 13.0


@dataclass(frozen=True, slots=True)
class Colours:
    """Every colour the program draws with, by purpose."""

    window: str
    sidebar: str
    surface: str  # cards, fields, menus
    bubble: str  # the person's own messages
    code: str  # behind code
    border: str
    border_strong: str
    text: str
    muted: str
    faint: str
    accent: str
    accent_hover: str
    on_accent: str
    accent_soft: str
    danger: str
    danger_hover: str
    on_danger: str
    danger_soft: str
    warning: str
    warning_soft: str
    success: str
    hover: str
    pressed: str
    selection: str
    on_selection: str
    syntax_keyword: str
    syntax_string: str
    syntax_number: str
    syntax_comment: str
    syntax_name: str
    syntax_type: str


LIGHT = Colours(
    window="#fcfbf9", sidebar="#f4f2ee", surface="#ffffff", bubble="#efece6", code="#f5f3ef",
    border="#e5e1da", border_strong="#cdc7bc", text="#201f1d", muted="#68645c", faint="#8b867c",
    accent="#26706a", accent_hover="#1f5e59", on_accent="#ffffff", accent_soft="#e1efed",
    danger="#b23a2e", danger_hover="#982f25", on_danger="#ffffff", danger_soft="#fbe9e6",
    warning="#8a5a00", warning_soft="#faf0da", success="#2c7a4b",
    hover="#ebe8e2", pressed="#e0dcd4", selection="#bfe0db", on_selection="#16302d",
    syntax_keyword="#8b3f8f", syntax_string="#3a7234", syntax_number="#a4561a",
    syntax_comment="#706b62", syntax_name="#2259a8", syntax_type="#1e6f78",
)  # fmt: skip

DARK = Colours(
    window="#1d1c1b", sidebar="#171615", surface="#272624", bubble="#302e2b", code="#161514",
    border="#383633", border_strong="#524e49", text="#edebe7", muted="#a8a39a", faint="#857f76",
    accent="#6fc2b8", accent_hover="#86d0c7", on_accent="#0d211f", accent_soft="#22403c",
    danger="#f0897c", danger_hover="#f59d92", on_danger="#2b0d09", danger_soft="#432421",
    warning="#e2b55c", warning_soft="#3d3220", success="#79c795",
    hover="#32302d", pressed="#3d3a37", selection="#2b5752", on_selection="#f2f7f6",
    syntax_keyword="#d29bd8", syntax_string="#9ccb8f", syntax_number="#e3a878",
    syntax_comment="#8d877d", syntax_name="#8ab4f0", syntax_type="#7fcbd3",
)  # fmt: skip


def is_dark() -> bool:
    """Whether the program shows its dark colours now."""
    return QGuiApplication.palette().color(QPalette.ColorRole.Window).lightness() < 128


def colours() -> Colours:
    """The colours in use now; ask again on `QEvent.PaletteChange`."""
    return DARK if is_dark() else LIGHT


def pixels(size: int) -> int:
    """A text size, scaled as the person's system font is."""
    system = QFontInfo(QFontDatabase.systemFont(QFontDatabase.SystemFont.GeneralFont)).pixelSize()
    return round(size * min(2.5, max(1.0, system / _USUAL)))


def text_font(size: int = BODY, weight: QFont.Weight = QFont.Weight.Normal) -> QFont:
    """The system's own font at a size of the scale."""
    font = QFontDatabase.systemFont(QFontDatabase.SystemFont.GeneralFont)
    font.setPixelSize(pixels(size))
    font.setWeight(weight)
    return font


def code_font(size: int = SMALL) -> QFont:
    """The system's fixed-pitch font."""
    font = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont)
    font.setStyleHint(QFont.StyleHint.Monospace)
    font.setPixelSize(pixels(size))
    return font


def palette(c: Colours) -> QPalette:
    """The colours as Qt's own roles, so that every widget we didn't style fits too."""
    role = QPalette.ColorRole
    pairs = {
        role.Window: c.window, role.WindowText: c.text, role.Base: c.surface, role.AlternateBase: c.sidebar,
        role.Text: c.text, role.PlaceholderText: c.faint, role.Button: c.surface, role.ButtonText: c.text,
        role.BrightText: c.danger, role.Highlight: c.selection, role.HighlightedText: c.on_selection,
        role.Link: c.accent, role.LinkVisited: c.accent, role.ToolTipBase: c.surface,
        role.ToolTipText: c.text, role.Light: c.surface, role.Midlight: c.hover, role.Mid: c.border,
        role.Dark: c.border_strong, role.Shadow: c.border_strong, role.Accent: c.accent,
    }  # fmt: skip
    result = QPalette()
    for name, colour in pairs.items():
        result.setColor(name, QColor(colour))
    for name in (role.WindowText, role.Text, role.ButtonText):
        result.setColor(QPalette.ColorGroup.Disabled, name, QColor(c.faint))
    return result


def stylesheet(c: Colours) -> str:
    """The program's one stylesheet, filled in."""
    sizes = {f"px_{name}": str(pixels(size)) for name, size in _SIZES.items()}
    icons = files("resources") / "icons"
    template = (files("resources") / "sidelight.qss").read_text(encoding="utf-8")
    return Template(template).substitute(asdict(c), **sizes, icons=str(icons).replace("\\", "/"))


_SIZES = {"tiny": TINY, "small": SMALL, "body": BODY, "heading": HEADING, "title": TITLE}


class Theme(QObject):
    """Keeps the application in the scheme asked for; with "system" it follows the desktop live."""

    changed = Signal()

    def __init__(self, app: QApplication, scheme: Scheme = "system") -> None:
        super().__init__(app)
        self._app = app
        self._scheme: Scheme = scheme
        app.setStyle("Fusion")
        app.styleHints().colorSchemeChanged.connect(self._apply)
        self._apply()

    @property
    def scheme(self) -> Scheme:
        """What was asked for."""
        return self._scheme

    def set_scheme(self, scheme: Scheme) -> None:
        """Choose light, dark, or what the system says."""
        self._scheme = scheme
        self._apply()

    def _wants_dark(self) -> bool:
        if self._scheme == "system":
            return self._app.styleHints().colorScheme() == Qt.ColorScheme.Dark
        return self._scheme == "dark"

    def _apply(self) -> None:
        chosen = DARK if self._wants_dark() else LIGHT
        self._app.setFont(text_font(BODY))
        self._app.setPalette(palette(chosen))
        self._app.setStyleSheet(stylesheet(chosen))
        self.changed.emit()
