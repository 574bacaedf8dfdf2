"""What an empty chat shows: three things to begin with."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QSize, Qt, Signal
from PySide6.QtWidgets import QBoxLayout, QPushButton, QSizePolicy, QVBoxLayout, QWidget

from ui import theme
from ui.widgets.icons import icon
from ui.widgets.labels import label

TITLE = "What can I do for you?"
TEXT = "Everything stays on this computer: the model runs inside this window."
NARROW = 560  # below this the cards stand under each other


class Example(QPushButton):
    """A card that says what can be asked."""

    def __init__(self, icon_name: str, title: str, text: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._icon_name = icon_name
        self.setProperty("role", "example")
        self.setAccessibleName(f"{title}: {text}")
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self._sign = label()
        head = label(title, "small")
        head.setStyleSheet("font-weight: 600;")
        self._inner = QVBoxLayout(self)
        self._inner.setContentsMargins(16, 14, 16, 14)
        self._inner.setSpacing(theme.SPACE_XS)
        for widget in (self._sign, head, label(text, "muted", wrap=True)):
            widget.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
            self._inner.addWidget(widget)
        self._inner.addStretch(1)
        self._redraw()

    def sizeHint(self) -> QSize:
        """As large as what it says."""
        return self._inner.sizeHint()

    def minimumSizeHint(self) -> QSize:
        """Not smaller than what it says."""
        return self._inner.minimumSize()

    def hasHeightForWidth(self) -> bool:
        """The text wraps."""
        return True

    def heightForWidth(self, width: int) -> int:
        """As tall as the wrapped text."""
        return self._inner.totalHeightForWidth(width)

    def changeEvent(self, event: QEvent) -> None:
        """Follow the theme."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange:
            self._redraw()

    def _redraw(self) -> None:
        self._sign.setPixmap(icon(self._icon_name, theme.colours().accent).pixmap(22, 22))


class StartPage(QWidget):
    """A greeting and three cards; `begun` gives a text to write and whether to look at the screen."""

    begun = Signal(str, bool)
    folder_wanted = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.cards = (
            Example("chat", "Ask something", "An explanation, a draft, an idea: just write."),
            Example("file", "Read a file", "Choose a folder, then ask about what is in it."),
            Example("screen", "Look at my screen", "Reads what is visible now, once, when you send."),
        )
        self.cards[0].clicked.connect(lambda: self.begun.emit("Explain in simple words: ", False))
        self.cards[1].clicked.connect(self.folder_wanted)
        self.cards[2].clicked.connect(lambda: self.begun.emit("What is on my screen?", True))
        self._row = QBoxLayout(QBoxLayout.Direction.LeftToRight)
        self._row.setSpacing(theme.SPACE_M)
        for card in self.cards:
            self._row.addWidget(card, 1)
        self._lay_out()

    def _lay_out(self) -> None:
        column = QWidget()
        column.setMaximumWidth(theme.COLUMN)
        inner = QVBoxLayout(column)
        inner.setContentsMargins(0, 0, 0, 0)
        inner.setSpacing(theme.SPACE_S)
        title, text = label(TITLE, "title", wrap=True), label(TEXT, "muted", wrap=True)
        inner.addWidget(title)
        inner.addWidget(text)
        inner.addSpacing(theme.SPACE_L)
        inner.addLayout(self._row)
        outer = QBoxLayout(QBoxLayout.Direction.LeftToRight)
        outer.addStretch(1)
        outer.addWidget(column, 100)
        outer.addStretch(1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(theme.SPACE_XL, theme.SPACE_L, theme.SPACE_XL, theme.SPACE_L)
        layout.addStretch(2)
        layout.addLayout(outer)
        layout.addStretch(3)

    def resizeEvent(self, event: QEvent) -> None:
        """Cards beside each other where there is room."""
        narrow = self.width() < NARROW
        direction = QBoxLayout.Direction.TopToBottom if narrow else QBoxLayout.Direction.LeftToRight
        if self._row.direction() != direction:
            self._row.setDirection(direction)
