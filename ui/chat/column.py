"""The messages one under another; only those near the visible part exist as widgets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from PySide6.QtCore import QEvent, Signal
from PySide6.QtWidgets import QApplication, QWidget

from app.history import Entry, ToolBlock
from ui import theme
from ui.chat.message import MessageView, make_view
from ui.chat.question import EDGE

GAP = 28  # between messages
_NARROW = 560  # below this width the margins shrink
_KEEP = 24  # views kept when they go out of sight
_CHARACTERS_A_LINE = 80
_LINE = 24


@dataclass(slots=True)
class Slot:
    """One message's place: its height is an estimate until it has been laid out."""

    entry: Entry
    height: int
    view: MessageView | None = None
    width: int = -1  # for which the height was measured
    pinned: bool = field(default=False)  # grows now: never taken down


class Column(QWidget):
    """Lays messages out, from a fixed one outwards, so that what is read never moves."""

    changed = Signal()  # a message's size changed by itself
    link_asked = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.slots: list[Slot] = []
        self._tops: list[int] = []
        self._arranging = False

    def set_entries(self, entries: Sequence[Entry]) -> None:
        """Show these messages and no others."""
        for slot in self.slots:
            self._take_down(slot)
        self.slots = [Slot(entry, estimate(entry)) for entry in entries]
        self._measure()

    def add(self, entry: Entry) -> Slot:
        """One more message at the end."""
        slot = Slot(entry, estimate(entry))
        self.slots.append(slot)
        self._measure()
        return slot

    def slot_of(self, entry_id: str) -> Slot | None:
        """The newest place of a message."""
        return next((slot for slot in reversed(self.slots) if slot.entry.id == entry_id), None)

    def view_of(self, slot: Slot) -> MessageView:
        """A message's widget, made if there is none."""
        if slot.view is None:
            slot.view = make_view(slot.entry, self)
            slot.view.link_asked.connect(self.link_asked)
            slot.width = -1
        return slot.view

    def anchor(self, y: int) -> tuple[int, int]:
        """The message at height `y`, and how far into it."""
        for index, top in enumerate(self._tops):
            if top + self.slots[index].height + GAP > y:
                return index, y - top
        return max(0, len(self.slots) - 1), 0

    def arrange(self, width: int, height: int, anchor: tuple[int, int] | None, middle: int) -> int:
        """Make and place what is near the visible part; returns where to scroll. No anchor: the end."""
        if not self.slots:
            self.resize(width, height)
            return 0
        self._arranging = True
        index, into = anchor if anchor is not None else (len(self.slots) - 1, 0)
        inner = self.inner_width(width)
        if anchor is None:
            near = self._build_up(index, inner, 2 * height)
        else:
            near = self._build_down(index, inner, into + 2 * height) | self._build_up(
                index - 1, inner, height
            )
        self._measure()
        self._take_down_far(near)
        left, total = max(0, middle - inner // 2) - EDGE, self.total()
        self.resize(width, max(total, height))
        for at in near:
            slot = self.slots[at]
            if slot.view is not None:
                slot.view.setGeometry(left, self._tops[at], inner + 2 * EDGE, slot.height)
                slot.view.show()
        self._arranging = False
        return self._tops[index] + into if anchor is not None else max(0, total - height)

    def total(self) -> int:
        """Pixels all messages take."""
        return self._tops[-1] + self.slots[-1].height + theme.SPACE_XL if self.slots else 0

    @staticmethod
    def inner_width(width: int) -> int:
        """The width of the text."""
        margin = theme.SPACE_L if width < _NARROW else theme.SPACE_XXL
        return max(120, min(theme.COLUMN, width - 2 * margin))

    def event(self, event: QEvent) -> bool:
        """A message that changes its size asks for a new layout."""
        if event.type() == QEvent.Type.LayoutRequest and not self._arranging:
            self.changed.emit()
        return super().event(event)

    def _build_down(self, index: int, inner: int, wanted: int) -> set[int]:
        built, sum_ = set(), 0
        while index < len(self.slots) and sum_ < wanted:
            sum_ += self._fit(self.slots[index], inner) + GAP
            built.add(index)
            index += 1
        return built

    def _build_up(self, index: int, inner: int, wanted: int) -> set[int]:
        built, sum_ = set(), 0
        while index >= 0 and sum_ < wanted:
            sum_ += self._fit(self.slots[index], inner) + GAP
            built.add(index)
            index -= 1
        return built

    def _fit(self, slot: Slot, inner: int) -> int:
        view = self.view_of(slot)
        slot.height = view.heightForWidth(inner + 2 * EDGE)
        slot.width = inner
        return slot.height

    def _measure(self) -> None:
        self._tops, y = [], theme.SPACE_XL
        for slot in self.slots:
            self._tops.append(y)
            y += slot.height + GAP

    def _take_down_far(self, near: set[int]) -> None:
        far = [at for at, slot in enumerate(self.slots) if slot.view is not None and at not in near]
        middle = min(near) if near else 0
        far.sort(key=lambda at: abs(at - middle))
        for at in far[_KEEP:]:
            if not self._is_in_use(self.slots[at]):
                self._take_down(self.slots[at])
        for at in far[:_KEEP]:
            view = self.slots[at].view
            if view is not None:
                view.move(view.x(), self._tops[at])

    @staticmethod
    def _is_in_use(slot: Slot) -> bool:
        focus = QApplication.focusWidget()
        view = slot.view
        return view is not None and (
            slot.pinned
            or (focus is not None and view.isAncestorOf(focus))
            or any(text.has_selection() for text in view.texts())
        )

    @staticmethod
    def _take_down(slot: Slot) -> None:
        if slot.view is not None:
            slot.view.hide()
            slot.view.deleteLater()
            slot.view = None


def estimate(entry: Entry) -> int:
    """About how tall a message will be."""
    lines = sum(1 + len(line) // _CHARACTERS_A_LINE for line in entry.text.split("\n"))
    tools = sum(isinstance(block, ToolBlock) for block in entry.blocks)
    return min(lines, 35 if entry.role == "user" else lines) * _LINE + 90 * tools + 40
