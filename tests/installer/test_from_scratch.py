"""The whole installation, killed on the way: minutes, and it downloads (`pytest -m slow`)."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.rooms import ROOMS, ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What a person gets who downloads Sidelight."""
    target = tmp_path / "side light"
    for folder in (*ROOMS, "resources", "installer"):
        shutil.copytree(ROOT / folder, target / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, target)
    return target


def start(checkout: Path, home: Path, *arguments: str) -> subprocess.Popen[str]:
    """Start the installer in a process group and a home of its own."""
    words = [sys.executable, str(checkout / "installer" / "bootstrap.py"), "run", "--", *arguments]
    env = {**os.environ, "SIDELIGHT_HOME": str(home)}
    return subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env, start_new_session=True
    )


def wait_for(path: Path, pattern: str) -> None:
    """Until the installation has come so far."""
    until = time.monotonic() + 900
    while not list(path.glob(pattern)):
        assert time.monotonic() < until
        time.sleep(0.02)


def test_an_installation_that_was_killed_goes_on_and_answers(checkout: Path, tmp_path: Path):
    packages = ".venv/lib/python3.*/site-packages/"
    for half_done in (f"{packages}torch/nn", f"{packages}numpy/linalg"):
        process = start(checkout, tmp_path / "home", "doctor")
        wait_for(checkout, half_done)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        assert not (checkout / ".venv" / "sidelight-setup.json").exists()
    process = start(checkout, tmp_path / "home", "ask", "Say hello.")
    answer, shown = process.communicate()
    assert process.returncode == 0, shown
    assert answer.strip()
    assert "[7/7] Preparing for this processor" in shown
    assert "[7/7]" not in answer


def test_a_second_start_waits_for_the_first(checkout: Path, tmp_path: Path):
    first = start(checkout, tmp_path / "home", "--help")
    wait_for(checkout, ".bootstrap/lock")
    second = start(checkout, tmp_path / "home", "--help")
    (one, _), (two, shown) = first.communicate(), second.communicate()
    assert (first.returncode, second.returncode) == (0, 0)
    assert one == two != ""
    assert "waiting for it to finish" in shown
    assert "[1/7]" not in shown
