"""How much memory the model and the app take."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psutil
from PySide6.QtCore import QTimer
from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.events import Event
from ui import theme
from ui.widgets.labels import fill, label
from ui.widgets.stacked_bar import Part, PartsView

if TYPE_CHECKING:
    from app.build import Services

TITLE = "Memory"
ORDER = 20
EVERY_MS = 2_000


class Panel(QWidget):
    """Measures every two seconds while it is in view."""

    def __init__(self, services: Services, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._services = services
        self.total = label("", "heading")
        self.parts = PartsView("Memory")
        self.free = label("", "muted", wrap=True)
        self.model = label("", "small", wrap=True)
        self.about = label("", "muted", wrap=True)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(theme.SPACE_L, theme.SPACE_L, theme.SPACE_L, theme.SPACE_L)
        layout.setSpacing(theme.SPACE_M)
        layout.addWidget(label("Memory of this app", "muted"))
        for widget in (self.total, self.parts, self.free):
            layout.addWidget(widget)
        layout.addSpacing(theme.SPACE_M)
        layout.addWidget(label("Model", "muted"))
        layout.addWidget(self.model)
        layout.addWidget(self.about)
        layout.addStretch(1)
        self._timer = QTimer(self, interval=EVERY_MS)
        self._timer.timeout.connect(self.refresh)

    def apply(self, conversation_id: str, event: Event) -> None:
        """No event changes what is shown here; the timer does."""

    def show_chat(self, conversation_id: str) -> None:
        """The memory is that of the whole app."""

    def showEvent(self, event: QShowEvent) -> None:
        """Measure now and go on."""
        super().showEvent(event)
        self.refresh()
        self._timer.start()

    def hideEvent(self, event: QHideEvent) -> None:
        """Nobody looks: don't measure."""
        super().hideEvent(event)
        self._timer.stop()

    def refresh(self) -> None:
        """Measure and show."""
        memory = self._services.assistant.backend.memory()
        if memory is None:
            shown = [("This app", psutil.Process().memory_info().rss, "border_strong")]
        else:
            shown = [
                ("Model weights", memory.weights, "accent"),
                ("Conversation cache (KV)", memory.kv_cache, "syntax_keyword"),
                ("Everything else", memory.other, "border_strong"),
            ]
        self.total.setText(size(sum(value for _, value, _ in shown)))
        self.parts.set_parts([Part(name, value, colour, size(value)) for name, value, colour in shown])
        system = psutil.virtual_memory()
        self.free.setText(f"{size(system.available)} of {size(system.total)} are free on this computer.")
        self._describe_model()

    def _describe_model(self) -> None:
        info = self._services.assistant.backend.info
        self.model.setText(info.name if info else "No model is loaded yet.")
        about = ""
        if info:
            about = (
                f"{count(info.parameters)} parameters, {info.quantisation}\n"
                f"Context {info.context:,} tokens (trained for {info.context_length:,})\n{info.device}"
            )
        fill(self.about, about)


def size(amount: float) -> str:
    """Bytes in GB, or MB when less than a tenth of that."""
    return f"{amount / 1e9:.2f} GB" if amount >= 1e8 else f"{amount / 1e6:.0f} MB"


def count(number: int) -> str:
    """A number of parameters as people say it: 135 M, 30.5 B."""
    return f"{number / 1e9:.1f} B" if number >= 1e9 else f"{number / 1e6:.0f} M"
