"""The card that asks before the assistant acts. Docked above the composer; it never takes the focus."""

from __future__ import annotations

from PySide6.QtCore import QElapsedTimer, QEvent, QObject, Qt, QTimer, Signal
from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent, QAction, QKeyEvent
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QLineEdit,
    QMenu,
    QPlainTextEdit,
    QPushButton,
    QScrollArea,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from app.permissions.action import Answer, Ask, Offer, Risk, Scope
from app.permissions.visible import visible
from ui import theme
from ui.guard import Guard
from ui.widgets.labels import fill, label, set_role

LONG = 10_000  # characters above which only "once" is offered
DOUBLE_CLICK_MS = 400
BETWEEN = "\N{NO-BREAK SPACE}\N{NO-BREAK SPACE}·   "  # facts; the dot stays with the one before
SHORT = 24  # letters of a fact that isn't broken over two lines
MOST_LINES, LEAST_LINES = 10, 3
LEAST = 90  # pixels for what is scrolled, however low the window
AROUND = 385  # pixels of the window for the rest: header, composer, the card's own head and buttons
RISKS = {
    Risk.LOW: ("Low risk: it only reads inside your folder", "muted"),
    Risk.MEDIUM: ("Medium risk: it sees your screen, or changes something", "warning"),
    Risk.HIGH: ("High risk: it may not be possible to undo", "danger"),
}
TOO_LONG = "This is very long. Read it to the end, or deny it; it can only be allowed once."
TAINTED = "Asked after reading text from the screen, a file or a program, which may have misled it."


