"""The main window: chats on the left, the chat in the middle, the side panel on the right."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QRect, Qt, QTimer, Signal
from PySide6.QtGui import QCloseEvent, QKeySequence, QResizeEvent, QShortcut
from PySide6.QtWidgets import QApplication, QMainWindow, QMessageBox, QSplitter, QVBoxLayout, QWidget

from app.errors import UserError
from app.events import Event
from app.permissions.action import Ask
from ui.conversations import ConversationList
from ui.dialogs.shortcuts import ShortcutsDialog
from ui.header import Header
from ui.loading import ModelLoader, choose_file, choose_folder
from ui.mask import covered
from ui.pane import ChatPane
from ui.panel import SidePanel
from ui.remembered import Remembered
from ui.sides import LEFT, RIGHT, Sides
from ui.theme import Theme
from ui.tray import Mood, Tray
from ui.turns import Turns

if TYPE_CHECKING:
    from app.build import Services

NAME = "Sidelight"
COVERS_MOST = 0.75  # of the screen: above this there is little left to look at
MARGIN = 24  # of the first window to the edge of the screen


class MainWindow(QMainWindow):
    """Puts the parts together and says between them what happened."""

    quit_wanted = Signal()

    def __init__(self, services: Services, remembered: Remembered, theme: Theme) -> None:
        super().__init__()
        self._services, self._remembered, self._theme = services, remembered, theme
        self._assistant = services.assistant
        self.tray: Tray | None = None
        self._quitting = False
        self.turns = Turns(self._assistant, self)
        self.loader = ModelLoader(self._assistant.backend.load, self)
        self.list = ConversationList()
        self.header = Header()
        self.pane = ChatPane(self._assistant, self.turns, remembered)
        self.panel: SidePanel | None = None
        self._splitter = QSplitter(Qt.Orientation.Horizontal)
        self.sides = Sides(self._splitter, self.list, remembered)
        self._lay_out()
        self._fill_menu()
        self._connect()
        self._add_keys()
        self._restore()

    def start(self) -> None:
        """What can wait until the window is seen: the side panel, the tray, the model."""
        self.panel = SidePanel(self._services)
        self.sides.add_right(self.panel)
        self.panel.turn_to(self._remembered.text("page") or "Usage")
        self.panel.turned.connect(lambda title: self._remembered.set("page", title))
        self.panel.show_chat(self.pane.current)
        if state := self._remembered.bytes("splitter"):
            self._splitter.restoreState(state)
        self._services.observer.on_change(self._show_watching)
        self._services.settings.on_change(self._setting_changed)
        if self._services.notices:
            self.pane.notice.say("\n".join(self._services.notices))
        if Tray.is_available():
            self._make_tray()
        self.loader.start()

    def show_again(self) -> None:
        """Come to the front, as when the app is started a second time."""
        self.setWindowState(self.windowState() & ~Qt.WindowState.WindowMinimized)
        self.show()
        self.raise_()
        self.activateWindow()

    def remember(self) -> None:
        """Store the window's place, the chat and what is being written."""
        self.pane.keep_draft()
        self._remembered.set("geometry", self.saveGeometry())
        if self.panel is not None:
            self._remembered.set("splitter", self._splitter.saveState())
        self._remembered.save()

    def open(self, conversation_id: str) -> None:
        """Show a chat; empty: a new one."""
        try:
            self.pane.open(conversation_id)
        except UserError as error:
            self.pane.notice.say(str(error))

    def refresh_list(self) -> None:
        """Read the list of chats again."""
        self.list.show_conversations(self._assistant.conversations(), self.pane.current)
        for conversation_id in self.turns.running():
            self.list.mark(conversation_id, "Writing…")
        self._show_title()

    def choose_folder(self) -> None:
        """Let the person choose the folder the assistant may use."""
        choose_folder(self, str(self._folder()), lambda path: self._set("folder", str(path)))

    def choose_model(self) -> None:
        """Let the person choose a model file."""
        start = Path(self._services.settings.text("model.path")).parent
        choose_file(self, str(start), self._use_model)

    def _use_model(self, path: Path) -> None:
        self._set("model.path", str(path))
        if self.loader.state == "failed":
            self.loader.start()
        else:
            self.pane.notice.say(f"{path.name} is used from the next start on.")

    def _set(self, name: str, value: str) -> None:
        try:
            self._services.settings.set(name, value)
        except UserError as error:
            self.pane.notice.say(str(error))

    def _setting_changed(self, name: str, value: object) -> None:
        if name == "folder":
            self.header.show_folder(self._folder())
        elif name == "window.theme":
            self._theme.set_scheme(value)  # type: ignore[arg-type]  # one of the declared choices

    def _folder(self) -> Path:
        chosen = self._services.settings.text("folder")
        return Path(chosen).expanduser() if chosen else self._services.paths.folder

    # What the parts report

    def _chat_shown(self, conversation_id: str) -> None:
        if self.panel is not None:
            self.panel.show_chat(conversation_id)
        self.list.select(conversation_id)
        self._show_title()

    def _event(self, conversation_id: str, event: Event) -> None:
        if self.panel is not None:
            self.panel.apply(conversation_id, event)
        self._show_mood()

    def _asked(self, ask: Ask) -> None:
        """Somebody must look: never by taking the focus."""
        self._show_mood()
        if not self.isActiveWindow():
            QApplication.alert(self)
        if self.isVisible() and not self.isMinimized():
            return
        if self.tray is not None:
            self.tray.say("Permission needed", ask.action.headline)
        self.setAttribute(Qt.WidgetAttribute.WA_ShowWithoutActivating, True)
        self.showNormal()
        self.setAttribute(Qt.WidgetAttribute.WA_ShowWithoutActivating, False)

    def _sent(self, text: str, look: bool) -> None:
        if look and self.isVisible() and covered(self) > COVERS_MOST:
            self.pane.notice.say(
                "This window covers most of the screen and was left out of what I saw. "
                "Make it smaller or move it aside, then ask again."
            )

    def _show_loading(self) -> None:
        loader = self.loader
        self.pane.model_card.show_state(loader.state, self._model_name(), loader.sentence)
        self._show_mood()

    def _model_name(self) -> str:
        path = self._services.settings.text("model.path")
        return Path(path).name if path else "SmolLM2"

    def _show_watching(self) -> None:
        state = self._services.observer.state
        self.header.show_watching(state)
        if self.tray is not None:
            self.tray.set_observing(state)
        self._show_mood()

    def _show_mood(self) -> None:
        if self.tray is not None:
            self.tray.set_mood(self._mood())

    def _mood(self) -> Mood:
        if len(self.pane.drawer):
            return "waiting"
        if self.turns.running():
            return "thinking"
        return "watching" if self._services.observer.state == "watching" else "idle"

    def _show_title(self) -> None:
        item = self.list.list.currentItem()
        title = item.text() if item is not None and self.pane.current else "New chat"
        self.header.title.setText(title)
        self.setWindowTitle(f"{' '.join(title.split())} — {NAME}")

    # Changing chats

    def _rename(self, conversation_id: str, title: str) -> None:
        self._do(lambda: self._assistant.rename(conversation_id, title))
        QTimer.singleShot(0, self, self.refresh_list)  # the editor is still open

    def _delete(self, conversation_id: str) -> None:
        titles = {each.id: each.title for each in self._assistant.conversations()}
        self.turns.stop(conversation_id)
        if not self._do(lambda: self._assistant.delete(conversation_id)):
            return
        if conversation_id == self.pane.current:
            self.open("")
        self.refresh_list()
        self.list.offer_undo(conversation_id, titles.get(conversation_id, ""))

    def _restore_chat(self, conversation_id: str) -> None:
        if self._do(lambda: self._assistant.restore(conversation_id)):
            self.refresh_list()
            self.open(conversation_id)

    def _do(self, action: Callable[[], object]) -> bool:
        try:
            action()
        except UserError as error:
            self.pane.notice.say(str(error))
            return False
        return True

    def _step(self, by: int) -> None:
        rows = [row for row in range(self.list.list.count()) if not self.list.list.item(row).isHidden()]
        now = self.list.list.currentRow() if self.pane.current else -1
        at = rows.index(now) + by if now in rows else 0
        if rows and 0 <= at < len(rows):
            self.list.list.setCurrentRow(rows[at])

    # Closing

    def closeEvent(self, event: QCloseEvent) -> None:
        """Into the tray where there is one; else quit, asking first while an answer is written."""
        if self._quitting:
            event.accept()
            return
        event.ignore()
        if self.tray is not None and Tray.is_available():
            self._hide_in_tray(self.tray)
        else:
            self.ask_quit()

    def ask_quit(self) -> None:
        """Quit; first ask, if an answer is being written."""
        if not self.turns.running():
            self._quit()
            return
        box = QMessageBox(self)
        box.setWindowTitle("Quit Sidelight?")
        box.setText("An answer is still being written. It is kept as far as it got.")
        quit_ = box.addButton("Quit", QMessageBox.ButtonRole.AcceptRole)
        box.addButton("Go on", QMessageBox.ButtonRole.RejectRole)
        quit_.clicked.connect(self._quit)
        box.finished.connect(box.deleteLater)
        box.open()

    def agree_to_quit(self) -> None:
        """The session ends: nobody can be asked any more."""
        self._quitting = True

    def _quit(self) -> None:
        self._quitting = True
        self.quit_wanted.emit()

    def _hide_in_tray(self, tray: Tray) -> None:
        self.remember()
        self.hide()
        if not self._remembered.flag("tray_explained", False):
            self._remembered.set("tray_explained", True)
            tray.say(
                "Sidelight is still running", "Click its icon to open it again, or quit from the icon's menu."
            )

    # Making the window

    def _make_tray(self) -> None:
        self.tray = Tray(self)
        self.tray.show_wanted.connect(self.show_again)
        self.tray.pause_wanted.connect(self._toggle_pause)
        self.tray.quit_wanted.connect(self.ask_quit)
        self.tray.set_observing(self._services.observer.state)

    def _toggle_pause(self) -> None:
        observer = self._services.observer
        if observer.state == "paused":
            observer.resume()
        elif observer.state == "watching":
            observer.pause()

    def _open_panel(self, title: str) -> None:
        if self.panel is not None:
            self.sides.show(RIGHT)
            self.panel.turn_to(title)

    def _search(self) -> None:
        self.sides.show(LEFT)
        self.list.search.setFocus()

    def _focus_permission(self) -> None:
        if len(self.pane.drawer):
            self.pane.drawer.card.detail.setFocus(Qt.FocusReason.ShortcutFocusReason)

    def _lay_out(self) -> None:
        centre = QWidget()
        column = QVBoxLayout(centre)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self.header)
        column.addWidget(self.pane, 1)
        centre.setMinimumWidth(360)
        self._splitter.setChildrenCollapsible(False)
        self._splitter.setHandleWidth(1)
        self._splitter.addWidget(self.list)
        self._splitter.addWidget(centre)
        self._splitter.setStretchFactor(0, 0)
        self._splitter.setStretchFactor(1, 1)
        self._splitter.setSizes([240, 800])
        self.setCentralWidget(self._splitter)
        self.setMinimumSize(480, 420)

    def _fill_menu(self) -> None:
        menu = self.header.menu
        menu.addAction("New chat").triggered.connect(lambda: self.open(""))
        menu.addAction("Choose a folder…").triggered.connect(self.choose_folder)
        menu.addAction("Choose a model file…").triggered.connect(self.choose_model)
        self.header.add_themes(self._services.settings.text("window.theme"))
        menu.addAction("Keyboard shortcuts").triggered.connect(self._show_shortcuts)
        menu.addSeparator()
        menu.addAction("Quit").triggered.connect(self.ask_quit)

    def _connect(self) -> None:
        self.list.chosen.connect(self.open)
        self.list.new_wanted.connect(lambda: self.open(""))
        self.list.renamed.connect(self._rename)
        self.list.delete_wanted.connect(self._delete)
        self.list.undo_wanted.connect(self._restore_chat)
        self.pane.shown.connect(self._chat_shown)
        self.pane.reported.connect(self._event)
        self.pane.conversations_changed.connect(self.refresh_list)
        self.pane.folder_wanted.connect(self.choose_folder)
        self.pane.composer.submitted.connect(self._sent)
        self.pane.drawer.asked.connect(self._asked)
        self.pane.drawer.emptied.connect(self._show_mood)
        self.pane.model_card.retry_wanted.connect(self.loader.start)
        self.pane.model_card.file_wanted.connect(self.choose_model)
        self.loader.changed.connect(self._show_loading)
        self.turns.changed.connect(lambda _: self._show_mood())
        self.header.sidebar_wanted.connect(lambda: self.sides.toggle(LEFT))
        self.header.panel_wanted.connect(lambda: self.sides.toggle(RIGHT))
        self.header.folder_wanted.connect(self.choose_folder)
        self.header.watching_wanted.connect(lambda: self._open_panel("Screen"))
        self.header.theme_wanted.connect(lambda name: self._set("window.theme", name))

    def _add_keys(self) -> None:
        for keys, action in (
            ("Ctrl+N", lambda: self.open("")),
            ("Ctrl+Shift+O", lambda: self.open("")),
            ("Ctrl+B", lambda: self.sides.toggle(LEFT)),
            ("Ctrl+J", lambda: self.sides.toggle(RIGHT)),
            ("Ctrl+Q", self.ask_quit),
            ("Esc", self.pane.stop),
            ("Shift+Esc", self.pane.composer.focus),
            ("Ctrl+F", self._search),
            ("Ctrl+Up", lambda: self._step(-1)),
            ("Ctrl+Down", lambda: self._step(1)),
            ("F2", self.list.rename_current),
            ("F6", self._focus_permission),
            ("F1", self._show_shortcuts),
            ("Ctrl+/", self._show_shortcuts),
        ):
            QShortcut(QKeySequence(keys), self).activated.connect(action)

    def _show_shortcuts(self) -> None:
        ShortcutsDialog(self).open()

    def _restore(self) -> None:
        """The last place and chat; the first time on the right of the screen, beside one's work."""
        geometry = self._remembered.bytes("geometry")
        if geometry is None or not self.restoreGeometry(geometry):
            self.setGeometry(first_place(QApplication.primaryScreen().availableGeometry()))
        self.sides.restore(LEFT)
        self.header.show_folder(self._folder())
        last = self._remembered.text("chat")
        known = {each.id for each in self._assistant.conversations()}
        self.open(last if last in known else "")
        self.refresh_list()

    def changeEvent(self, event: QEvent) -> None:
        """Follow the theme where icons are drawn here."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange:
            self.header.show_folder(self._folder())
            self.header.show_watching(self._services.observer.state)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """A window that became narrow gives its room to the chat; a wide one shows its sides again."""
        super().resizeEvent(event)
        self.sides.resized(event.oldSize().width(), event.size().width())


def first_place(screen: QRect) -> QRect:
    """Where a window opens that was never open before."""
    width = max(720, min(1_180, int(screen.width() * 0.62)))
    height = max(560, min(900, int(screen.height() * 0.88)))
    width, height = min(width, screen.width()), min(height, screen.height())
    top = screen.top() + (screen.height() - height) // 2
    left = max(screen.left(), screen.right() - width - MARGIN)
    return QRect(left, top, width, height)
