"""The process from start to end."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLAY = """
import sys
sys.path[:0] = ["tests"]
from fakes import Pause, Scripted, say
from engine import Text
from app.build import build
from ui import main
from ui.single import SingleInstance
from PySide6.QtCore import QTimer
app = main.make_application()
backend = Scripted([Text("Half "), Pause(seconds=60)])
services = build(backend=backend)
instance = SingleInstance(services.paths.data)
assert instance.claim()
def type_something():
    from PySide6.QtWidgets import QApplication
    window = next(w for w in QApplication.topLevelWidgets() if hasattr(w, "pane"))
    window.pane.send("Talk", False)
    QTimer.singleShot(500, lambda: (print("ready", flush=True), __HOOK__))
QTimer.singleShot(500, type_something)
code = main.run(app, services, instance)
instance.close()
print("closed", backend.closed, backend.cancelled, flush=True)
sys.exit(code)
"""


def play(tmp_path, hook: str = "0") -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-X", "dev", "-c", PLAY.replace("__HOOK__", hook)],
        cwd=ROOT,
        env={**os.environ, "SIDELIGHT_HOME": str(tmp_path / "home"), "QT_QPA_PLATFORM": "offscreen"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX systems")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_quits_in_order_midway_through_an_answer(tmp_path, number):
    process = play(tmp_path)
    assert process.stdout.readline() == "ready\n"
    began = time.monotonic()
    process.send_signal(number)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 0, err
    assert time.monotonic() - began < 3
    assert out == "closed True 1\n"
    assert err == ""


def test_quitting_loses_no_word(tmp_path):
    process = play(tmp_path)
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=20)
    again = (
        "from app.build import build; import sys; sys.path[:0] = ['tests']; from fakes import Scripted;"
        "a = build(backend=Scripted()).assistant; c = a.conversation(a.conversations()[0].id);"
        "print([(e.role, e.text, e.state) for e in c.entries])"
    )
    environment = {**os.environ, "SIDELIGHT_HOME": str(tmp_path / "home")}
    said = subprocess.run(
        [sys.executable, "-c", again], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60
    ).stdout
    assert said == "[('user', 'Talk', 'complete'), ('assistant', 'Half ', 'stopped')]\n"


def test_the_loop_ended_from_outside_closes_in_order_too(tmp_path):
    process = play(tmp_path, hook="app.exit()")
    out, err = process.communicate(timeout=30)
    assert process.returncode == 0 and out == "ready\nclosed True 1\n" and err == ""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX systems")
@pytest.mark.parametrize("seconds", [0.7, 5])
def test_the_real_thing_quits_while_its_model_loads_and_after(tmp_path, seconds):
    process = subprocess.Popen(
        [sys.executable, "-m", "ui.main"],
        cwd=ROOT,
        env={**os.environ, "SIDELIGHT_HOME": str(tmp_path / "home"), "QT_QPA_PLATFORM": "offscreen"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    end = time.monotonic() + 30
    while not (tmp_path / "home" / "data" / "window.socket").exists():
        assert process.poll() is None and time.monotonic() < end
        time.sleep(0.02)
    time.sleep(seconds)
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 0 and out == "" and err == ""
    assert time.monotonic() - began < 3.5


def test_an_error_nobody_caught_is_shown_and_the_app_goes_on(tmp_path):
    hook = (
        "QTimer.singleShot(0, lambda: 1 / 0),"
        " QTimer.singleShot(400, lambda: (print([type(w).__name__ for w in app.topLevelWidgets()"
        " if w.isVisible()], flush=True), app.exit()))"
    )
    process = play(tmp_path, hook=hook)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 0
    shown = out.splitlines()[1]
    assert "FailureDialog" in shown and "MainWindow" in shown
    assert "ZeroDivisionError" in (tmp_path / "home" / "state" / "sidelight.log").read_text()
    assert err == ""


def test_the_window_is_there_within_a_second_before_what_the_model_needs(tmp_path):
    """Counted in seconds of the processor, since others may keep it busy."""
    code = (
        "import sys, time\n"
        "from PySide6.QtCore import QTimer\n"
        "from ui import main\n"
        "from ui.window import MainWindow\n"
        "shown = MainWindow.showEvent\n"
        "def show(self, event):\n"
        "    shown(self, event)\n"
        "    heavy = [name for name in ('torch', 'numba', 'llvmlite') if name in sys.modules]\n"
        "    print(time.process_time(), heavy, flush=True)\n"
        "    QTimer.singleShot(0, self, self.quit_wanted.emit)\n"
        "MainWindow.showEvent = show\n"
        "sys.exit(main.main([]))\n"
    )
    environment = {**os.environ, "SIDELIGHT_HOME": str(tmp_path / "home"), "QT_QPA_PLATFORM": "offscreen"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60
    )
    seconds, _, heavy = done.stdout.splitlines()[0].partition(" ")
    assert float(seconds) < 1.0 and heavy == "[]", done.stdout + done.stderr


def test_the_windows_modules_bring_no_heavy_library():
    check = (
        "import sys; import ui.main, ui.window, ui.failures, ui.signals, ui.mask, ui.single, app.build;"
        "print([name for name in ('torch', 'onnxruntime', 'numpy', 'rapidocr', 'tokenizers', 'llguidance',"
        " 'numba', 'llvmlite')"
        " if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", check], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.stdout == "[]\n", done.stderr
