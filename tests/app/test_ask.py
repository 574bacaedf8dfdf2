"""The command line as a person runs it: a process, its exit status, and what it prints."""

import json
import os
import pty
import signal
import struct
import subprocess
import sys
import time
import zlib

import pytest
from person import UNPRIVILEGED

from app import events
from app.ask import Printer, as_json, printable
from app.permissions.action import Action, Ask, Risk

MODULE = [sys.executable, "-m", "app"]


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("SIDELIGHT_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.delenv("QT_QPA_PLATFORM", raising=False)
    return tmp_path / "home"


def run(*arguments, **options):
    return subprocess.run(
        [*MODULE, *map(str, arguments)], capture_output=True, text=True, timeout=120, **options
    )


def refused(*arguments, **options):
    """The one sentence of a command that can't be carried out."""
    done = run(*arguments, **options)
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    [line] = done.stderr.strip().splitlines()
    assert line.endswith((".", '"')) and " " in line
    return line


def bomb(path):
    """A PNG of a few hundred bytes that claims 30,000 x 30,000 pixels."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 30_000, 30_000, 8, 2, 0, 0, 0)
    data = zlib.compress(b"\0" * 1000)
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")
    )
    return path


def test_a_missing_model(home, tmp_path):
    assert "missing.gguf" in refused("ask", "Hello", "--model", tmp_path / "missing.gguf")


def test_a_truncated_model(home, tmp_path, smollm2):
    (tmp_path / "short.gguf").write_bytes(smollm2.read_bytes()[:1_000_000])
    refused("ask", "Hello", "--model", tmp_path / "short.gguf")


def test_a_text_that_claims_to_be_a_model(home, tmp_path):
    (tmp_path / "text.gguf").write_text("Once upon a time there was no model.\n" * 100)
    assert "GGUF" in refused("ask", "Hello", "--model", tmp_path / "text.gguf")


def test_an_architecture_nobody_knows(home, tmp_path, smollm2):
    path = tmp_path / "odd.gguf"
    path.write_bytes(smollm2.read_bytes().replace(b"llama", b"alien", 1))
    assert "alien" in refused("ask", "Hello", "--model", path)


def test_a_folder_is_no_model(home, tmp_path):
    refused("ask", "Hello", "--model", tmp_path)


def test_a_missing_picture_leaves_no_empty_chat(home, tmp_path):
    assert "no.png" in refused("ask", "What is it?", "--image", tmp_path / "no.png")
    from app.store.conversations import Conversations
    from app.store.database import Database

    database = Database(home / "data" / "conversations.db")
    assert Conversations(database).all() == []
    database.close()


def test_a_page_that_claims_to_be_a_picture(home, tmp_path):
    (tmp_path / "page.png").write_text("<html></html>")
    assert "page.png" in refused("ask", "What is it?", "--image", tmp_path / "page.png")


def test_a_picture_that_explodes(home, tmp_path):
    assert "too large" in refused("ask", "What is it?", "--image", bomb(tmp_path / "bomb.png"))


def test_nothing_to_ask(home):
    assert "nothing to send" in refused("ask", " ")
    assert "nothing to send" in refused("ask", "-", stdin=subprocess.DEVNULL)


def test_standard_input_that_is_no_text(home):
    with subprocess.Popen([*MODULE, "ask", "-"], stdin=-1, stderr=-1) as process:
        _, error = process.communicate(b"\xff\xfe\x00\x01", timeout=60)
    assert process.returncode == 2 and b"UTF-8" in error and b"Traceback" not in error


def test_a_chat_that_is_not_there(home):
    assert "no chat" in refused("ask", "Hello", "--chat", "abc")


def test_a_home_that_is_a_file(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SIDELIGHT_HOME", str(tmp_path / "file"))
    assert "file in its place" in refused("ask", "Hello")
    assert "file in its place" in refused("doctor")


@pytest.mark.skipif(sys.platform != "linux", reason="root can be held back on Linux only")
@pytest.mark.parametrize("command", [["ask", "Hello"], ["doctor"]])
def test_a_home_without_permission(home, monkeypatch, command):
    home.mkdir(mode=0o500)
    monkeypatch.setattr(sys.modules[__name__], "MODULE", [*UNPRIVILEGED, *MODULE])
    assert "Permission denied" in refused(*command)


def test_no_display_for_the_window(home):
    assert "display" in refused("gui")


def test_no_display_for_the_screen(home):
    assert "display" in refused("ask", "What is on it?", "--screen")


@pytest.mark.parametrize("arguments", [["ask"], ["ask", "a", "--max-tokens", "0"], ["ask", "a", "--odd"]])
def test_wrong_arguments(home, arguments):
    done = run(*arguments)
    assert done.returncode == 2 and "usage:" in done.stderr and "Traceback" not in done.stderr


def test_doctor_says_what_is_missing_and_goes_on(home, tmp_path):
    done = run("doctor", "--model", tmp_path / "missing.gguf")
    lines = dict(line.split(":", 1) for line in done.stdout.strip().splitlines())
    assert done.returncode == 2 and done.stderr == ""
    assert lines["Model"].strip().startswith("no:")
    assert lines["Screen"].strip().startswith("no:")
    assert lines["Text reading"].strip() == "yes"
    assert set(lines) >= {"Sidelight", "Libraries", "Keyring", "Sandbox", "Files", "Folder for tools"}


def test_an_answer_is_streamed_kept_and_gone_on_with(home):
    started = time.monotonic()
    done = run("ask", "Say hello.", "--max-tokens", "24")
    seconds = time.monotonic() - started
    assert done.returncode == 0, done.stderr
    assert "hello" in done.stdout.lower() and done.stdout.endswith("\n")
    assert seconds < 30  # on a busy machine; alone it is a few
    again = run("ask", "And again.", "--json", "--max-tokens", "8")
    lines = [json.loads(line) for line in again.stdout.splitlines()]
    kinds = [line["event"] for line in lines]
    assert kinds[0] == "TurnStarted" and kinds[-1] == "TurnEnded" and "TextArrived" in kinds
    more = run("ask", "More.", "--json", "--max-tokens", "8", "--chat", lines[0]["conversation_id"][:8])
    assert json.loads(more.stdout.splitlines()[0])["conversation_id"] == lines[0]["conversation_id"]


def test_ctrl_c_keeps_what_was_written(home):
    process = subprocess.Popen(
        [*MODULE, "ask", "Write a very long story about the sea.", "--json"], stdout=-1, stderr=-1, text=True
    )
    shown = ""
    for line in process.stdout:
        event = json.loads(line)
        shown += event.get("text", "") if event["event"] == "TextArrived" else ""
        if len(shown) > 20:
            break
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130 and "Traceback" not in error
    from app.store.conversations import Conversations
    from app.store.database import Database

    database = Database(home / "data" / "conversations.db")
    store = Conversations(database)
    answer = store.get(store.all()[0].id).entries[1]
    assert answer.state == "stopped"
    assert answer.text.startswith(shown)
    database.close()


def test_a_reader_that_leaves_is_no_fault(home):
    process = subprocess.Popen([*MODULE, "ask", "Write a long story."], stdout=-1, stderr=-1)
    assert process.stdout.read(1)
    process.stdout.close()
    error = process.stderr.read()
    assert process.wait(60) == 1
    assert b"Traceback" not in error


def ask_event(future=None):
    action = Action(
        "shell.run", "{}", "Run a command?", "rm -r \u202e build", ("Network: no",), Risk.HIGH, "{}"
    )
    return events.PermissionAsked(Ask("1", action, "Because.", ()), future)


def test_json_is_plain(capsys):
    as_json(ask_event())
    as_json(events.TextArrived("ü\n"))
    asked, text = map(json.loads, capsys.readouterr().out.splitlines())
    assert asked["event"] == "PermissionAsked"
    assert asked["ask"]["action"]["facts"] == ["Network: no"]
    assert asked["ask"]["action"]["risk"] == "high"
    assert text == {"event": "TextArrived", "text": "ü\n"}


def test_what_steers_a_terminal_is_shown():
    assert printable("a\x1b[2J\u202eb\r\tü 漢\u00a0🙂\n") == "a\\u001b[2J\\u202eb\\u000d\tü 漢\u00a0🙂\n"


def test_asides_begin_on_a_line_of_their_own(capsys):
    printer = Printer(sys.stdout)
    for event in (events.TextArrived("Half"), events.NoticeRaised("Cut."), events.TurnEnded("length")):
        printer.show(event)
    out, error = capsys.readouterr()
    assert out == "Half\n" and error.splitlines()[0] == "Cut."


CONFIRM = f"""
import asyncio, sys
sys.path[:0] = {[os.path.dirname(__file__), *sys.path]!r}
from test_ask import ask_event
from app.ask import permission
print("ALLOW", asyncio.run(permission(ask_event())).allow)
"""


@pytest.mark.parametrize(
    ("typed", "allowed"), [("y", True), ("yes", True), ("", False), ("yep", False), ("n", False)]
)
def test_on_a_terminal_only_a_clear_yes_allows(typed, allowed):
    ours, theirs = pty.openpty()
    process = subprocess.Popen([sys.executable, "-c", CONFIRM], stdin=theirs, stdout=-1, stderr=theirs)
    os.close(theirs)
    shown = ""
    while "[y/N]" not in shown:
        shown += os.read(ours, 4096).decode()
    os.write(ours, (typed + "\n").encode())
    out, _ = process.communicate(timeout=60)
    os.close(ours)
    assert f"ALLOW {allowed}" in out.decode()
    assert "rm -r \\u202e build" in shown


def test_without_a_terminal_nothing_is_allowed():
    done = subprocess.run(
        [sys.executable, "-c", CONFIRM], input="y\n", capture_output=True, text=True, timeout=60
    )
    assert "ALLOW False" in done.stdout and "no terminal" in done.stderr
