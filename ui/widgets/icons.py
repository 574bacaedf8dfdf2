"""Line icons, drawn from the bundled SVG files in whatever colour is asked for."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files

from PySide6.QtCore import QByteArray, QEvent, QRectF, QSize, Qt
from PySide6.QtGui import QIcon, QPainter, QPixmap
from PySide6.QtSvg import QSvgRenderer
from PySide6.QtWidgets import QLabel, QToolButton, QWidget

from ui import theme

_DRAWN_IN = "#808080"  # the colour in the files
_SCALES = (1, 2, 3)


@lru_cache(maxsize=128)
def _source(name: str) -> str:
    return (files("resources") / "icons" / f"{name}.svg").read_text(encoding="utf-8")


@lru_cache(maxsize=512)
def icon_pixmap(name: str, colour: str, size: int = theme.ICON, scale: float = 1.0) -> QPixmap:
    """The icon `size` pixels wide, sharp at a screen's `scale`."""
    pixmap = QPixmap(QSize(size, size) * scale)
    pixmap.setDevicePixelRatio(scale)
    pixmap.fill(Qt.GlobalColor.transparent)
    painter = QPainter(pixmap)
    QSvgRenderer(QByteArray(_source(name).replace(_DRAWN_IN, colour).encode())).render(
        painter, QRectF(0, 0, size, size)
    )
    painter.end()
    return pixmap


@lru_cache(maxsize=128)
def icon(name: str, colour: str, *, checked: str | None = None, disabled: str | None = None) -> QIcon:
    """The icon for a button or an action, in its states."""
    result = QIcon()
    states = {
        (QIcon.Mode.Normal, QIcon.State.Off): colour,
        (QIcon.Mode.Normal, QIcon.State.On): checked,
        (QIcon.Mode.Disabled, QIcon.State.Off): disabled,
    }
    for (mode, state), tint in states.items():
        for scale in _SCALES if tint else ():
            result.addPixmap(icon_pixmap(name, tint or colour, scale=scale), mode, state)
    return result


class IconButton(QToolButton):
    """A button with an icon of ours; `name` is what a screen reader and the tooltip say."""

    def __init__(
        self, icon_name: str, name: str, parent: QWidget | None = None, *, shortcut: str = ""
    ) -> None:
        super().__init__(parent)
        self._icon_name = icon_name
        self.setAccessibleName(name)
        self.setToolTip(f"{name} ({shortcut})" if shortcut else name)
        self.setIconSize(QSize(theme.ICON, theme.ICON))
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self._redraw()

    def set_icon(self, icon_name: str, name: str | None = None) -> None:
        """Show another icon, and say another name."""
        self._icon_name = icon_name
        if name is not None:
            self.setAccessibleName(name)
            self.setToolTip(name)
        self._redraw()

    def changeEvent(self, event: QEvent) -> None:
        """Follow the theme."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange:
            self._redraw()

    def _redraw(self) -> None:
        now = theme.colours()
        self.setIcon(icon(self._icon_name, now.muted, checked=now.accent, disabled=now.faint))


class IconLabel(QLabel):
    """An icon that only informs."""

    def __init__(
        self, icon_name: str, parent: QWidget | None = None, *, tint: str = "muted", size: int = 16
    ) -> None:
        super().__init__(parent)
        self._icon_name, self._tint, self._size = icon_name, tint, size
        self.setFixedSize(size, size)
        self._redraw()

    def set_icon(self, icon_name: str, tint: str = "muted") -> None:
        """Show another icon; `tint` names a colour of the theme."""
        self._icon_name, self._tint = icon_name, tint
        self._redraw()

    def changeEvent(self, event: QEvent) -> None:
        """Follow the theme."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange:
            self._redraw()

    def event(self, event: QEvent) -> bool:
        """Stay sharp on another screen."""
        if event.type() == QEvent.Type.DevicePixelRatioChange:
            self._redraw()
        return super().event(event)

    def _redraw(self) -> None:
        colour = getattr(theme.colours(), self._tint)
        self.setPixmap(icon_pixmap(self._icon_name, colour, self._size, self.devicePixelRatioF()))
