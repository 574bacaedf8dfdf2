"""A person at the app: a display, a keyboard, a mouse, eyes; and the files the app leaves behind.

The app is a process of its own with a home of its own. It is never reached into: what it shows is read off
the screen, and what it stores is read, read-only, from its files.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image, ImageChops, ImageGrab

from app.observe import Frame, Reader

ROOT = Path(__file__).parents[1]
# A root that may not write where a folder's mode forbids it, where the tests run as root.
UNPRIVILEGED = [] if os.geteuid() else ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]
PROGRAMS = ("Xvfb", "openbox", "xdotool", "xwininfo")
WHERE = ("Absolute upper-left X", "Absolute upper-left Y", "Width", "Height")
Point = tuple[int, int]
Box = tuple[int, int, int, int]  # left, top, right, bottom
DELTAS = "SELECT block FROM deltas WHERE entry_id = entries.id ORDER BY number"
NEWEST = "SELECT id FROM conversations ORDER BY updated DESC LIMIT 1"
MESSAGES = f"""SELECT role, state, blocks, (SELECT json_group_array(json(block)) FROM ({DELTAS}))
    FROM entries WHERE conversation_id = ({NEWEST}) ORDER BY position"""


class Desktop:
    """An X display with a window manager. `scale` is the one a person with a sharp screen has set."""

    def __init__(self, size: str = "1280x800", scale: int = 1) -> None:
        self._server = subprocess.Popen(
            ["Xvfb", "-displayfd", "1", "-screen", "0", f"{size}x24", "-nolisten", "tcp", "-noreset"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self._server.stdout is not None
        self.name = f":{int(self._server.stdout.readline())}"
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        self.environment = kept | {"DISPLAY": self.name, "QT_SCALE_FACTOR": str(scale)}
        self._manager = subprocess.Popen(
            ["openbox", "--sm-disable"],
            env=self.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._reader = Reader()

    def do(self, *words: object) -> str:
        """Use xdotool: the keyboard, the mouse, or a look at the windows."""
        return self.run("xdotool", *words)

    def run(self, *words: object) -> str:
        """What a program of X says."""
        done = subprocess.run(
            list(map(str, words)), env=self.environment, capture_output=True, text=True, timeout=60
        )
        return done.stdout.strip()

    def picture(self, box: Box | None = None) -> Image.Image:
        """What is on the screen now, or in a part of it."""
        whole = ImageGrab.grab(xdisplay=self.name).convert("RGB")
        return whole.crop(box) if box else whole

    def read(self, picture: Image.Image) -> list[tuple[str, Box]]:
        """The lines of text in a picture."""
        found = asyncio.run(self._reader.read(Frame(picture, "", 0, 0, 0.0))).lines
        return [
            (line.text, (line.box[0], line.box[1], line.box[0] + line.box[2], line.box[1] + line.box[3]))
            for line in found
        ]

    def close(self) -> None:
        """Turn it off."""
        asyncio.run(self._reader.close())
        for process in (self._manager, self._server):
            process.terminate()
            process.wait()


@dataclass(frozen=True)
class Message:
    """A stored message."""

    role: str
    state: str
    blocks: list[dict[str, Any]]

    @property
    def text(self) -> str:
        """What was written."""
        return "".join(block["text"] for block in self.blocks if block["kind"] == "text")

    @property
    def screen(self) -> str:
        """What was read from the screen."""
        return "\n".join(block["text"] for block in self.blocks if block["kind"] == "screen")


class Person:
    """Somebody at a desktop, with the app open or not."""

    def __init__(self, desktop: Desktop, home: Path) -> None:
        self.desktop, self.home = desktop, home
        self.app: subprocess.Popen[str] | None = None
        self.others: list[subprocess.Popen[str]] = []
        self.set()

    def set(self, **options: str) -> None:
        """Write the settings file: a light window, the same words each time, and what else is given."""
        folder = self.home / ".config" / "sidelight"
        folder.mkdir(parents=True, exist_ok=True)
        given = {"window.theme": "'light'", "sampling.temperature": "0.0"}
        given |= {name.replace("_", "."): value for name, value in options.items()}
        (folder / "settings.toml").write_text("".join(f"{name} = {value}\n" for name, value in given.items()))

    @property
    def environment(self) -> dict[str, str]:
        """What the app is started with."""
        return self.desktop.environment | {"HOME": str(self.home)}

    def open(self, *words: object, command: Sequence[str] = ("-m", "app")) -> None:
        """Start the app, wait for its window, and click into it."""
        self.app = self._launch([*command, *map(str, words)])
        self.until(lambda: self.window() is not None, "the window")
        self.until(self.has_focus, "the window's focus")

    def _launch(self, words: Sequence[str]) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, *words],
            cwd=ROOT,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def open_other(self, code: str, *words: str, title: str) -> None:
        """Start another program, and wait for its window."""
        self.others.append(self._launch(["-c", code, *words]))
        self.until(lambda: self.desktop.do("search", "--onlyvisible", "--name", title), title)

    def window(self) -> str | None:
        """The app's window, if it is in view."""
        found = self.desktop.do("search", "--onlyvisible", "--name", "— Sidelight$").split()
        return found[-1] if found else None

    def has_focus(self) -> bool:
        """Whether what is typed goes to the app."""
        return self.desktop.do("getactivewindow") == self.window() is not None

    def area(self) -> Box:
        """Where the app's window is."""
        said = self.desktop.run("xwininfo", "-id", self.window())  # xdotool adds a window's frame twice
        left, top, width, height = (int(re.search(rf"{name}: +(\d+)", said)[1]) for name in WHERE)
        return left, top, left + width, top + height

    def type(self, text: str) -> None:
        """At the keyboard."""
        self.desktop.do("type", "--delay", 12, text)

    def press(self, *keys: str) -> None:
        """One key after the other: "Return", "ctrl+q"."""
        self.desktop.do("key", "--delay", 40, *keys)

    def ask(self, text: str) -> None:
        """Type a question and send it."""
        self.type(text)
        self.press("Return")

    def click(self, where: str | Point) -> Point:
        """Click on a point, or on words that are on the screen; gives the point."""
        point = self.find(where) if isinstance(where, str) else where
        self.desktop.do("mousemove", *point, "click", 1)
        return point

    def find(self, words: str) -> Point:
        """The middle of the lowest line that says these words; waits for it."""
        found: list[Box] = []

        def look() -> bool:
            lines = self.desktop.read(self.desktop.picture())
            found[:] = [box for line, box in lines if letters(words) in letters(line)]
            return bool(found)

        self.until(look, f"“{words}” on the screen")
        left, top, right, bottom = max(found, key=lambda box: box[1])
        return (left + right) // 2, (top + bottom) // 2

    def read(self, box: Box | None = None) -> str:
        """The text in the app's window, or in a part of the screen."""
        lines = self.desktop.read(self.desktop.picture(box or self.area()))
        return "\n".join(text for text, _ in lines)

    def until_read(self, words: str, seconds: float = 60) -> str:
        """Wait until the app's window says this; gives all it says."""
        texts: list[str] = []

        def look() -> bool:
            texts.append(self.read())
            return letters(words) in letters(texts[-1])

        self.until(look, f"“{words}” in the window", seconds)
        return texts[-1]

    def until(self, condition: Callable[[], object], what: str, seconds: float = 60) -> None:
        """Wait for something to come true."""
        end = time.monotonic() + seconds
        while not condition():
            if self.app is not None and self.app.poll() is not None:
                raise AssertionError(f"the app has ended, while waiting for {what}: {self.app.communicate()}")
            if time.monotonic() > end:
                raise AssertionError(f"not in {seconds:.0f} s: {what}. In view: {self.seen()}")
            time.sleep(0.02)

    def rest(self) -> None:
        """Wait until nothing moves in the window, but for the cursor in the field."""
        still = 0
        before = self.desktop.picture(self.area())
        while still < 10:
            time.sleep(0.1)
            now = self.desktop.picture(self.area())
            still = 0 if differ(before, now, 8 * 40) else still + 1
            before = now

    def seen(self) -> str:
        """All that is on the screen, for a report."""
        return " | ".join(text for text, _ in self.desktop.read(self.desktop.picture()))

    def history(self) -> list[Message]:
        """The messages of the newest chat as they are on the disk."""
        path = self.home / ".local" / "share" / "sidelight" / "conversations.db"
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=5)) as database:
            rows = database.execute(MESSAGES).fetchall()
        return [Message(role, state, json.loads(old) + json.loads(new)) for role, state, old, new in rows]

    def answer(self) -> Message:
        """The newest answer."""
        found = [message for message in self.history() if message.role == "assistant"]
        return found[-1] if found else Message("assistant", "", [])

    def audit(self) -> list[dict[str, Any]]:
        """The log of permissions, oldest first."""
        path = self.home / ".local" / "state" / "sidelight" / "audit.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def quit(self) -> None:
        """Leave by keyboard; the app ends well and has nothing to say on the terminal."""
        assert self.app is not None
        self.press("ctrl+q")
        out, error = self.app.communicate(timeout=20)
        assert (self.app.returncode, out, error) == (0, "", "")

    def kill(self) -> None:
        """As when the power goes."""
        assert self.app is not None
        self.app.kill()
        self.app.communicate()

    def leave(self) -> None:
        """End all that was started."""
        for process in filter(None, [self.app, *self.others]):
            if process.poll() is None:
                process.kill()
            process.communicate()


def letters(text: str) -> str:
    """Text by which two readings are compared: no spaces, no punctuation, no case."""
    return re.sub(r"[\W_]+", "", text).casefold()


def differ(one: Image.Image, other: Image.Image, within: int = 0) -> bool:
    """Whether two pictures of the same place show something else, in more than so many pixels at one spot."""
    left, top, right, bottom = ImageChops.difference(one, other).getbbox() or (0, 0, 0, 0)
    return (right - left) * (bottom - top) > within


def why_not() -> str:
    """Why nobody can sit at a display here, or empty."""
    if sys.platform != "linux":
        return "these tests drive an X11 display"
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    return f"{', '.join(missing)} not installed (installer/bootstrap.py test)" if missing else ""


def can_be_had() -> bool:
    """Whether the installer could have installed what is missing."""
    return sys.platform == "linux" and shutil.which("apt-get") is not None and os.geteuid() == 0
