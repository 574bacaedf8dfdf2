"""System packages: what is missing, who is asked, and what apt-get is told."""

from __future__ import annotations

import os
import struct
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from installer import system
from installer.process import Runner

Program = Callable[[str, str], Path]


def test_packages_of_missing_libraries_are_named_once():
    assert system.missing_libraries(lambda library: "glib" not in library and "thread" not in library) == [
        "libglib2.0-0"
    ]
    assert system.missing_libraries(lambda library: True) == []
    assert len(system.missing_libraries(lambda library: False)) == len(set(system.LIBRARIES.values()))


@pytest.mark.skipif(sys.platform != "linux", reason="these are Linux's packages")
def test_programs_that_are_not_on_the_path_are_missing(program: Program):
    assert "bubblewrap" in system.missing(tests=False, peer=False)
    assert {"xvfb", "openbox", "xdotool"} <= set(system.missing(tests=True, peer=False))
    program("bwrap", "")
    program("Xvfb", "")
    assert not {"bubblewrap", "xvfb"} & set(system.missing(tests=True, peer=False))
    assert "build-essential" in system.missing(tests=True, peer=True)


def test_the_loader_itself_is_asked():
    assert system.loads("libc.so.6")
    assert not system.loads("libnowhere.so.7")


def test_the_list_covers_what_qt_is_linked_with():
    """Qt's X11 plugin, as it is installed here, needs no library from outside that we do not know."""
    pyside = pytest.importorskip("PySide6")
    folder = Path(pyside.__file__).parent / "Qt"
    if not (folder / "lib").is_dir():
        pytest.skip("Qt's libraries lie elsewhere on this system")
    files = [*folder.glob("plugins/platforms/libq[xw]*.so")]
    names = ("Core", "Gui", "Widgets", "DBus", "XcbQpa", "Svg", "WaylandClient")
    files += [folder / "lib" / f"libQt6{name}.so.6" for name in names]
    runtime = {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "libstdc++.so.6", "ld-linux-x86-64.so.2"}
    needed = set().union(*(needed_libraries(path) for path in files)) - runtime
    assert {name for name in needed if not name.startswith(("libQt6", "libicu"))} <= set(system.LIBRARIES)
    assert "libxcb-cursor.so.0" in needed


def needed_libraries(path: Path) -> set[str]:
    """The libraries a 64-bit ELF file is linked with: its DT_NEEDED entries."""
    data = path.read_bytes()
    start, size, count = (*struct.unpack_from("<Q", data, 32), *struct.unpack_from("<HH", data, 54))
    headers = [struct.unpack_from("<IIQQQQQQ", data, start + size * i) for i in range(count)]
    loads = [(virtual, offset, length) for kind, _, offset, virtual, _, length, *_ in headers if kind == 1]
    (dynamic,) = [(offset, length) for kind, _, offset, _, _, length, *_ in headers if kind == 2]
    entries = [struct.unpack_from("<QQ", data, dynamic[0] + at) for at in range(0, dynamic[1], 16)]
    table = next(value for tag, value in entries if tag == 5)
    strings = next(table - start + offset for start, offset, length in loads if 0 <= table - start < length)
    names = [strings + value for tag, value in entries if tag == 1]
    return {data[at : data.index(b"\0", at)].decode() for at in names}


@pytest.mark.parametrize(("name", "expected"), [("a.ttf", True), ("deep/b.OTF", True), ("c.txt", False)])
def test_fonts_are_looked_for(tmp_path: Path, name: str, expected: bool):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.touch()
    assert system.has_font([str(tmp_path), str(tmp_path / "none")]) is expected


def test_without_apt_the_packages_are_named(program: Program, runner: Runner):
    text = system.provide(["libegl1", "libgl1"], runner, yes=True)
    assert text is not None
    assert "libegl1 libgl1" in text


def test_nobody_is_made_to_install(program: Program, runner: Runner, monkeypatch: pytest.MonkeyPatch):
    called = program("apt-get", "touch $0.called")
    program("sudo", 'exec "$@"')
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(system, "agrees", lambda names: False)
    text = system.provide(["libegl1"], runner, yes=False)
    assert text is not None
    assert "sudo apt-get install libegl1" in text
    assert not called.with_suffix(".called").exists()


def test_without_sudo_it_takes_another(program: Program, runner: Runner, monkeypatch: pytest.MonkeyPatch):
    program("apt-get", "")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    text = system.provide(["libegl1"], runner, yes=True)
    assert text is not None
    assert "administrator" in text


def test_nobody_at_the_keyboard_is_a_no(capsys: pytest.CaptureFixture[str]):
    assert system.agrees("libegl1") is False


def test_the_lists_are_updated_once_when_the_first_try_fails(program: Program, runner: Runner):
    script = 'echo "$@" >> $0.log; case "$*" in *update*) touch $0.up;; *) test -e $0.up;; esac'
    path = program("apt-get", script)
    assert system.apt(["libegl1"], runner, []) is None
    calls = [line.split()[3] for line in Path(f"{path}.log").read_text().splitlines()]
    assert calls == ["install", "update", "install"]


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("E: Failed to fetch http://example.org", "could not be downloaded"),
        ("E: Unable to locate package x", "Unable to locate package x"),
        ("", "no reason given"),
    ],
)
def test_a_failure_of_apt_is_a_sentence(program: Program, runner: Runner, output: str, expected: str):
    program("apt-get", f"echo '{output}'; exit 100")
    text = system.apt(["x"], runner, [])
    assert text is not None
    assert expected in text


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Get:1 http://example.org/debian bookworm/main amd64 libegl1 amd64 1.6.0-1", "downloading libegl1"),
        ("Unpacking libegl1:amd64 (1.6.0-1) ...", "installing libegl1:amd64"),
        ("Setting up libegl1:amd64 (1.6.0-1) ...", "installing libegl1:amd64"),
        ("Reading package lists...", None),
    ],
)
def test_apts_lines_are_shortened(line: str, expected: str | None):
    assert system.shorten(line) == expected
