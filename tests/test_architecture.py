"""The borders between the rooms: each is broken once here, to see that the linter notices."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rooms import ROOMS, ROOT, imported_names

LINT = "from importlinter.cli import lint_imports_command; lint_imports_command()"
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
CONTRACTS = {contract["name"]: contract for contract in SETTINGS["contracts"]}

ONE_DIRECTION = "ui -> app -> engine, one direction"
UI_WITHOUT_ENGINE = "ui never imports engine itself"
FRONT_DOOR = "engine's front door is the only way in"
PLAIN_ENGINE = "engine knows no Qt, no asyncio bridge, no network client"
PLAIN_CONTRACT = "engine's contract imports nothing of ours"
PLAIN_APP = "app knows no Qt"

GUARDED = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import engine.engine\n"
BREACHES = [
    (ONE_DIRECTION, "app/breach.py", "import ui", "app.breach -> ui"),
    (ONE_DIRECTION, "engine/breach.py", "import app.errors", "engine.breach -> app.errors"),
    (ONE_DIRECTION, "engine/text/breach.py", "def f():\n    import ui", "engine.text.breach -> ui"),
    (UI_WITHOUT_ENGINE, "ui/breach.py", "from engine import Text", "ui.breach -> engine"),
    (UI_WITHOUT_ENGINE, "ui/chat/breach.py", "def f():\n    import engine", "ui.chat.breach -> engine"),
    (FRONT_DOOR, "app/breach.py", "from engine.api import Text", "app.breach -> engine.api"),
    (FRONT_DOOR, "app/breach.py", "from engine import engine", "app.breach -> engine.engine"),
    (FRONT_DOOR, "app/backends/breach.py", GUARDED, "app.backends.breach -> engine.engine"),
    (PLAIN_CONTRACT, "engine/api.py", "from engine import plan", "engine.api -> engine.plan"),
    (PLAIN_APP, "app/breach.py", "from PySide6 import QtCore", "app.breach -> PySide6"),
]
BREACHES += [
    (PLAIN_ENGINE, "engine/breach.py", f"import {name}", f"engine.breach -> {name}")
    for name in CONTRACTS[PLAIN_ENGINE]["forbidden_modules"]
]


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the linter on the rooms in `folder`, which come before those that are installed."""
    command = [sys.executable, "-c", LINT]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, encoding="utf-8", check=False)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The rooms and their contracts, in a folder of their own."""
    folder = tmp_path_factory.mktemp("rooms")
    for room in ROOMS:
        shutil.copytree(ROOT / room, folder / room, ignore=shutil.ignore_patterns("__pycache__"))
    for path in ("engine/plan.py", "engine/engine.py"):  # there must be something to import
        (folder / path).touch()
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


@pytest.fixture
def breach(copy: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """The copied rooms with bad lines in them, taken out again afterwards."""
    before: dict[Path, str | None] = {}
    for place, line in request.param:
        path = copy / place
        if path not in before:
            before[path] = path.read_text(encoding="utf-8") if path.exists() else None
        with path.open("a", encoding="utf-8") as file:
            file.write(f"\n{line}\n")
    yield copy
    for path, old in before.items():
        path.unlink() if old is None else path.write_text(old, encoding="utf-8")


def test_the_rooms_keep_their_borders():
    result = lint(ROOT)
    assert result.returncode == 0, result.stdout
    assert f"{len(CONTRACTS)} kept, 0 broken" in result.stdout


def test_every_contract_is_broken_once_here():
    assert {contract for contract, *_ in BREACHES} == set(CONTRACTS)


BY_CONTRACT = {name: [entry for entry in BREACHES if entry[0] == name] for name in CONTRACTS}


@pytest.mark.parametrize(
    ("breach", "contract"),
    [([(place, line) for _, place, line, _ in entries], name) for name, entries in BY_CONTRACT.items()],
    indirect=["breach"],
    ids=list(BY_CONTRACT),
)
def test_a_broken_border_is_reported(breach: Path, contract: str):
    result = lint(breach)
    assert result.returncode == 1, result.stdout + result.stderr
    assert f"{contract} BROKEN" in result.stdout
    for _, _, _, arrow in BY_CONTRACT[contract]:
        assert f"{arrow} (l." in result.stdout, result.stdout


def test_the_installer_needs_nothing_installed():
    assert imported_names(ROOT / "installer") <= set(sys.stdlib_module_names) | {"installer"}


def test_nobody_imports_the_installer():
    for room in (*ROOMS, "resources"):
        assert "installer" not in imported_names(ROOT / room)
