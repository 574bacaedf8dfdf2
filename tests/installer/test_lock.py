"""Two installations at once: the second waits, even for what a killed first one left running."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from installer.lock import WAITING, locked

HOLD = """
import subprocess, sys, pathlib
from installer.lock import locked
with locked(pathlib.Path(sys.argv[1])) as descriptor:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1.5)"], pass_fds=(descriptor,))
    print("held", flush=True)
    child.wait()
"""


def hold(path: Path) -> subprocess.Popen[str]:
    """A process that has the lock for 1.5 s, as has its child."""
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    return holder


def test_a_free_lock_is_taken_silently(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    for _ in range(2):
        with locked(tmp_path / "lock"):
            pass
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("kill", [False, True])
def test_a_taken_lock_is_waited_for(tmp_path: Path, capsys: pytest.CaptureFixture[str], kill: bool):
    began = time.monotonic()
    holder = hold(tmp_path / "lock")
    if kill:
        holder.kill()
        holder.wait()
    with locked(tmp_path / "lock"):
        assert time.monotonic() - began > 1.3
    assert WAITING in capsys.readouterr().err
    holder.communicate()
