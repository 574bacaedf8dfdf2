"""The parts of a message that are not its text: tools, reasoning, the screen, notices."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from math import ceil
from typing import Any, Literal

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QWheelEvent
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QLabel,
    QPlainTextEdit,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from app.history import ScreenBlock, ToolBlock
from ui import theme
from ui.chat.markdown import MarkdownView
from ui.widgets.collapsible import Collapsible
from ui.widgets.elided import ElidedLabel
from ui.widgets.icons import IconLabel
from ui.widgets.spinner import Spinner

ToolState = Literal["running", "waiting", "done", "refused", "ruled_out", "barred", "failed", "stopped"]

_STATES: dict[ToolState, tuple[str, str, str]] = {  # words, icon, colour
    "running": ("Running", "", "muted"),
    "waiting": ("Waiting for your answer", "shield", "warning"),
    "done": ("Done", "check", "success"),
    "refused": ("You said no", "close", "danger"),
    "ruled_out": ("Denied by a rule", "close", "danger"),
    "barred": ("Not allowed", "close", "danger"),
    "failed": ("Did not succeed", "warning", "danger"),
    "stopped": ("Not run", "stop", "muted"),
}
_DENIED: dict[str, ToolState] = {"person": "refused", "rule": "ruled_out", "default": "barred"}
_TALLEST = 280  # a long result scrolls inside


class Verbatim(QPlainTextEdit):
    """Text exactly as it is, in fixed pitch; tall text scrolls inside."""

    def __init__(self, text: str, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._lines = 0.0
        self.setReadOnly(True)
        self.setProperty("role", "verbatim")
        self.setAccessibleName(name)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setWordWrapMode(self.document().defaultTextOption().WrapMode.WrapAtWordBoundaryOrAnywhere)
        self.setFont(theme.code_font(theme.TINY))
        self.document().setDocumentMargin(theme.SPACE_S)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setPlainText(text)

    def sizeHint(self) -> QSize:
        """As tall as the text, within reason."""
        lines = self.document().size().height()  # the plain layout counts lines, not pixels
        first = self.document().firstBlock().layout()
        line = first.lineAt(0).height() if first.lineCount() else 0.0
        height = ceil(lines * (line or self.fontMetrics().lineSpacing())) + 2 * theme.SPACE_S + 4
        return QSize(super().sizeHint().width(), min(height, _TALLEST))

    def minimumSizeHint(self) -> QSize:
        """One line is enough."""
        return QSize(40, self.sizeHint().height())

    def resizeEvent(self, event: Any) -> None:
        """Another width wraps into another height."""
        super().resizeEvent(event)
        policy, lines = Qt.ScrollBarPolicy, self.document().size().height()
        self.setVerticalScrollBarPolicy(
            policy.ScrollBarAsNeeded if self.sizeHint().height() == _TALLEST else policy.ScrollBarAlwaysOff
        )
        if lines != self._lines:
            self._lines = lines
            self.updateGeometry()

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Scroll inside while there is something to scroll, then let the column do it."""
        bar = self.verticalScrollBar()
        up = event.angleDelta().y() > 0
        at_end = bar.value() == (bar.minimum() if up else bar.maximum())
        if at_end or not self.hasFocus():
            event.ignore()
        else:
            super().wheelEvent(event)