class PermissionCard(QFrame):
    """Shows one question whole, and reports one answer to it."""

    answered = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("role", "permission")
        self.setAccessibleName("Permission needed")
        self._ask: Ask | None = None
        self._menu_shown = QElapsedTimer()
        self._make_labels()
        self._make_middle()
        self._make_buttons()
        self._lay_out()
        self.guard = Guard(self)
        self.guard.watch(self.once, self.more)
        self.guard.changed.connect(self._enable)
        self.guard.upsetting.connect(self._fit_soon)
        for area in (self.detail, self.middle):
            area.verticalScrollBar().valueChanged.connect(self._enable)
            area.verticalScrollBar().rangeChanged.connect(self._enable)
        for widget in (self.detail, self.deny, self.once, self.more, self.note):
            widget.installEventFilter(self)

    def show_ask(self, ask: Ask, waiting: int) -> None:
        """Show a question; `waiting` more stand behind it."""
        self.menu.close()
        self._ask = ask
        self._fill(ask)
        self.show_waiting(waiting)
        self.note.clear()
        self._fill_menu(ask)
        self.guard.upset()
        self._enable()
        self.show()
        headline = f"Permission needed. {self.headline.text()}"
        QAccessible.updateAccessibility(QAccessibleAnnouncementEvent(self, headline))

    def show_waiting(self, waiting: int) -> None:
        """Say how many questions wait behind this one."""
        self.count.setText(f"{waiting} more waiting" if waiting else "")

    def _make_labels(self) -> None:
        self.headline = label("", "heading", wrap=True)
        self.count = label("", "muted")
        self.unread = label("", "warning")
        self.chat = label("", "muted", wrap=True)
        self.banner = label("", "warning", wrap=True)
        self.length = label("", "faint")
        self.facts = label("", "small", wrap=True)
        self.risk = label("", "muted", wrap=True)
        self.why = label("", "small", wrap=True)
        self.said = label("", "faint", wrap=True)
        self.detail = QPlainTextEdit(readOnly=True)
        self.detail.setProperty("role", "exact")
        self.detail.setAccessibleName("Exactly what would be done")
        self.detail.setFont(theme.code_font())
        self.detail.setLineWrapMode(QPlainTextEdit.LineWrapMode.WidgetWidth)
        self.detail.setTabChangesFocus(True)
        self.detail.setUndoRedoEnabled(False)

    def _make_middle(self) -> None:
        """What is asked, scrolled as one in a low window; the headline and the buttons always show."""
        page = QWidget()
        self._inside = QVBoxLayout(page)
        self._inside.setContentsMargins(0, 0, 0, 0)
        self._inside.setSpacing(8)
        parts = (self.banner, self.detail, self.length, self.facts, self.risk, self.why, self.said)
        for widget in parts:
            self._inside.addWidget(widget)
        self._inside.addStretch(1)
        self.middle = QScrollArea()
        self.middle.setWidget(page)
        self.middle.setWidgetResizable(True)
        self.middle.setFrameShape(QFrame.Shape.NoFrame)
        self.middle.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.middle.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        page.setAutoFillBackground(False)
        self.middle.viewport().setAutoFillBackground(False)

    def _make_buttons(self) -> None:
        self.note = QLineEdit(placeholderText="Why not?")
        self.note.setAccessibleName("Reason for denying, told to the assistant")
        self.note.setMaxLength(500)
        self.note.returnPressed.connect(self._deny)
        self.deny = QPushButton("Deny", autoDefault=False)
        self.once = QPushButton("Allow once", autoDefault=False)
        self.more = QPushButton("Allow…  ▾", autoDefault=False)
        self.deny.setProperty("role", "primary")
        self.menu = QMenu(self)
        self.menu.setAccessibleName("Allow for longer")
        self.more.setAccessibleName("Allow for longer")
        for button in (self.once, self.more):
            button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.deny.clicked.connect(self._deny)
        self.once.clicked.connect(self._allow_once)
        self.more.clicked.connect(self._open_menu)

    def _lay_out(self) -> None:
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Maximum)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(18, 14, 18, 14)
        layout.setSpacing(8)
        head = QHBoxLayout()
        head.addWidget(self.headline, 1)
        head.addWidget(self.unread)
        head.addWidget(self.count)
        layout.addLayout(head)
        layout.addWidget(self.chat)
        layout.addWidget(self.middle)
        foot = QHBoxLayout()
        foot.setSpacing(8)
        foot.addWidget(self.deny)
        foot.addWidget(self.note, 1)
        foot.addWidget(self.once)
        foot.addWidget(self.more)
        layout.addLayout(foot)
        self.setTabOrder(self.detail, self.deny)
        self.setTabOrder(self.deny, self.note)
        self.setTabOrder(self.note, self.once)
        self.setTabOrder(self.once, self.more)

    def _fill(self, ask: Ask) -> None:
        action = ask.action
        text = action.detail
        self.headline.setText(visible(action.headline))
        fill(self.chat, f"In the chat “{visible(ask.chat)}”" if ask.chat else "")
        self.detail.setPlainText(visible(text, lines=True))
        fill(self.length, measured(text))
        fill(self.banner, TOO_LONG if len(text) > LONG else "")
        fill(self.facts, BETWEEN.join(unbroken(visible(fact)) for fact in action.facts))
        words, role = RISKS[action.risk]
        set_role(self.risk, role)
        fill(self.risk, words)
        why = visible(ask.why) or (TAINTED if ask.tainted else "")
        set_role(self.why, "warning" if ask.tainted else "small")
        fill(self.why, f"⚠  {why}" if ask.tainted else why)
        fill(self.said, f"The assistant says (not verified): {visible(ask.said)}" if ask.said else "")

    def _fill_menu(self, ask: Ask) -> None:
        self.menu.clear()
        for offer in offers(ask):
            action = QAction(visible(offer.words).replace("&", "&&"), self.menu)
            action.triggered.connect(
                lambda _=False, ask_id=ask.id, offer=offer: self._allow_offer(ask_id, offer)
            )
            self.menu.addAction(action)
        self.more.setVisible(bool(self.menu.actions()))

    def _fit_soon(self) -> None:
        QTimer.singleShot(0, self, self._fit)

    def _fit(self) -> None:
        """As tall as what it says; a long text is scrolled, in a low window everything. Never squeezed."""
        if not self.isVisible():
            return  # nothing is laid out yet; showing it asks again
        room = max(LEAST, self.window().height() - AROUND)
        others = self._inside.totalHeightForWidth(self.middle.viewport().width()) - self.detail.height()
        most = min(MOST_LINES, max(LEAST_LINES, (room - others - self._frame()) // self._line()))
        lines = max(1, min(most, int(self.detail.document().size().height())))
        self.detail.setFixedHeight(lines * self._line() + self._frame())
        self.middle.setFixedHeight(min(room, others + self.detail.height()))
        QTimer.singleShot(0, self, self._enable)

    def _frame(self) -> int:
        """What is around the lines of the text."""
        around = self.detail.contentsMargins()
        return around.top() + around.bottom() + 2 * int(self.detail.document().documentMargin()) + 4

    def _line(self) -> int:
        return self.detail.fontMetrics().lineSpacing()

    def is_read(self) -> bool:
        """Is the end of what is asked in view?"""
        bars = (self.detail.verticalScrollBar(), self.middle.verticalScrollBar())
        return all(bar.value() >= bar.maximum() for bar in bars)

    def _enable(self) -> None:
        ready = self.guard.armed and self._ask is not None and self.is_read()
        self.once.setEnabled(ready)
        self.more.setEnabled(ready)
        self.unread.setText("" if self.is_read() else "Scroll to the end to allow")

    def _open_menu(self) -> None:
        self._menu_shown.start()
        self.menu.popup(self.more.mapToGlobal(self.more.rect().bottomLeft()))

    def _allow_offer(self, ask_id: str, offer: Offer) -> None:
        if self._menu_shown.isValid() and self._menu_shown.elapsed() < DOUBLE_CLICK_MS:
            return  # the second half of the double click that opened the menu
        self._finish(Answer(allow=True, scope=offer.scope), ask_id)

    def _allow_once(self) -> None:
        if self._ask is not None:
            self._finish(Answer(allow=True), self._ask.id)

    def _deny(self) -> None:
        if self._ask is not None:
            self._finish(Answer(allow=False, note=self.note.text().strip()), self._ask.id)

    def _finish(self, answer: Answer, ask_id: str) -> None:
        """Answer once, and only the question that is shown; a yes only while the guard is armed."""
        if self._ask is None or self._ask.id != ask_id or (answer.allow and not self._may_allow()):
            return
        self._ask = None
        self._enable()
        self.answered.emit(answer)

    def _may_allow(self) -> bool:
        return self.guard.armed and self.is_read() and self.isVisible()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Esc denies when the card has the focus."""
        if event.key() == Qt.Key.Key_Escape and self.holds_focus():
            self._deny()
        else:
            super().keyPressEvent(event)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Deny is the default: Esc and Enter in a part deny. Enter never allows, whatever the desktop."""
        if event.type() == QEvent.Type.ShortcutOverride and is_escape(event):
            event.accept()  # the window's own Esc stops the answer; here it denies
        elif event.type() == QEvent.Type.KeyPress and is_escape(event):
            self._deny()
            return True
        elif event.type() == QEvent.Type.KeyPress and watched is not self.note and is_enter(event):
            if watched in (self.detail, self.deny):
                self._deny()
            return True
        return False

    def holds_focus(self) -> bool:
        """Is the keyboard on the card?"""
        focus = self.window().focusWidget()
        return focus is not None and (focus is self or self.isAncestorOf(focus))


def offers(ask: Ask) -> tuple[Offer, ...]:
    """The longer scopes on offer; none for what is too long to be read."""
    if len(ask.action.detail) > LONG:
        return ()
    return tuple(offer for offer in ask.offers if offer.scope is not Scope.ONCE)


def unbroken(fact: str) -> str:
    """A short fact stays on one line."""
    return fact.replace(" ", "\N{NO-BREAK SPACE}") if len(fact) <= SHORT else fact


def measured(text: str) -> str:
    """How long a text is, where that is not seen at a glance."""
    lines = text.count("\n") + 1
    return f"{len(text):,} characters, {lines:,} lines" if len(text) > 200 or lines > 1 else ""


def is_escape(event: QEvent) -> bool:
    """Is it the Esc key alone?"""
    return isinstance(event, QKeyEvent) and event.key() == Qt.Key.Key_Escape


def is_enter(event: QEvent) -> bool:
    """Is it Enter?"""
    return isinstance(event, QKeyEvent) and event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter)
