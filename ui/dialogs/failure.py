"""Says in a plain sentence that something went wrong, and gives the details for a report."""

from __future__ import annotations

import platform
import sys
import traceback

from PySide6.QtCore import Qt, QTimer, qVersion
from PySide6.QtGui import QFontDatabase, QGuiApplication
from PySide6.QtWidgets import QDialog, QHBoxLayout, QLabel, QPlainTextEdit, QPushButton, QVBoxLayout, QWidget

SENTENCE = (
    "Something went wrong inside Sidelight. What you were doing may not have finished; "
    "your chats are stored and you can go on."
)
MOST_DETAILS = 20_000


class FailureDialog(QDialog):
    """Not modal in a nested loop: the app goes on behind it."""

    def __init__(self, details: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle("Something went wrong")
        self.details = details[-MOST_DETAILS:]
        sentence = QLabel(SENTENCE, wordWrap=True)
        sentence.setTextFormat(Qt.TextFormat.PlainText)
        self.text = QPlainTextEdit(self.details, readOnly=True)
        self.text.setAccessibleName("Details")
        self.text.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        self.text.hide()
        self.copy = QPushButton("Copy details", autoDefault=False)
        self.show_details = QPushButton("Show details", autoDefault=False)
        self.close_button = QPushButton("Close", default=True)
        self.copy.clicked.connect(self._copy)
        self.show_details.clicked.connect(self._toggle)
        self.close_button.clicked.connect(self.accept)
        self._lay_out(sentence)

    def _lay_out(self, sentence: QLabel) -> None:
        buttons = QHBoxLayout()
        buttons.addWidget(self.show_details)
        buttons.addWidget(self.copy)
        buttons.addStretch(1)
        buttons.addWidget(self.close_button)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(20, 18, 20, 16)
        layout.setSpacing(14)
        layout.addWidget(sentence)
        layout.addWidget(self.text, 1)
        layout.addLayout(buttons)
        self.setMinimumWidth(460)

    def _copy(self) -> None:
        QGuiApplication.clipboard().setText(self.details)
        self.copy.setText("Copied")
        QTimer.singleShot(1_500, self.copy, lambda: self.copy.setText("Copy details"))

    def _toggle(self) -> None:
        shown = not self.text.isVisible()
        self.text.setVisible(shown)
        self.show_details.setText("Hide details" if shown else "Show details")
        self.resize(self.width(), 420 if shown else self.sizeHint().height())


def describe(error: BaseException) -> str:
    """What a report needs: the versions and where it happened."""
    where = f"{platform.platform()}, Python {sys.version.split()[0]}, Qt {qVersion()}"
    return where + "\n\n" + "".join(traceback.format_exception(error))
