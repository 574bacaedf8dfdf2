"""What cannot open a window says so in one sentence, with exit code 2 and no traceback."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from app import __main__ as app
from app.errors import UserError
from installer import command as installer
from ui import display

ROOT = Path(__file__).parents[2]


def start(tmp_path, **environment):
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return subprocess.run(
        [sys.executable, "-m", "ui.main"],
        cwd=ROOT,
        env={**kept, "SIDELIGHT_HOME": str(tmp_path / "home"), **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


LINUX = pytest.mark.skipif(sys.platform != "linux", reason="other systems always have a display")


@LINUX
@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({}, "no display"),
        ({"DISPLAY": ":9731"}, ":9731 cannot be opened"),
        ({"DISPLAY": "nonsense"}, "nonsense cannot be opened"),
        ({"WAYLAND_DISPLAY": "wayland-nowhere", "XDG_RUNTIME_DIR": "/nonexistent"}, "cannot be opened"),
        ({"QT_QPA_PLATFORM": "xcb"}, "no display"),
        ({"QT_QPA_PLATFORM": "nonsense"}, "nonsense"),
    ],
)
def test_no_display_is_one_sentence(tmp_path, environment, words):
    done = start(tmp_path, **environment)
    assert done.returncode == 2
    assert words in done.stderr and len(done.stderr.strip().splitlines()) == 1
    assert done.stdout == ""


@LINUX
@pytest.mark.parametrize(
    "environment", [{}, {"DISPLAY": ":9731"}, {"WAYLAND_DISPLAY": "nowhere"}], ids=["none", "x11", "wayland"]
)
def test_who_has_no_display_is_told_how_to_ask_without_one(environment):
    with pytest.raises(UserError) as raised:
        display.check(environment)
    told = str(raised.value).partition("To ask from a terminal instead: ")[2]
    python, script, *arguments = shlex.split(told)
    assert python == "python3" and (ROOT / script).is_file()
    assert installer.parser().parse_args(installer.split(arguments)[0]).command == "run"
    assert app.parser().parse_args(installer.split(arguments)[1]).command == "ask"


def test_a_home_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "home").write_text("a file")
    done = start(tmp_path, QT_QPA_PLATFORM="offscreen")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr and len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("version", "python", "refused"),
    [("6.12.0", (3, 11), True), ("6.12.0", (3, 12), False), ("6.11.3", (3, 11), False)],
)
def test_the_qt_that_loses_references_is_refused(version, python, refused):
    if refused:
        with pytest.raises(UserError, match=r"6\.11\.3"):
            display.refuse_broken_qt(version, python)
    else:
        display.refuse_broken_qt(version, python)


def test_a_missing_library_names_its_package():
    said = display.missing_library("libxcb-cursor.so.0: cannot open shared object file: No such file")
    assert "libxcb-cursor.so.0" in said and "apt install libxcb-cursor0" in said and "bootstrap" in said
    assert "libodd.so.3" in display.missing_library("libodd.so.3: cannot open shared object file")


def test_void_calls_lose_no_reference_to_none(qapp):
    from PySide6.QtWidgets import QLabel

    label = QLabel()
    before = sys.getrefcount(None)
    for _ in range(500):
        label.setText("x")
    assert sys.getrefcount(None) > before - 250
