"""The model on its way into memory: said while it loads, explained when it cannot."""

from __future__ import annotations

import gc
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Literal

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QFileDialog, QFrame, QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from ui import theme
from ui.tasks import spawn
from ui.widgets.icons import IconLabel
from ui.widgets.labels import label, set_role
from ui.widgets.spinner import Spinner

LoadState = Literal["loading", "ready", "failed"]


class ModelLoader(QObject):
    """Loads the model once asked to, and says how it goes. `load` is given who hears what takes long."""

    changed = Signal()

    def __init__(
        self, load: Callable[[Callable[[str], None]], Awaitable[object]], parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._load = load
        self.state: LoadState = "loading"
        self.sentence = ""

    def start(self) -> None:
        """Load, or try again."""
        self._set("loading", "")
        spawn(self._run(), owner=self, on_error=lambda sentence: self._set("failed", sentence))

    async def _run(self) -> None:
        await self._load(lambda sentence: self._set("loading", sentence))
        gc.freeze()  # what came with the model stays: looking through it for garbage would hold the loop up
        self._set("ready", "")

    def _set(self, state: LoadState, sentence: str) -> None:
        self.state, self.sentence = state, sentence
        self.changed.emit()


class ModelCard(QFrame):
    """Is in view while the model loads and when it could not be loaded."""

    retry_wanted = Signal()
    file_wanted = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("role", "banner")
        self.spinner = Spinner()
        self.sign = IconLabel("warning", tint="danger")
        self.title = label("", "small", wrap=True)
        self.sentence = label("", "small", wrap=True)
        self.retry = QPushButton("Retry")
        self.choose = QPushButton("Choose a model file…")
        self.retry.clicked.connect(self.retry_wanted)
        self.choose.clicked.connect(self.file_wanted)
        self._lay_out()
        self.hide()

    def show_state(self, state: LoadState, name: str, sentence: str) -> None:
        """Say how the loading goes; nothing once it is done."""
        failed = state == "failed"
        self.setVisible(state != "ready")
        self.spinner.setVisible(not failed)
        self.sentence.setVisible(bool(sentence))
        for widget in (self.sign, self.retry, self.choose):
            widget.setVisible(failed)
        self.title.setText("The model could not be loaded" if failed else f"Loading {name}…")
        self.sentence.setText(sentence)
        set_role(self, "error" if failed else "banner")
        self.setAccessibleName(f"{self.title.text()} {sentence}")

    def _lay_out(self) -> None:
        head = QHBoxLayout()
        head.setSpacing(theme.SPACE_S)
        head.addWidget(self.spinner)
        head.addWidget(self.sign)
        head.addWidget(self.title, 1)
        buttons = QHBoxLayout()
        buttons.addStretch(1)
        buttons.addWidget(self.choose)
        buttons.addWidget(self.retry)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(theme.SPACE_L, theme.SPACE_M, theme.SPACE_L, theme.SPACE_M)
        layout.addLayout(head)
        layout.addWidget(self.sentence)
        layout.addLayout(buttons)


def choose_file(parent: QWidget, start: str, chosen: Callable[[Path], None]) -> QFileDialog:
    """Open the dialog for a model file; it does not hold the loop."""
    dialog = QFileDialog(parent, "Choose a model file", start, "Models (*.gguf);;All files (*)")
    dialog.setFileMode(QFileDialog.FileMode.ExistingFile)
    dialog.fileSelected.connect(lambda path: chosen(Path(path)))
    dialog.finished.connect(dialog.deleteLater)
    dialog.open()
    return dialog


def choose_folder(parent: QWidget, start: str, chosen: Callable[[Path], None]) -> QFileDialog:
    """Open the dialog for a folder; it does not hold the loop."""
    dialog = QFileDialog(parent, "Choose the folder the assistant may use", start)
    dialog.setFileMode(QFileDialog.FileMode.Directory)
    dialog.setOption(QFileDialog.Option.ShowDirsOnly)
    dialog.fileSelected.connect(lambda path: chosen(Path(path)))
    dialog.finished.connect(dialog.deleteLater)
    dialog.open()
    return dialog
