"""The virtual environment is made, kept, mended and made anew."""

from __future__ import annotations

from installer import environment
from installer.place import Place
from installer.process import Runner


def test_an_environment_is_made_kept_and_made_anew(place: Place, runner: Runner):
    assert environment.provide(place, runner)
    assert environment.installed_version(place, "pip")
    (place.venv / "mine").touch()
    assert not environment.provide(place, runner)
    assert (place.venv / "mine").exists()
    place.python.unlink()
    place.python.symlink_to("/nowhere/python3")
    assert not environment.is_usable(place)
    assert environment.provide(place, runner)
    assert not (place.venv / "mine").exists()


def test_a_file_in_the_way_is_taken_away(place: Place):
    place.venv.write_text("not a folder")
    environment.remove(place)
    assert not place.venv.exists()


def test_a_link_is_taken_away_and_its_target_kept(place: Place):
    target = place.root / "elsewhere"
    target.mkdir()
    place.venv.symlink_to(target)
    environment.remove(place)
    assert target.is_dir()
    assert not place.venv.is_symlink()


def test_only_what_pip_left_half_done_is_dropped(place: Place):
    packages = place.venv / "lib" / "python3.11" / "site-packages"
    for name in ("whole-1.0.dist-info", "half-2.0.dist-info", "~orch", "torch", "whole"):
        (packages / name).mkdir(parents=True)
    for name in ("METADATA", "RECORD"):
        (packages / "half-2.0.dist-info" / name).touch()
    for name in ("METADATA", "RECORD", "INSTALLER"):
        (packages / "whole-1.0.dist-info" / name).touch()
    assert sorted(environment.mend(place)) == ["half-2.0.dist-info", "~orch"]
    assert sorted(path.name for path in packages.iterdir()) == ["torch", "whole", "whole-1.0.dist-info"]


def test_versions_are_read_with_their_local_part(place: Place):
    packages = place.venv / "lib" / "python3.11" / "site-packages"
    (packages / "torch-2.13.0+cpu.dist-info").mkdir(parents=True)
    (packages / "torchvision-1.0.dist-info").mkdir()
    assert environment.installed_version(place, "torch") == "2.13.0+cpu"
    assert environment.installed_version(place, "numpy") is None
