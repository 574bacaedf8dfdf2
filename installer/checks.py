"""The checks that a change has to pass."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

from installer.levels import Level
from installer.place import Place

LINT_IMPORTS = "from importlinter.cli import lint_imports_command; lint_imports_command()"


def commands(level: Level, arguments: Sequence[str]) -> dict[str, list[str]]:
    """Each check's name and its arguments for Python; pytest is last, and so is its closing line."""
    if level.name == "peer":
        return {"pytest, against llama.cpp": ["-m", "pytest", "-m", "peer", *arguments]}
    return {
        "ruff": ["-m", "ruff", "check", "."],
        "mypy": ["-m", "mypy"],
        "lint-imports": ["-c", LINT_IMPORTS],
        "pytest": ["-m", "pytest", *arguments],
    }


def run_checks(place: Place, level: Level, arguments: Sequence[str]) -> int:
    """Run all, whatever fails; the exit code is that of the first that failed."""
    first = 0
    env = {**os.environ, "QT_QPA_PLATFORM": "offscreen"}
    for name, words in commands(level, arguments).items():
        print(f"== {name}", file=sys.stderr, flush=True)
        code = subprocess.run([str(place.python), *words], cwd=place.root, env=env, check=False).returncode
        if code != 0:
            print(f"== {name} failed with {code}", file=sys.stderr, flush=True)
        first = first or code
    return first
