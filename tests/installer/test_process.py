"""Programs are run with their words kept, and none outlives us."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from installer.errors import SetupError
from installer.process import Runner


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_output_and_code_come_back_and_stay_in_the_log(runner: Runner):
    code = "import sys; print('out'); print('err \\N{SNOWMAN}', file=sys.stderr); sys.exit(3)"
    outcome = runner.run(python(code), env={"PYTHONIOENCODING": "utf-8"})
    assert outcome.code == 3
    assert sorted(outcome.output.splitlines()) == ["err ☃", "out"]
    assert "err ☃" in runner.log.read_text(encoding="utf-8")


def test_output_that_is_no_text_does_no_harm(runner: Runner):
    assert "�" in runner.run(python("import sys; sys.stdout.buffer.write(b'\\xff\\n')")).output


def test_settings_that_mislead_pip_are_left_out(runner: Runner, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PIP_TARGET", "/elsewhere")
    monkeypatch.setenv("PIP_INDEX_URL", "https://example.org/simple")
    code = "import os; print(os.environ.get('PIP_TARGET'), os.environ['PIP_INDEX_URL'], os.environ['MORE'])"
    words = runner.run(python(code), env={"MORE": "1"}).output.split()
    assert words == ["None", "https://example.org/simple", "1"]


def test_a_program_that_is_not_there_is_a_sentence(runner: Runner):
    with pytest.raises(SetupError, match="could not be started"):
        runner.run(["/nowhere/pip"])


def test_being_stopped_ends_the_program(runner: Runner, tmp_path: Path):
    def stop(line: str) -> str | None:
        (tmp_path / "pid").write_text(line)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        runner.run(python("import os, time; print(os.getpid(), flush=True); time.sleep(60)"), short=stop)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_the_lock_is_handed_to_programs_that_must_hold_it(runner: Runner):
    read, write = os.pipe()
    runner.lock = write
    code = f"import os; os.write({write}, b'x')"
    assert runner.run(python(code)).code != 0
    assert runner.run(python(code), hold_lock=True).code == 0
    assert os.read(read, 1) == b"x"
    os.close(read)
    os.close(write)


def test_lines_appear_as_they_come(runner: Runner):
    seen: list[float] = []
    code = "import time; print('a', flush=True); time.sleep(1); print('b', flush=True)"
    runner.run(python(code), short=lambda line: seen.append(time.monotonic()))
    assert seen[1] - seen[0] > 0.5
