"""A section that folds."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QSize, Qt, Signal
from PySide6.QtWidgets import QPushButton, QSizePolicy, QVBoxLayout, QWidget

from ui import theme
from ui.widgets.icons import icon


class Collapsible(QWidget):
    """A header that opens and closes what is under it; folded at first."""

    toggled = Signal(bool)

    def __init__(self, title: str, parent: QWidget | None = None, *, opened: bool = False) -> None:
        super().__init__(parent)
        self._content: QWidget | None = None
        self._header = QPushButton(self)
        self._header.setProperty("role", "fold")
        self._header.setIconSize(QSize(14, 14))
        self._header.setCursor(Qt.CursorShape.PointingHandCursor)
        self._header.clicked.connect(self.toggle)
        self._layout = QVBoxLayout(self)
        self._layout.setContentsMargins(0, 0, 0, 0)
        self._layout.setSpacing(theme.SPACE_XS)
        self._layout.addWidget(self._header, 0, Qt.AlignmentFlag.AlignLeft)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Minimum)
        self._open = opened
        self.set_title(title)

    @property
    def header(self) -> QPushButton:
        """The button that folds."""
        return self._header

    def set_title(self, title: str) -> None:
        """Change the header."""
        self._title = title
        self._header.setText(f" {title}")  # some air after the arrow
        self._describe()

    def align_header(self, alignment: Qt.AlignmentFlag) -> None:
        """Put the header to the left or the right."""
        self._layout.setAlignment(self._header, alignment)

    def set_content(self, widget: QWidget) -> None:
        """Put this under the header; the section owns it from now on."""
        self._content = widget
        self._layout.addWidget(widget)
        widget.setVisible(self._open)

    def is_open(self) -> bool:
        """Whether the content shows."""
        return self._open

    def set_open(self, opened: bool) -> None:
        """Fold or unfold."""
        if opened == self._open:
            return
        self._open = opened
        self.toggled.emit(opened)  # before the content shows, so that it can be made only now
        if self._content is not None:
            self._content.setVisible(opened)
        self._describe()
        self.updateGeometry()

    def toggle(self) -> None:
        """Fold what is open, open what is folded."""
        self.set_open(not self._open)

    def changeEvent(self, event: QEvent) -> None:
        """Follow the theme."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange:
            self._describe()

    def _describe(self) -> None:
        state = "expanded" if self._open else "collapsed"
        self._header.setAccessibleName(f"{self._title}, {state}")
        self._header.setIcon(icon("chevron-down" if self._open else "chevron-right", theme.colours().muted))
