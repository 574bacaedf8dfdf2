"""Which model file is used."""

import sys

import pytest

from app.errors import UserError
from app.library import found
from app.library.found import default_model


def test_the_installed_model_is_found_without_importing_its_package():
    path = default_model()
    assert path.suffix == ".gguf" and path.read_bytes()[:4] == b"GGUF"[:4]
    assert found.PACKAGE not in sys.modules


def test_the_chosen_one_goes_first(tmp_path):
    (tmp_path / "own.gguf").write_bytes(b"GGUF")
    assert default_model(f"  {tmp_path}/own.gguf ") == tmp_path / "own.gguf"


def test_a_chosen_one_that_is_gone_is_a_sentence(tmp_path):
    with pytest.raises(UserError, match=r"own\.gguf isn't there"):
        default_model(str(tmp_path / "own.gguf"))


@pytest.mark.parametrize("package", ["no_such_package_here", "app"])
def test_none_installed_says_what_to_do(monkeypatch, package):
    monkeypatch.setattr(found, "PACKAGE", package)
    with pytest.raises(UserError, match=r"bootstrap\.py"):
        default_model()
