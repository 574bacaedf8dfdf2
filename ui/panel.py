"""The side panel: the pages found in ui/panels."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType
from typing import TYPE_CHECKING, Protocol, cast

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFrame, QTabWidget, QVBoxLayout, QWidget

from app.events import Event
from ui import panels

if TYPE_CHECKING:
    from app.build import Services


class Page(Protocol):
    """What every file in ui/panels has as its `Panel`."""

    def apply(self, conversation_id: str, event: Event) -> None:
        """A turn reported something."""

    def show_chat(self, conversation_id: str) -> None:
        """Another chat came into view."""


class SidePanel(QFrame):
    """One tab a page, in the order the pages ask for."""

    turned = Signal(str)  # the title of the page in view

    def __init__(self, services: Services, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("role", "sidebar")
        self.setMinimumWidth(280)
        self.tabs = QTabWidget(documentMode=True)
        self.tabs.setAccessibleName("Side panel")
        self.tabs.tabBar().setExpanding(True)
        self.tabs.tabBar().setDrawBase(False)
        self.tabs.setUsesScrollButtons(False)
        self.pages: dict[str, Page] = {}
        for module in find():
            page = module.Panel(services)
            self.pages[module.TITLE] = cast(Page, page)
            self.tabs.addTab(page, module.TITLE)
        self.tabs.currentChanged.connect(lambda index: self.turned.emit(self.tabs.tabText(index)))
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.tabs)

    def turn_to(self, title: str) -> None:
        """Show a page; a title that is gone is no error."""
        if title in self.pages:
            self.tabs.setCurrentIndex(list(self.pages).index(title))

    def apply(self, conversation_id: str, event: Event) -> None:
        """Hand an event to every page."""
        for page in self.pages.values():
            page.apply(conversation_id, event)

    def show_chat(self, conversation_id: str) -> None:
        """Another chat came into view."""
        for page in self.pages.values():
            page.show_chat(conversation_id)


def find() -> list[ModuleType]:
    """The page modules, in order."""
    names = [found.name for found in pkgutil.iter_modules(panels.__path__)]
    modules = [importlib.import_module(f"{panels.__name__}.{name}") for name in names]
    return sorted(modules, key=lambda module: (module.ORDER, module.TITLE))
