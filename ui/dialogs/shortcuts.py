"""The list of keys."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDialog, QGridLayout, QPushButton, QVBoxLayout, QWidget

from ui import theme
from ui.widgets.labels import label

KEYS = (
    ("Enter", "Send"),
    ("Shift+Enter", "New line"),
    ("Esc", "Stop the answer"),
    ("Ctrl+N", "New chat"),
    ("F2", "Rename the chat (in the list)"),
    ("Del", "Delete the chat (in the list)"),
    ("Ctrl+F", "Search the chats"),
    ("Ctrl+Up, Ctrl+Down", "Chat above, chat below"),
    ("Ctrl+B", "Show or hide the list of chats"),
    ("Ctrl+J", "Show or hide the side panel"),
    ("Shift+Esc", "Go to the message field"),
    ("F6", "Go to the permission that is asked for"),
    ("Ctrl+Q", "Quit"),
    ("F1, Ctrl+/", "This list"),
)


class ShortcutsDialog(QDialog):
    """Opened without holding the loop; Esc closes it."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle("Keyboard shortcuts")
        grid = QGridLayout()
        grid.setHorizontalSpacing(theme.SPACE_XL)
        grid.setVerticalSpacing(theme.SPACE_S)
        for row, (keys, meaning) in enumerate(KEYS):
            grid.addWidget(label(keys, "small"), row, 0)
            grid.addWidget(label(meaning, "muted"), row, 1)
        close = QPushButton("Close", default=True)
        close.clicked.connect(self.accept)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(theme.SPACE_XL, theme.SPACE_L, theme.SPACE_XL, theme.SPACE_L)
        layout.setSpacing(theme.SPACE_L)
        layout.addLayout(grid)
        layout.addWidget(close, 0, Qt.AlignmentFlag.AlignRight)
