"""What is shown while things are installed."""

from __future__ import annotations

import io

import pytest

from installer import progress
from installer.progress import Progress


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_elsewhere_each_step_has_its_lines():
    stream = io.StringIO()
    shown = Progress(2, stream)
    shown.step("First")
    shown.detail("looking for torch")
    shown.tick()
    shown.done()
    shown.step("Second")
    shown.done("is there")
    lines = stream.getvalue().splitlines()
    starts = [line.partition(",")[0].strip() for line in lines]
    assert starts == ["[1/2] First", "done", "[2/2] Second", "is there"]
    assert "\r" not in stream.getvalue()


def test_a_long_step_gives_signs_of_life(monkeypatch: pytest.MonkeyPatch):
    now = 100.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    stream = io.StringIO()
    shown = Progress(1, stream)
    shown.step("Long")
    shown.detail("installing 61 packages")
    for _ in range(40):
        now += 1
        shown.tick()
    assert stream.getvalue().splitlines()[1:] == [
        "      installing 61 packages (15 s)",
        "      installing 61 packages (30 s)",
    ]


def test_a_terminal_has_one_line_that_fits(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "40")
    stream = Terminal()
    shown = Progress(1, stream)
    shown.step("PyTorch")
    shown.detail("downloading a file with a very long name indeed")
    shown.tick()
    last = stream.getvalue().split("\r")[-1].removesuffix("\033[K")
    assert len(last) <= 39
    assert last.endswith(" 0 s")
    shown.done()
    assert stream.getvalue().count("\n") == 1
