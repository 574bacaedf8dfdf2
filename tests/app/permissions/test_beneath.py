"""Files are opened beneath the granted folder and nowhere else."""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from pathlib import Path

import pytest

from app.permissions import beneath
from app.permissions.beneath import locate, open_file
from app.tool import Refused, ToolContext, ToolError

pytestmark = pytest.mark.skipif(os.name != "posix", reason="these are POSIX paths")


@pytest.fixture(params=["openat2", "by piece"])
def context(request, tmp_path, monkeypatch):
    if request.param == "by piece":

        def missing(*_):
            raise OSError(38, "Function not implemented")

        monkeypatch.setattr(beneath, "_openat2", missing)
    elif sys.platform != "linux":
        pytest.skip("openat2 is of Linux")
    folder = tmp_path / "ws"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.txt").write_text("inside")
    (folder / "sub" / "b.txt").write_text("deeper")
    (tmp_path / "ws-evil").mkdir()
    (tmp_path / "ws-evil" / "x").write_text("sibling")
    (tmp_path / "secret").write_text("secret")
    data = folder / "data"
    data.mkdir()
    (data / "audit.jsonl").write_text("log")
    return ToolContext(folder, None, None, "chat", private=(data,))


def read(context, path):
    with os.fdopen(open_file(context, path), "rb") as file:
        return file.read().decode()


@pytest.mark.parametrize("path", ["a.txt", "./a.txt", "sub/b.txt", "sub//b.txt"])
def test_inside_is_opened(context, path):
    assert read(context, path) in ("inside", "deeper")


def test_an_absolute_path_inside_is_opened(context):
    assert read(context, str(context.folder / "a.txt")) == "inside"


@pytest.mark.parametrize(
    "path",
    [
        "../secret",
        "sub/../../secret",
        "sub/../a.txt",
        "..",
        "/etc/passwd",
        "/proc/self/environ",
        "/",
        "~/.ssh/id_rsa",
        "out",
        "out_dir/secret",
        "data/audit.jsonl",
        "data/../data/audit.jsonl",
        "into_data",
        "sub",
        "pipe",
        "socket",
        "loop",
        "",
        "a.txt\0.png",
        "missing",
        "a.txt/x",
        "x" * 5_000,
        "∕etc∕passwd",
    ],
)
def test_everything_else_is_refused_without_hanging(context, path, tmp_path, monkeypatch):
    folder = context.folder
    (folder / "out").symlink_to(tmp_path / "secret")
    (folder / "out_dir").symlink_to("..")
    (folder / "into_data").symlink_to("data/audit.jsonl")
    (folder / "loop").symlink_to("loop")
    os.mkfifo(folder / "pipe")
    server = socket.socket(socket.AF_UNIX)
    monkeypatch.chdir(folder)  # its own path may be too long
    server.bind("socket")
    before = time.monotonic()
    with pytest.raises(ToolError) as caught:
        open_file(context, path)
    server.close()
    assert time.monotonic() - before < 1
    assert str(caught.value).endswith(".")


@pytest.mark.parametrize("path", ["/ws-evil/x", "/ws/../secret", "/ws/../ws-evil/x"])
def test_a_sibling_with_the_same_beginning_is_outside(context, path):
    with pytest.raises(Refused):
        open_file(context, str(context.folder.parent) + path)


def test_a_link_that_stays_inside_is_followed_and_located(context):
    (context.folder / "near").symlink_to("sub/b.txt")
    try:
        place = locate(context, "near")
    except Refused:  # without openat2 no link is followed
        return
    assert place == context.folder.resolve() / "sub" / "b.txt"


def test_no_descriptor_is_left_open(context):
    os.mkfifo(context.folder / "pipe")
    before = set(os.listdir("/proc/self/fd")) if sys.platform == "linux" else set()
    for path in ("a.txt", "pipe", "sub", "missing", "data/audit.jsonl"):
        try:
            os.close(open_file(context, path))
        except ToolError:
            continue
    assert sys.platform != "linux" or set(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize(
    "path", ["proc/1/environ", "proc/self/environ", "proc/version", "sys/kernel/uevent_seqnum", "dev/zero"]
)
def test_the_whole_disk_granted_does_not_open_the_system(path):
    if not Path("/", path).exists():
        pytest.skip("not on this system")
    with pytest.raises(ToolError):
        open_file(ToolContext(Path("/"), None, None, "chat"), path)


@pytest.mark.parametrize("path", [".ssh/id_rsa", ".aws/credentials", ".netrc", "link"])
def test_a_granted_home_folder_does_not_open_the_keys(tmp_path, monkeypatch, path):
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    for each in (".ssh/id_rsa", ".aws/credentials", ".netrc", "notes.txt"):
        (tmp_path / each).parent.mkdir(exist_ok=True)
        (tmp_path / each).write_text("key")
    (tmp_path / "link").symlink_to(".ssh/id_rsa")
    context = ToolContext(tmp_path, None, None, "chat")
    assert read(context, "notes.txt") == "key"
    with pytest.raises(Refused, match="closed to every tool"):
        open_file(context, path)


def test_without_a_folder_nothing_is_opened():
    with pytest.raises(ToolError, match="not granted a folder"):
        open_file(ToolContext(None, None, None, "chat"), "a.txt")


def test_a_granted_folder_that_is_gone_is_said(tmp_path):
    with pytest.raises(ToolError, match="not there any more"):
        open_file(ToolContext(tmp_path / "gone", None, None, "chat"), "a.txt")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_is_said(context):
    (context.folder / "a.txt").chmod(0)
    with pytest.raises(ToolError, match="permission denied"):
        open_file(context, "a.txt")


def test_a_race_of_renames_never_leads_out(tmp_path):
    folder = tmp_path / "ws"
    folder.mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "x").write_text("secret")
    (folder / "in").mkdir()
    (folder / "in" / "x").write_text("inside")
    (folder / "link").symlink_to(tmp_path / "out")
    over = threading.Event()

    def exchange():
        while not over.is_set():
            for old, new in (("in", "t"), ("link", "in"), ("in", "link"), ("t", "in")):
                os.rename(folder / old, folder / new)

    thread = threading.Thread(target=exchange)
    thread.start()
    context, seen, until = ToolContext(folder, None, None, "chat"), set(), time.monotonic() + 1.5
    try:
        while time.monotonic() < until:
            try:
                seen.add(read(context, "in/x"))
            except ToolError:
                seen.add("refused")
    finally:
        over.set()
        thread.join()
    assert seen <= {"inside", "refused"} and "inside" in seen
