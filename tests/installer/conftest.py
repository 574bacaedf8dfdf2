"""A checkout without anything in it, and programs that only pretend."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from installer.place import Place
from installer.process import Runner
from installer.progress import Progress
from installer.steps import STEPS
from tests.rooms import ROOT


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """An empty checkout with the installer in it."""
    root = tmp_path / "checkout"
    shutil.copytree(ROOT / "installer", root / "installer", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", root)
    (root / ".bootstrap").mkdir()
    return Place(root)


@pytest.fixture
def runner(place: Place) -> Runner:
    """Runs programs and shows the progress on stderr."""
    return Runner(place.log, Progress(STEPS))


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], Path]:
    """Puts a shell script on an otherwise empty path."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))

    def put(name: str, script: str) -> Path:
        path = folder / name
        path.write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\n{script}\n")
        os.chmod(path, 0o755)
        return path

    return put
