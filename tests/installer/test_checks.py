"""The checks: all are run, and the first failure decides."""

from __future__ import annotations

import pytest

from installer.checks import commands, run_checks
from installer.levels import PEER, TEST
from installer.place import Place

# Stands in for the environment's Python: says what it was asked, and fails for mypy and pytest.
SCRIPT = """#!/bin/sh
echo "$QT_QPA_PLATFORM $PWD $*"
case "$*" in *mypy*) exit 4;; *pytest*) exit 1;; esac
"""


def test_pytest_is_last_and_gets_the_arguments():
    asked = commands(TEST, ["-k", "grants"])
    assert list(asked) == ["ruff", "mypy", "lint-imports", "pytest"]
    assert asked["pytest"] == ["-m", "pytest", "-k", "grants"]


def test_the_comparison_runs_only_its_own_tests():
    assert list(commands(PEER, ["-x"]).values()) == [["-m", "pytest", "-m", "peer", "-x"]]


def test_all_are_run_and_the_first_failure_decides(place: Place, capfd: pytest.CaptureFixture[str]):
    place.python.parent.mkdir(parents=True)
    place.python.write_text(SCRIPT)
    place.python.chmod(0o755)
    assert run_checks(place, TEST, ["-x"]) == 4
    lines = capfd.readouterr().out.splitlines()
    assert len(lines) == 4
    assert all(line.startswith(f"offscreen {place.root} ") for line in lines)
    assert lines[-1].endswith("-m pytest -x")
