"""The questions that wait for the person, one at a time above the composer."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.events import PermissionAsked
from app.permissions.action import Answer
from ui.dialogs.permission import PermissionCard


class PermissionDrawer(QWidget):
    """Holds the questions that wait, and shows one at a time."""

    asked = Signal(object)  # a question came to the front
    emptied = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._waiting: list[PermissionAsked] = []
        self.card = PermissionCard(self)
        self.card.answered.connect(self._answer)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.card)
        self.hide()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, event: PermissionAsked) -> None:
        """Ask; the card goes when the question is answered or its call is gone."""
        if event.answer.done():
            return
        self._waiting.append(event)
        event.answer.add_done_callback(lambda _: self._drop(event))
        if len(self._waiting) == 1:
            self._show_first()
        else:
            self.card.show_waiting(len(self._waiting) - 1)

    def _answer(self, answer: Answer) -> None:
        if self._waiting and not self._waiting[0].answer.done():
            self._waiting[0].answer.set_result(answer)

    def _drop(self, event: PermissionAsked) -> None:
        if event not in self._waiting:
            return
        first = self._waiting[0] is event
        self._waiting.remove(event)
        if not self._waiting:
            self.hide()
            self.emptied.emit()
        elif first:
            self._show_first()
        else:
            self.card.show_waiting(len(self._waiting) - 1)

    def _show_first(self) -> None:
        self.show()
        self.card.show_ask(self._waiting[0].ask, len(self._waiting) - 1)
        self.asked.emit(self._waiting[0].ask)
