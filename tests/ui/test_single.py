"""A second start raises the first window."""

import subprocess
import sys
from pathlib import Path

import pytest

from app.errors import UserError
from ui.single import SingleInstance, socket_name

ROOT = Path(__file__).parents[2]
SECOND = """
import sys
from pathlib import Path
from PySide6.QtCore import QCoreApplication
from ui.single import SingleInstance
app = QCoreApplication([])
instance = SingleInstance(Path(sys.argv[1]))
print(instance.claim(), flush=True)
if len(sys.argv) > 2:
    import os
    os._exit(0)  # as if killed: neither lock nor socket is taken away
"""


def second(folder: Path, *more: str) -> subprocess.Popen:
    command = [sys.executable, "-c", SECOND, str(folder), *more]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_the_second_start_shows_the_first_and_ends(qtbot, tmp_path):
    first = SingleInstance(tmp_path)
    assert first.claim()
    with qtbot.waitSignal(first.raised, timeout=20_000):
        process = second(tmp_path)
    qtbot.waitUntil(lambda: process.poll() is not None, timeout=20_000)
    out, err = process.communicate()
    assert (out, err) == ("False\n", "")
    first.close()


def test_one_that_was_killed_is_no_obstacle(qtbot, tmp_path):
    process = second(tmp_path, "die")
    assert process.communicate(timeout=30)[0] == "True\n"
    assert (tmp_path / "window.lock").exists()
    after = SingleInstance(tmp_path)
    assert after.claim()
    after.close()


def test_another_folder_is_another_app(qapp, tmp_path):
    one, two = SingleInstance(tmp_path / "a"), SingleInstance(tmp_path / "b")
    assert one.claim() and two.claim()
    one.close()
    two.close()


def test_one_that_does_not_answer_is_named(qtbot, tmp_path):
    first = SingleInstance(tmp_path)
    assert first.claim()
    first._server.close()
    with pytest.raises(UserError, match="does not answer"):
        SingleInstance(tmp_path).claim()
    first.close()


def test_a_long_path_gets_a_short_name(tmp_path):
    assert len(socket_name(tmp_path / ("x" * 120))) < 100
