"""Libraries and programs of the system itself: which are missing, and how Debian and its kin get them."""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from installer.errors import SetupError
from installer.process import Runner

# What Qt's own libraries and its X11 and Wayland plugins are linked with, and the Debian package of each.
LIBRARIES = {
    "libEGL.so.1": "libegl1",
    "libGL.so.1": "libgl1",
    "libX11.so.6": "libx11-6",
    "libX11-xcb.so.1": "libx11-xcb1",
    "libdbus-1.so.3": "libdbus-1-3",
    "libfontconfig.so.1": "libfontconfig1",
    "libfreetype.so.6": "libfreetype6",
    "libglib-2.0.so.0": "libglib2.0-0",
    "libgthread-2.0.so.0": "libglib2.0-0",
    "libwayland-client.so.0": "libwayland-client0",
    "libwayland-cursor.so.0": "libwayland-cursor0",
    "libxcb-cursor.so.0": "libxcb-cursor0",
    "libxcb-icccm.so.4": "libxcb-icccm4",
    "libxcb-image.so.0": "libxcb-image0",
    "libxcb-keysyms.so.1": "libxcb-keysyms1",
    "libxcb-randr.so.0": "libxcb-randr0",
    "libxcb-render-util.so.0": "libxcb-render-util0",
    "libxcb-render.so.0": "libxcb-render0",
    "libxcb-shape.so.0": "libxcb-shape0",
    "libxcb-shm.so.0": "libxcb-shm0",
    "libxcb-sync.so.1": "libxcb-sync1",
    "libxcb-util.so.1": "libxcb-util1",
    "libxcb-xfixes.so.0": "libxcb-xfixes0",
    "libxcb-xkb.so.1": "libxcb-xkb1",
    "libxcb.so.1": "libxcb1",
    "libxkbcommon-x11.so.0": "libxkbcommon-x11-0",
    "libxkbcommon.so.0": "libxkbcommon0",
    "libz.so.1": "zlib1g",
    "libzstd.so.1": "libzstd1",
}
FONTS = "fonts-dejavu-core"
FONT_FOLDERS = ("/usr/share/fonts", "/usr/local/share/fonts", "~/.local/share/fonts", "~/.fonts")

# Wait for another apt to end; don't wait for minutes when there is no network.
APT_OPTIONS = ("-o=DPkg::Lock::Timeout=120", "-o=Acquire::Retries=1", "-o=Acquire::http::Timeout=20")

# Programs that Sidelight starts: the sandbox for the commands that its model asks for.
PROGRAMS = {"bwrap": "bubblewrap"}

# Programs that the tests start, and the Debian package of each.
TEST_PROGRAMS = {"Xvfb": "xvfb", "openbox": "openbox", "xdotool": "xdotool", "xwininfo": "x11-utils"}
PEER_PROGRAMS = {"c++": "build-essential"}


def missing_libraries(loads: Callable[[str], bool]) -> list[str]:
    """Debian packages of the libraries that do not load, in order and without repeats."""
    return list(dict.fromkeys(package for library, package in LIBRARIES.items() if not loads(library)))


def loads(library: str) -> bool:
    """Whether the system's loader finds a library."""
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def missing_programs(programs: dict[str, str]) -> list[str]:
    """Debian packages of the programs that are not on the path."""
    return [package for program, package in programs.items() if shutil.which(program) is None]


def has_font(folders: Sequence[str] = FONT_FOLDERS) -> bool:
    """Whether there is any outline font that a window could be written with."""
    files = (path for folder in folders for path in Path(folder).expanduser().rglob("*"))
    return any(path.suffix.lower() in (".ttf", ".otf", ".ttc", ".pfb") for path in files)


def missing(tests: bool, peer: bool) -> list[str]:
    """All Debian packages that are not there; none on other systems than Linux."""
    if not sys.platform.startswith("linux"):
        return []
    packages = missing_libraries(loads)
    packages += [] if has_font() else [FONTS]
    packages += missing_programs(PROGRAMS)
    packages += missing_programs(TEST_PROGRAMS) if tests else []
    packages += missing_programs(PEER_PROGRAMS) if peer else []
    return packages


def lacks_venv() -> bool:
    """Whether this Python cannot make virtual environments with pip, as Debian's cannot when fresh."""
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError:
        return True
    return False


def provide(packages: Sequence[str], runner: Runner, *, yes: bool) -> str | None:
    """Install Debian packages; the sentence for the person if they could not be, else None."""
    names = " ".join(packages)
    if shutil.which("apt-get") is None:
        return f"Missing system packages, by their Debian names: {names}. Install your system's own of them."
    by_hand = f"To install them yourself: sudo apt-get install {names}"
    is_root = os.geteuid() == 0
    if not is_root and shutil.which("sudo") is None:
        return f"These system packages are missing: {names}. They need an administrator. {by_hand}"
    if not (yes or is_root or agrees(names)):
        return f"These system packages are missing: {names}. {by_hand}"
    sudo = ["sudo"] if on_terminal() else ["sudo", "-n"]
    failure = apt(packages, runner, [] if is_root else sudo)
    return f"{failure} {by_hand}" if failure else None


def on_terminal() -> bool:
    """Whether a person can be asked."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


def agrees(names: str) -> bool:
    """Ask for consent to install; nobody to ask is no."""
    if not on_terminal():
        return False
    question = f"\nSidelight needs these system packages: {names}\nInstall them now? [Y/n] "
    print(question, end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("", "y", "yes")


def apt(packages: Sequence[str], runner: Runner, prefix: Sequence[str]) -> str | None:
    """Install with apt-get, bringing its lists up to date once if it needs that; a sentence if it fails."""
    get = [*prefix, "apt-get", *APT_OPTIONS]
    install = [*get, "install", "-y", "--no-install-recommends", *packages]
    env = {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}
    outcome = runner.run(install, env=env, short=shorten)
    if outcome.code != 0:
        runner.run([*get, "update"], env=env, short=shorten)
        outcome = runner.run(install, env=env, short=shorten)
    if outcome.code == 0:
        return None
    if any(sign in outcome.output for sign in ("Temporary failure", "Could not connect", "Failed to fetch")):
        return "The system's packages could not be downloaded."
    errors = [line for line in outcome.output.splitlines() if line.startswith("E: ")]
    return f"apt-get failed: {errors[-1][3:] if errors else 'no reason given'}."


def shorten(line: str) -> str | None:
    """One of apt's lines in a few words."""
    match line.split():
        case [word, _, _, _, package, *_] if word.startswith("Get:"):
            return f"downloading {package}"
        case ["Unpacking" | "Setting", *rest]:
            return f"installing {rest[1] if rest[:1] == ['up'] else rest[0]}"
    return None


def provide_venv(runner: Runner, *, yes: bool) -> None:
    """Give Debian's Python the part that makes virtual environments, or say how."""
    if sys.executable.startswith("/usr/bin/") and shutil.which("apt-get"):
        problem = provide([f"python{sys.version_info[0]}.{sys.version_info[1]}-venv"], runner, yes=yes)
        if problem is None:
            return
        raise SetupError(f"This Python cannot make virtual environments. {problem}")
    raise SetupError(
        "This Python cannot make virtual environments: its venv or ensurepip module is missing. On Debian "
        "and Ubuntu: sudo apt-get install python3-venv"
    )
