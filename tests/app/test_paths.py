"""Where files go, and what is said when they cannot."""

import os

import pytest

from app import log, paths
from app.errors import UserError


def test_everything_lies_under_the_home_that_is_set(tmp_path, monkeypatch):
    monkeypatch.setenv("SIDELIGHT_HOME", str(tmp_path / "home"))
    found = paths.find()
    for path in (found.settings, found.database, found.grants, found.audit, found.log, found.folder):
        assert path.is_relative_to(tmp_path / "home")
    assert found.database.parent.is_dir()
    assert not found.folder.exists()
    assert found.data.stat().st_mode & 0o077 == 0


def test_without_it_the_folders_of_the_system_are_used(tmp_path, monkeypatch):
    monkeypatch.delenv("SIDELIGHT_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    assert paths.find().settings == tmp_path / "XDG_CONFIG_HOME" / "sidelight" / "settings.toml"
    assert paths.find().folder == tmp_path / "Sidelight"


def test_a_file_in_the_way_is_a_sentence(tmp_path, monkeypatch):
    (tmp_path / "home").write_text("")
    monkeypatch.setenv("SIDELIGHT_HOME", str(tmp_path / "home"))
    with pytest.raises(UserError, match="file in its place"):
        paths.find()


def test_a_folder_that_may_not_be_written_is_a_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)
    monkeypatch.setenv("SIDELIGHT_HOME", str(tmp_path))
    with pytest.raises(UserError, match="may not write"):
        paths.find()


def test_a_log_that_cannot_be_opened_is_done_without(tmp_path):
    assert log.start(tmp_path / "missing" / "x.log") is None
    handler = log.start(tmp_path / "x.log")
    log.stop(handler)
    assert (tmp_path / "x.log").exists()
