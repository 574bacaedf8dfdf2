"""The line above the chat: its title, the folder, what is watched, and the menu."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QAction, QActionGroup
from PySide6.QtWidgets import QFrame, QHBoxLayout, QMenu, QToolButton, QWidget

from ui import theme
from ui.widgets.elided import ElidedLabel
from ui.widgets.icons import IconButton, icon

THEMES = {"system": "As the system", "light": "Light", "dark": "Dark"}


class Header(QFrame):
    """Reports what is wanted; it decides nothing."""

    sidebar_wanted = Signal()
    panel_wanted = Signal()
    folder_wanted = Signal()
    watching_wanted = Signal()
    theme_wanted = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.sidebar = IconButton("sidebar", "Show or hide the list of chats", shortcut="Ctrl+B")
        self.panel = IconButton("panel", "Show or hide the side panel", shortcut="Ctrl+J")
        self.title = ElidedLabel()
        self.folder = chip("Folder")
        self.watching = chip("Watching the screen")
        self.watching.setProperty("role", "watching")
        self.watching.hide()
        self.more = IconButton("more", "Menu")
        self.menu = QMenu(self)
        self.sidebar.clicked.connect(self.sidebar_wanted)
        self.panel.clicked.connect(self.panel_wanted)
        self.folder.clicked.connect(self.folder_wanted)
        self.watching.clicked.connect(self.watching_wanted)
        self.more.clicked.connect(self._open_menu)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(theme.SPACE_M, theme.SPACE_S, theme.SPACE_M, theme.SPACE_S)
        layout.setSpacing(theme.SPACE_S)
        layout.addWidget(self.sidebar)
        layout.addWidget(self.title, 1)
        for widget in (self.watching, self.folder, self.more, self.panel):
            layout.addWidget(widget)

    def show_folder(self, folder: Path | None) -> None:
        """Name the folder the assistant may use."""
        name = folder.name or str(folder) if folder else "Choose a folder"
        self.folder.setText(name if len(name) <= 22 else name[:21] + "…")
        where = (
            f"The assistant may read and work in {folder}"
            if folder
            else "No folder is given to the assistant"
        )
        self.folder.setToolTip(where)
        self.folder.setAccessibleName(f"Folder for the assistant: {folder or 'none'}")
        self.folder.setIcon(icon("folder", theme.colours().muted))

    def show_watching(self, state: str) -> None:
        """Say while the screen is watched; a click opens the page where it is stopped."""
        self.watching.setVisible(state != "off")
        paused = state == "paused"
        self.watching.setText("Watching paused" if paused else "Watching the screen")
        self.watching.setAccessibleName(self.watching.text())
        sign, colour = ("eye-off", theme.colours().muted) if paused else ("eye", theme.colours().on_accent)
        self.watching.setIcon(icon(sign, colour))
        self.watching.setProperty("state", state)
        self.watching.style().unpolish(self.watching)
        self.watching.style().polish(self.watching)

    def add_themes(self, current: str) -> None:
        """The submenu of looks."""
        under = self.menu.addMenu("Theme")
        group = QActionGroup(self)
        for name, words in THEMES.items():
            action = QAction(words, self, checkable=True, checked=name == current)
            action.triggered.connect(lambda _=False, name=name: self.theme_wanted.emit(name))
            group.addAction(action)
            under.addAction(action)

    def _open_menu(self) -> None:
        self.menu.popup(self.more.mapToGlobal(self.more.rect().bottomLeft()))


def chip(name: str) -> QToolButton:
    """A small button with an icon and a word."""
    button = QToolButton()
    button.setProperty("role", "chip")
    button.setText(name)
    button.setIconSize(QSize(16, 16))
    button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
    button.setCursor(Qt.CursorShape.PointingHandCursor)
    button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
    return button
