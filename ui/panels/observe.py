"""What the assistant sees of the screen while it watches."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from PIL import Image
from PySide6.QtCore import QSize, Qt, QTimer
from PySide6.QtGui import QGuiApplication, QImage, QPixmap, QShowEvent
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QPushButton, QSizePolicy, QVBoxLayout, QWidget

from app.errors import UserError
from app.events import Event
from ui import theme
from ui.tasks import spawn
from ui.widgets.labels import fill, label
from ui.widgets.stacked_bar import Dot

if TYPE_CHECKING:
    from app.build import Services
    from app.observe import Frame

TITLE = "Screen"
ORDER = 30
PREVIEW = 640  # widest preview, in pixels of the screen it is shown on
STATES = {
    "off": ("Not watching", "faint"),
    "watching": ("Watching", "success"),
    "paused": ("Paused", "warning"),
}
MONITOR = "screen.monitor"


class Panel(QWidget):
    """Starts, pauses and stops watching, and shows the newest picture."""

    def __init__(self, services: Services, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._observer = services.observer
        self._settings = services.settings
        self._shown: Frame | None = None
        self._shrinking = False
        self._make_parts()
        self._lay_out()
        self._observer.on_change(self.refresh)
        self._ticker = QTimer(self, interval=1_000)
        self._ticker.timeout.connect(self._refresh_if_seen)
        self._ticker.start()
        self.refresh()

    def apply(self, conversation_id: str, event: Event) -> None:
        """No event of a turn changes what is shown here; the observer does."""

    def show_chat(self, conversation_id: str) -> None:
        """Watching is the same for every chat."""

    def showEvent(self, event: QShowEvent) -> None:
        """Catch up."""
        super().showEvent(event)
        self._fill_monitors()
        self.refresh()

    def refresh(self) -> None:
        """Show the observer's state and, if there is a newer one, its picture."""
        state = self._observer.state
        words, colour = STATES[state]
        self.dot.colour = colour
        self.dot.update()
        self.state.setText(words)
        self.start.setVisible(state == "off")
        self.pause.setVisible(state != "off")
        self.stop.setVisible(state != "off")
        self.pause.setText("Resume" if state == "paused" else "Pause")
        fill(self.problem, getattr(self._observer, "problem", ""))
        frame = self._observer.latest() if state != "off" else None
        if frame is None:
            self._show_nothing(state)
        elif frame is not self._shown and self.isVisible() and not self._shrinking:
            spawn(self._show(frame), owner=self, on_error=self.problem.setText)

    async def _show(self, frame: Frame) -> None:
        """Shrink the picture beside the loop: a large screen takes longer than a frame may."""
        self._shrinking = True
        try:
            small = await asyncio.to_thread(shrink, frame.image, PREVIEW)
        finally:
            self._shrinking = False
        self._shown = frame
        image = QImage(
            small.tobytes(), small.width, small.height, small.width * 3, QImage.Format.Format_RGB888
        )
        scale = self.devicePixelRatioF()
        wide = round(max(80, self.preview.width()) * scale)
        picture = QPixmap.fromImage(image).scaledToWidth(wide, Qt.TransformationMode.SmoothTransformation)
        picture.setDevicePixelRatio(scale)
        self.preview.setPixmap(picture)
        self.preview.setAccessibleName(f"Picture of {frame.monitor}")
        self.caption.setText(f"{frame.monitor}. Sidelight's own window is left out.")

    def _show_nothing(self, state: str) -> None:
        self._shown = None
        self.preview.clear()
        waiting = "The first picture comes in a moment." if state == "watching" else ""
        self.preview.setText(waiting or "Nothing is looked at.")
        self.preview.setAccessibleName(self.preview.text())
        self.caption.setText("Pictures stay in memory; none is written to the disk or sent anywhere.")

    def _refresh_if_seen(self) -> None:
        if self.isVisible() and self._observer.state != "off":
            self.refresh()

    def _make_parts(self) -> None:
        self.dot = Dot("faint")
        self.state = label("", "heading")
        self.problem = label("", "danger", wrap=True)
        self.caption = label("", "muted", wrap=True)
        self.preview = label("", "preview", wrap=True)
        self.preview.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.preview.setMinimumHeight(150)
        self.preview.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.start = QPushButton("Start watching")
        self.start.setProperty("role", "primary")
        self.pause = QPushButton("Pause")
        self.stop = QPushButton("Stop")
        self.monitor = QComboBox()
        self.monitor.setAccessibleName("Which screen is looked at")
        self.monitor.setMinimumContentsLength(10)
        self.monitor.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self._fill_monitors()
        self.monitor.activated.connect(self._choose_monitor)
        self.start.clicked.connect(self._start)
        self.pause.clicked.connect(self.toggle_pause)
        self.stop.clicked.connect(self._observer.stop)

    def _lay_out(self) -> None:
        layout = QVBoxLayout(self)
        layout.setContentsMargins(theme.SPACE_L, theme.SPACE_L, theme.SPACE_L, theme.SPACE_L)
        layout.setSpacing(theme.SPACE_M)
        head = QHBoxLayout()
        head.addWidget(self.dot)
        head.addWidget(self.state, 1)
        buttons = QHBoxLayout()
        for button in (self.start, self.pause, self.stop):
            buttons.addWidget(button, 1)
        layout.addLayout(head)
        layout.addWidget(self.preview)
        layout.addWidget(self.caption)
        layout.addWidget(self.problem)
        layout.addLayout(buttons)
        layout.addWidget(label("Screen", "muted"))
        layout.addWidget(self.monitor)
        layout.addStretch(1)

    def _start(self) -> None:
        try:
            self._observer.start()
        except UserError as error:
            fill(self.problem, str(error))

    def toggle_pause(self) -> None:
        """Pause, or go on."""
        if self._observer.state == "paused":
            self._observer.resume()
        else:
            self._observer.pause()

    def _fill_monitors(self) -> None:
        self.monitor.clear()
        self.monitor.addItem("All screens", 0)
        for number, size in enumerate(screen_sizes(), start=1):
            self.monitor.addItem(f"Screen {number}, {size.width()}x{size.height()}", number)
        self.monitor.setCurrentIndex(max(0, self.monitor.findData(self._settings.get(MONITOR))))

    def _choose_monitor(self, index: int) -> None:
        try:
            self._settings.set(MONITOR, int(self.monitor.itemData(index)))
        except UserError as error:
            fill(self.problem, str(error))


def screen_sizes() -> list[QSize]:
    """Each screen's size in its own pixels."""
    return [screen.size() * screen.devicePixelRatio() for screen in QGuiApplication.screens()]


def shrink(image: Image.Image, width: int) -> Image.Image:
    """A copy no wider than that."""
    small = image.convert("RGB")
    small.thumbnail((width, width * 4), Image.Resampling.BILINEAR, reducing_gap=2)
    return small