class ToolCard(QFrame):
    """One tool call: what was asked for, how it stands, what came of it."""

    def __init__(self, block: ToolBlock, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("role", "card")
        self._result: str | None = None
        self.state: ToolState = "running"
        self._spinner, self._sign = Spinner(self, size=14), IconLabel("check", self, size=14)
        self._words = QLabel(self)
        self._build(block)
        if block.result is not None:
            self.finish(block)
        else:
            self.set_state("running")

    def set_state(self, state: ToolState) -> None:
        """Say how the call stands."""
        self.state = state
        words, sign, colour = _STATES[state]
        self._words.setText(words)
        self._spinner.setVisible(not sign)
        self._sign.setVisible(bool(sign))
        if sign:
            self._sign.set_icon(sign, colour)
        self.setAccessibleName(f"Tool {self._name.text()}: {words}")

    def finish(self, block: ToolBlock) -> None:
        """It ended; the result can be unfolded."""
        self.set_state("done" if block.ok else _DENIED.get(block.denied_by, "failed"))
        self._result = block.result
        self._fold.setVisible(bool(block.result))

    def result_text(self) -> str | None:
        """What the model was told."""
        return self._result

    def _build(self, block: ToolBlock) -> None:
        self._name = ElidedLabel(block.tool, self)
        self._name.setProperty("role", "strong")
        self._words.setProperty("role", "muted")
        head = QHBoxLayout()
        head.setSpacing(theme.SPACE_S)
        head.addWidget(IconLabel("tool", self))
        head.addWidget(self._name, 1)
        for part in (self._spinner, self._sign, self._words):
            head.addWidget(part)
        column = QVBoxLayout(self)
        column.setContentsMargins(theme.SPACE_M, theme.SPACE_M, theme.SPACE_M, theme.SPACE_M)
        column.setSpacing(theme.SPACE_S)
        column.addLayout(head)
        if block.arguments:
            column.addWidget(Verbatim(visible(arguments(block.arguments)), "Arguments", self))
        self._fold = LazyFold("Result", self)
        self._fold.make = lambda: Verbatim(self._result or "", "Result")
        self._fold.hide()
        column.addWidget(self._fold)


class LazyFold(Collapsible):
    """A folded section whose content is only made when it is first opened."""

    def __init__(self, title: str, parent: QWidget | None = None) -> None:
        super().__init__(title, parent)
        self.make: Callable[[], QWidget] = QWidget
        self._made = False
        self.toggled.connect(self._make)

    def _make(self, opened: bool) -> None:
        if opened and not self._made:
            self._made = True
            self.set_content(self.make())


class ScreenChip(LazyFold):
    """What was read from the screen for a question; unfolded, exactly the text the model got."""

    def __init__(self, block: ScreenBlock, parent: QWidget | None = None) -> None:
        words = "1 word" if block.words == 1 else f"{block.words:,} words"
        super().__init__(f"{block.source} · {words} read", parent)
        self.make = lambda: Verbatim(block.text, "Text read from the screen")
        self.header.setProperty("role", "chip")
        self.align_header(Qt.AlignmentFlag.AlignRight)


class ReasoningFold(Collapsible):
    """The model's reasoning, folded under a header."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("Reasoning", parent)
        self.view = MarkdownView(self)
        self.view.setAccessibleName("Reasoning")
        inner = QWidget(self)
        inner.setProperty("role", "aside")
        inner.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.view.setProperty("role", "aside")
        row = QHBoxLayout(inner)
        row.setContentsMargins(theme.SPACE_L, 0, 0, 0)
        row.addWidget(self.view)
        self.set_content(inner)


class Notice(QFrame):
    """A sentence the person should know, or an error."""

    def __init__(
        self, text: str, role: Literal["notice", "error"] = "notice", parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.setProperty("role", role)
        self._label = QLabel(text, self)
        self._label.setTextFormat(Qt.TextFormat.PlainText)
        self._label.setWordWrap(True)
        self._label.setProperty("role", "small")
        self._label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        tint, sign = ("danger", "warning") if role == "error" else ("warning", "info")
        row = QHBoxLayout(self)
        row.setContentsMargins(theme.SPACE_M, theme.SPACE_S, theme.SPACE_M, theme.SPACE_S)
        row.setSpacing(theme.SPACE_S)
        row.addWidget(IconLabel(sign, self, tint=tint), 0, Qt.AlignmentFlag.AlignTop)
        row.addWidget(self._label, 1)
        self.setAccessibleName(text)


def arguments(values: Mapping[str, Any]) -> str:
    """A call's arguments, to be read by a person: one that is a single text stands alone."""
    if len(values) == 1 and isinstance(only := next(iter(values.values())), str):
        return f"{next(iter(values))}: {only}"
    return json.dumps(dict(values), ensure_ascii=False, indent=2, default=str)


def visible(text: str) -> str:
    """Control and direction characters as their names, so that nothing can hide."""
    if text.isprintable():
        return text
    return "".join(f"⟨U+{ord(mark):04X}⟩" if _hides(mark) else mark for mark in text)


def _hides(mark: str) -> bool:
    return not mark.isprintable() and mark not in "\n\t" and not mark.isspace()
