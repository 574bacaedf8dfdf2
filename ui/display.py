"""Can a window open here? Asked before Qt is started, which ends the process where it cannot."""

from __future__ import annotations

import ctypes
import importlib.metadata
import importlib.util
import os
import re
import socket
import sys
from collections.abc import Mapping
from pathlib import Path

from app.errors import UserError

# Debian's and Ubuntu's names for the system libraries that the window needs.
PACKAGES = {
    "libEGL.so.1": "libegl1",
    "libGL.so.1": "libgl1",
    "libdbus-1.so.3": "libdbus-1-3",
    "libfontconfig.so.1": "libfontconfig1",
    "libglib-2.0.so.0": "libglib2.0-0",
    "libgthread-2.0.so.0": "libglib2.0-0",
    "libxcb.so.1": "libxcb1",
    "libxcb-cursor.so.0": "libxcb-cursor0",
    "libxcb-icccm.so.4": "libxcb-icccm4",
    "libxcb-image.so.0": "libxcb-image0",
    "libxcb-keysyms.so.1": "libxcb-keysyms1",
    "libxcb-randr.so.0": "libxcb-randr0",
    "libxcb-render-util.so.0": "libxcb-render-util0",
    "libxcb-shape.so.0": "libxcb-shape0",
    "libxcb-xkb.so.1": "libxcb-xkb1",
    "libxkbcommon.so.0": "libxkbcommon0",
    "libxkbcommon-x11.so.0": "libxkbcommon-x11-0",
}
WITHOUT_DISPLAY = ("offscreen", "minimal", "vnc", "linuxfb", "eglfs", "vkkhrdisplay")
BOOTSTRAP = "python3 installer/bootstrap.py run"
HEADLESS = f'To ask from a terminal instead: {BOOTSTRAP} -- ask "..."'


def check(environment: Mapping[str, str] = os.environ) -> None:
    """Raise `UserError` with one sentence when no window can open."""
    refuse_broken_qt(importlib.metadata.version("PySide6_Essentials"), sys.version_info[:2])
    if sys.platform != "linux":
        return
    platform = environment.get("QT_QPA_PLATFORM", "").partition(":")[0].partition(";")[0]
    if platform and not (plugins() / f"libq{platform}.so").is_file() and plugins().is_dir():
        raise UserError(f"QT_QPA_PLATFORM asks for {platform}, which this Qt does not have.")
    if not platform.startswith(WITHOUT_DISPLAY):
        check_display(environment, platform)
    import_qt()


def refuse_broken_qt(version: str, python: tuple[int, int]) -> None:
    """PySide6 6.12.0 loses a reference to None on every call before Python 3.12, until the process aborts."""
    if version == "6.12.0" and python < (3, 12):
        raise UserError(
            "PySide6 6.12.0 crashes on this Python. Install PySide6_Essentials 6.11.3, or use Python 3.12."
        )


def check_display(environment: Mapping[str, str], platform: str) -> None:
    """Is there an X or Wayland display, and does it answer?"""
    wayland, x11 = environment.get("WAYLAND_DISPLAY"), environment.get("DISPLAY")
    if not wayland and not x11:
        raise UserError(f"There is no display to open a window on. {HEADLESS}")
    if wayland and platform != "xcb" and answers_wayland(wayland, environment.get("XDG_RUNTIME_DIR", "")):
        return
    if not x11 or platform == "wayland":
        raise UserError(f"The display {wayland} cannot be opened. {HEADLESS}")
    load_x11_plugin()
    if not answers_x11(x11):
        raise UserError(f"The display {x11} cannot be opened. {HEADLESS}")


def answers_wayland(name: str, runtime: str) -> bool:
    """Is a compositor listening?"""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1)
        try:
            probe.connect(os.path.join(runtime, name))
        except OSError:
            return False
        return True


def answers_x11(name: str) -> bool:
    """Does the X server let us in? Asked with the library Qt will use, so authority files count too."""
    xcb = ctypes.CDLL("libxcb.so.1")
    xcb.xcb_connect.restype = ctypes.c_void_p
    connection = ctypes.c_void_p(xcb.xcb_connect(name.encode(), None))
    failed = xcb.xcb_connection_has_error(connection)
    xcb.xcb_disconnect(connection)
    return not failed


def plugins() -> Path:
    """Where Qt's platform plugins lie."""
    spec = importlib.util.find_spec("PySide6")
    folders = spec.submodule_search_locations if spec else None
    return Path(next(iter(folders or ("",)))) / "Qt" / "plugins" / "platforms"


def load_x11_plugin() -> None:
    """Load Qt's own X11 plugin: what it misses, Qt would die of."""
    plugin = plugins() / "libqxcb.so"
    if not plugin.is_file():
        return  # a PySide6 of the system, with its plugins elsewhere
    try:
        ctypes.CDLL(str(plugin))
    except OSError as error:
        raise UserError(missing_library(str(error))) from error


def import_qt() -> None:
    """Import Qt's modules; a missing system library shows here."""
    try:
        import PySide6.QtWidgets  # noqa: F401
    except ImportError as error:
        raise UserError(missing_library(str(error))) from error


def missing_library(error: str) -> str:
    """A sentence that says what to install."""
    found = re.match(r"([\w.+-]+\.so[\w.]*)", error)
    if not found:
        return f"The window cannot open: {error}."
    library = found.group(1)
    package = PACKAGES.get(library)
    cure = f"sudo apt install {package}" if package else f"install the package that has {library}"
    return f"The window needs {library}, which is not installed. Run {BOOTSTRAP}, or {cure}."
