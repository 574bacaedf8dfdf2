"""What the assistant asked to do, what was decided, and the permissions that can be taken back."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QPlainTextEdit,
    QPushButton,
    QScrollArea,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from app.errors import UserError
from app.events import Event, PermissionAsked, ToolFinished, ToolRequested
from app.permissions.visible import visible
from ui import theme
from ui.tasks import spawn
from ui.widgets.labels import breakable, fill, label

if TYPE_CHECKING:
    from app.build import Services
    from app.permissions.audit import AuditEntry
    from app.permissions.policy import Rule

TITLE = "Log"
ORDER = 40
SHOWN = 100
WORDS = {
    "asked": ("Asked", "muted"),
    "allowed": ("Allowed", "success"),
    "denied": ("Denied", "danger"),
    "refused": ("Refused", "danger"),
    "finished": ("Done", "muted"),
    "failed": ("Failed", "warning"),
}
BY = {"person": "by you", "rule": "by a permission you gave", "default": "by default"}
SCOPES = {"chat": "for one chat", "always": "always"}


class Panel(QScrollArea):
    """Reads the log when it comes into view, and again when something happens in it."""

    def __init__(self, services: Services, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._grants = services.grants
        self._audit = services.audit
        self._reading = False
        self.problem = label("", "danger", wrap=True)
        self.no_rules = label("You have given no lasting permission.", "muted", wrap=True)
        self.no_entries = label("The assistant has not asked for anything yet.", "muted", wrap=True)
        self.rules = QVBoxLayout()
        self.entries = QVBoxLayout()
        page = self._lay_out()
        self.setWidget(page)
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        page.setAutoFillBackground(False)
        self.viewport().setAutoFillBackground(False)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)

    def apply(self, conversation_id: str, event: Event) -> None:
        """A tool was asked for or ended: the log has grown."""
        if isinstance(event, PermissionAsked):
            event.answer.add_done_callback(lambda _: self.refresh())
        if isinstance(event, PermissionAsked | ToolRequested | ToolFinished):
            self.refresh()

    def show_chat(self, conversation_id: str) -> None:
        """The log is that of all chats."""

    def showEvent(self, event: QShowEvent) -> None:
        """Catch up."""
        super().showEvent(event)
        self.refresh()

    def refresh(self) -> None:
        """Read again, if anybody looks."""
        if self.isVisible() and not self._reading:
            spawn(self._read(), owner=self, on_error=self._say)

    async def _read(self) -> None:
        self._reading = True
        try:
            entries = await asyncio.to_thread(self._audit.entries, SHOWN)
        finally:
            self._reading = False
        self._show_rules(self._grants.rules())
        empty(self.entries)
        for entry in entries:
            self.entries.addWidget(entry_row(entry))
        self.no_entries.setVisible(not entries)

    def _show_rules(self, rules: list[Rule]) -> None:
        empty(self.rules)
        for rule in rules:
            self.rules.addWidget(self._rule_row(rule))
        self.no_rules.setVisible(not rules)

    def _rule_row(self, rule: Rule) -> QWidget:
        row = QFrame()
        row.setProperty("role", "card")
        words = label(breakable(visible(rule.words)), "small", wrap=True)
        given = time.strftime("%d %b %Y", time.localtime(rule.created))
        scope = label(f"{SCOPES.get(rule.scope, rule.scope)}, since {given}", "faint", wrap=True)
        revoke = QPushButton("Revoke")
        revoke.setAccessibleName(f"Revoke: {rule.words}")
        revoke.clicked.connect(lambda: self._revoke(rule.id))
        text = QVBoxLayout()
        text.setSpacing(2)
        text.addWidget(words)
        text.addWidget(scope)
        layout = QHBoxLayout(row)
        layout.addLayout(text, 1)
        layout.addWidget(revoke, 0, Qt.AlignmentFlag.AlignTop)
        return row

    def _revoke(self, rule_id: str) -> None:
        try:
            self._grants.revoke(rule_id)
        except UserError as error:
            self._say(str(error))
        self._show_rules(self._grants.rules())

    def _say(self, sentence: str) -> None:
        fill(self.problem, sentence)

    def _lay_out(self) -> QWidget:
        page = QWidget()
        layout = QVBoxLayout(page)
        layout.setContentsMargins(theme.SPACE_L, theme.SPACE_L, theme.SPACE_L, theme.SPACE_L)
        layout.setSpacing(theme.SPACE_M)
        for rows in (self.rules, self.entries):
            rows.setSpacing(theme.SPACE_S)
        layout.addWidget(self.problem)
        layout.addWidget(label("Permissions you gave", "muted"))
        layout.addWidget(self.no_rules)
        layout.addLayout(self.rules)
        layout.addSpacing(theme.SPACE_M)
        layout.addWidget(label("What happened", "muted"))
        layout.addWidget(self.no_entries)
        layout.addLayout(self.entries)
        layout.addStretch(1)
        self.problem.hide()
        return page


def entry_row(entry: AuditEntry) -> QWidget:
    """A decision or an outcome: what, when, by whom, and the exact thing."""
    words, role = WORDS[entry.event]
    row = QFrame()
    row.setProperty("role", "card")
    head = QHBoxLayout()
    head.addWidget(label(words, role))
    head.addWidget(label(entry.tool, "small"), 1)
    head.addWidget(label(when(entry.time), "faint"))
    layout = QVBoxLayout(row)
    layout.setContentsMargins(theme.SPACE_M, theme.SPACE_S, theme.SPACE_M, theme.SPACE_S)
    layout.setSpacing(theme.SPACE_XS)
    layout.addLayout(head)
    layout.addWidget(exact(entry.detail))
    if note := remark(entry):
        layout.addWidget(label(breakable(note), "faint", wrap=True))
    return row


def remark(entry: AuditEntry) -> str:
    """Who decided, why, and whether untrusted text had been read."""
    said = [BY[entry.by]] if entry.event in ("allowed", "denied") else []
    said += [visible(entry.reason)] if entry.reason else []
    said += ["after reading untrusted text"] if entry.tainted else []
    return " · ".join(said)


def exact(detail: str) -> QPlainTextEdit:
    """The exact thing in a few lines, scrolled when longer; it was made visible when it was logged."""
    text = QPlainTextEdit(detail, readOnly=True)
    text.setProperty("role", "bare")
    text.setAccessibleName("Exactly what it was")
    text.setFont(theme.code_font(theme.TINY))
    text.setTabChangesFocus(True)
    text.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
    lines = min(4, 1 + sum(1 + len(line) // 34 for line in detail.split("\n")[:4]) - 1)
    text.setFixedHeight(text.fontMetrics().lineSpacing() * max(1, lines) + 10)
    return text


def when(moment: float) -> str:
    """The time of day; with the date when it was another day."""
    local = time.localtime(moment)
    form = "%H:%M:%S" if local[:3] == time.localtime()[:3] else "%d %b %H:%M"
    return time.strftime(form, local)


def empty(layout: QVBoxLayout) -> None:
    """Take every row out."""
    while (item := layout.takeAt(0)) is not None:
        if widget := item.widget():
            widget.hide()
            widget.deleteLater()
