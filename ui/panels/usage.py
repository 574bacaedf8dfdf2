"""What fills the model's context, and how fast it reads and writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QGridLayout, QVBoxLayout, QWidget

from app.events import ContextMeasured, ContextUse, Event, SpeedMeasured
from ui import theme
from ui.widgets.labels import fill, label
from ui.widgets.stacked_bar import Part, PartsView

if TYPE_CHECKING:
    from app.build import Services

TITLE = "Usage"
ORDER = 10


class Panel(QWidget):
    """Shows the figures of the chat in view, as its last turn measured them."""

    def __init__(self, services: Services, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._uses: dict[str, ContextUse] = {}
        self._speeds: dict[str, SpeedMeasured] = {}
        self._chat = ""
        self.total = label("", "heading")
        self.left_out = label("", "warning", wrap=True)
        self.parts = PartsView("Context")
        self.none_yet = label("The figures appear with the next answer in this chat.", "muted", wrap=True)
        self.speed = QWidget()
        self._figures = {name: label("", "muted") for name in SPEED_NAMES}
        self._lay_out()
        self.show_chat("")

    def apply(self, conversation_id: str, event: Event) -> None:
        """Keep what a turn measured."""
        match event:
            case ContextMeasured():
                self._uses[conversation_id] = event.use
            case SpeedMeasured():
                self._speeds[conversation_id] = event
            case _:
                return
        if conversation_id == self._chat:
            self.show_chat(conversation_id)

    def show_chat(self, conversation_id: str) -> None:
        """Show another chat's figures."""
        self._chat = conversation_id
        use, speed = self._uses.get(conversation_id), self._speeds.get(conversation_id)
        self.none_yet.setVisible(use is None)
        for widget in (self.total, self.parts):
            widget.setVisible(use is not None)
        self.speed.setVisible(speed is not None)
        if use is not None:
            self._show_use(use)
        else:
            fill(self.left_out, "")
        if speed is not None:
            self._show_speed(speed)

    def _show_use(self, use: ContextUse) -> None:
        self.total.setText(f"{used(use):,} of {use.limit:,} tokens")
        self.parts.set_parts(parts(use))
        gone = use.left_out
        messages = "message does" if gone == 1 else "messages do"
        fill(self.left_out, f"The oldest {gone} {messages} not fit any more." if gone else "")

    def _show_speed(self, speed: SpeedMeasured) -> None:
        new = max(0, speed.prompt_tokens - speed.cached_tokens)
        words = (
            f"{speed.prefill_per_second:,.0f} tokens/s",
            f"{speed.decode_per_second:,.1f} tokens/s",
            f"{new:,} new, {speed.cached_tokens:,} from cache",
            f"{speed.generated_tokens:,} tokens",
        )
        for name, text in zip(SPEED_NAMES, words, strict=True):
            self._figures[name].setText(text)

    def _lay_out(self) -> None:
        layout = QVBoxLayout(self)
        layout.setContentsMargins(theme.SPACE_L, theme.SPACE_L, theme.SPACE_L, theme.SPACE_L)
        layout.setSpacing(theme.SPACE_M)
        layout.addWidget(label("Context", "muted"))
        for widget in (self.none_yet, self.total, self.parts, self.left_out):
            layout.addWidget(widget)
        grid = QGridLayout(self.speed)
        grid.setContentsMargins(0, theme.SPACE_M, 0, 0)
        grid.setColumnStretch(0, 1)
        grid.addWidget(label("Last answer", "muted"), 0, 0, 1, 2)
        for row, (name, figure) in enumerate(self._figures.items(), start=1):
            grid.addWidget(label(name, "small"), row, 0)
            grid.addWidget(figure, row, 1, Qt.AlignmentFlag.AlignRight)
        layout.addWidget(self.speed)
        layout.addStretch(1)


SPEED_NAMES = ("Reading", "Writing", "Question", "Answer")


def used(use: ContextUse) -> int:
    """Tokens taken, the reserve for the answer not counted."""
    return use.system + use.tools + use.history + use.screen


def parts(use: ContextUse) -> list[Part]:
    """The bar of the context; what is zero is not listed."""
    free = max(0, use.limit - used(use) - use.reply)
    named = (
        ("Instructions", use.system, "syntax_name"),
        ("Tools", use.tools, "syntax_number"),
        ("Conversation", use.history, "accent"),
        ("Screen", use.screen, "syntax_keyword"),
        ("Kept for the answer", use.reply, "border_strong"),
        ("Free", free, "pressed"),
    )
    return [Part(name, value, colour, f"{value:,}") for name, value, colour in named if value]
