"""Programs run as they were shown, held back, and are gone afterwards."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import shutil
import signal
import socket
import sys
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from app.permissions.action import Risk, Scope
from app.sandbox import bubblewrap
from app.tool import ToolContext, ToolError
from app.tools.shell_run import is_final, is_runner, run

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the programs used here are POSIX ones")
SANDBOX = pytest.param(
    "sandboxed", marks=pytest.mark.skipif(bool(bubblewrap.problem()), reason=bubblewrap.problem())
)


@pytest.fixture(params=[SANDBOX, "with your rights"])
def context(request, tmp_path, monkeypatch):
    if request.param != "sandboxed":
        monkeypatch.setattr(bubblewrap, "problem", lambda: "switched off for this test")
    folder = tmp_path / "work"
    folder.mkdir()
    return ToolContext(folder, None, None, "chat")


@pytest.fixture
def sandboxed(tmp_path):
    if bubblewrap.problem():
        pytest.skip(bubblewrap.problem())
    folder = tmp_path / "work"
    folder.mkdir()
    return ToolContext(folder, None, None, "chat", private=(folder / "data",))


async def call(context, *argv, timeout=20):
    return await run.run(context, {"argv": list(argv), "timeout": timeout})


@pytest.fixture
def nap():
    """How long a test's own `sleep` takes: no two tests and no two runs share it."""
    return f"{4_000 + secrets.randbelow(10**9) / 10**9:.9f}"


def alive(mark):
    """Processes whose command line has the mark."""
    found = []
    for each in psutil.process_iter(["cmdline", "status"]):
        line = " ".join(each.info["cmdline"] or [])
        if mark in line and each.info["status"] != psutil.STATUS_ZOMBIE and each.pid != os.getpid():
            found.append(each)
    return found


async def test_output_and_exit_code_are_told(context):
    assert await call(context, "echo", "hello world") == "hello world\n[exit code 0]"
    assert await call(context, "sh", "-c", "echo out; echo err >&2; exit 3") == "out\nerr\n[exit code 3]"
    assert await call(context, "true") == "[no output; exit code 0]"


async def test_no_shell_reads_the_arguments(context):
    text = await call(context, "echo", "$HOME", "; id", "`id`", "a  b", "*", "$(id)", "", "é\n日本")
    assert text == "$HOME ; id `id` a  b * $(id)  é\n日本\n[exit code 0]"


async def test_it_runs_in_the_granted_folder_and_may_write_there(context):
    assert str(context.folder.resolve()) in await call(context, "pwd")
    await call(context, "touch", "made")
    assert (context.folder / "made").exists()


async def test_the_environment_holds_no_secret_display_or_bus(context, monkeypatch):
    for name in (
        "OPENAI_API_KEY",
        "DISPLAY",
        "WAYLAND_DISPLAY",
        "DBUS_SESSION_BUS_ADDRESS",
        "XAUTHORITY",
        "LD_PRELOAD",
    ):
        monkeypatch.setenv(name, "s3cret")
    text = await call(context, "env")
    names = {line.split("=")[0] for line in text.splitlines() if "=" in line}
    assert names <= {"PATH", "HOME", "LANG", "PWD", "SIDELIGHT_CALL"}
    assert "s3cret" not in text
    if not bubblewrap.problem():
        assert "s3cret" not in await call(context, "sh", "-c", "cat /proc/*/environ | tr '\\0' '\\n'")


async def test_input_is_closed(context):
    assert await call(context, "cat", timeout=5) == "[no output; exit code 0]"


async def test_the_end_by_a_signal_is_told(context):
    assert "ended by signal SIGKILL" in await call(context, "sh", "-c", "kill -9 $$")
    assert "ended by signal SIGSEGV" in await call(context, "sh", "-c", "kill -SEGV $$")


async def test_a_slow_program_is_stopped_with_its_children(context, nap):
    before = time.monotonic()
    text = await call(context, "sh", "-c", f"sleep {nap} & (sleep {nap} &); sleep {nap}", timeout=1)
    assert "stopped after 1 seconds" in text
    assert time.monotonic() - before < 4
    assert alive(f"sleep {nap}") == []


@pytest.mark.skipif(shutil.which("setsid") is None, reason="setsid is not installed")
async def test_a_daemon_that_left_the_group_is_found(context, nap):
    await call(context, "sh", "-c", f"setsid sh -c 'setsid sleep {nap} & exit' & sleep 0.3; echo started")
    assert alive(f"sleep {nap}") == []


async def test_what_runs_on_in_the_background_ends_with_the_program(context, nap):
    before = time.monotonic()
    text = await call(context, "sh", "-c", f"sleep {nap} & echo started")
    assert text == "started\n[exit code 0]"
    assert time.monotonic() - before < 4
    assert alive(f"sleep {nap}") == []


async def test_stopping_the_turn_ends_it_within_a_second(context, nap):
    task = asyncio.create_task(call(context, "sh", "-c", f"sleep {nap} & sleep {nap}", timeout=60))
    while not alive(f"sleep {nap}"):
        await asyncio.sleep(0.05)
    before = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert time.monotonic() - before < 1.5
    assert alive(f"sleep {nap}") == []


async def test_endless_output_is_stopped_and_cut(context):
    text = await call(context, "yes", "line of output")
    assert len(text) < 70_000
    assert "[cut:" in text and "stopped: it printed more than 8,388,608 bytes" in text


async def test_the_head_and_the_tail_of_long_output_are_kept(context):
    text = await call(context, "seq", "1", "100000")
    assert text.startswith("1\n2\n3\n") and text.endswith("99999\n100000\n[exit code 0]")
    assert "bytes left out]" in text


async def test_output_of_just_the_limit_is_whole(context):
    text = await call(context, "head", "-c", "65536", "/dev/zero")
    assert "[cut" not in text
    text = await call(context, "head", "-c", "65537", "/dev/zero")
    assert "[cut: 1 of 65,537 bytes left out]" in text


async def test_terminal_escapes_do_not_reach_the_model(context):
    text = await call(context, "printf", r"a\033[2Jb\033]52;c;eA==\007c\033]8;;http://x\033\\d\re\000f\377")
    assert text == "abcd\ne\ufffdf\ufffd\n[exit code 0]"


@pytest.mark.parametrize(
    ("argv", "timeout", "said"),
    [
        ([], 5, "'argv' is empty"),
        ([""], 5, "'argv' is empty"),
        (["no-such-program"], 5, "there is no program 'no-such-program'"),
        (["git status"], 5, "as an item of its own"),
        (["ls", "a\0b"], 5, "NUL"),
        (["ls"], 0, "from 1 to 600"),
        (["ls"], 100_000, "from 1 to 600"),
    ],
)
def test_a_call_that_makes_no_sense_is_said_before_anybody_is_asked(context, argv, timeout, said):
    with pytest.raises(ToolError, match=said):
        run.describe(context, {"argv": argv, "timeout": timeout})


def test_without_a_folder_nothing_runs():
    with pytest.raises(ToolError, match="not granted a folder"):
        run.describe(ToolContext(None, None, None, "chat"), {"argv": ["ls"]})


def test_the_person_is_told_exactly_what_runs_and_how_it_is_held_back(context):
    action = run.describe(context, {"argv": ["grep", "a b", "x;y"], "timeout": 5})
    assert action.risk is Risk.HIGH and action.detail == "grep 'a b' 'x;y'"
    assert json.loads(action.arguments) == {"argv": ["grep", "a b", "x;y"], "timeout": 5}
    sandboxed = any(fact.startswith("Sandboxed") for fact in action.facts)
    assert sandboxed != any(fact.startswith("Not sandboxed: runs with your rights") for fact in action.facts)
    assert sandboxed == (not bubblewrap.problem())


@pytest.mark.parametrize(
    "argv",
    [
        ["sh", "-c", "x"],
        ["bash", "x"],
        ["/bin/sh", "x"],
        ["python3.11", "-c", "x"],
        ["PYTHON.EXE", "x"],
        ["env", "ls"],
        ["sudo", "ls"],
        ["xargs", "rm"],
        ["find", ".", "-exec", "rm", "{}", ";"],
        ["watch", "ls"],
        ["./script"],
        ["awk", "x"],
        ["ssh", "h"],
        ["node", "-e", "x"],
    ],
)
def test_what_could_run_anything_is_granted_once_only(context, argv):
    assert is_runner(argv)
    action = replace(
        run.describe(context, {"argv": ["ls"]}),
        subject=json.dumps({"argv": argv, "folder": "/w", "sandboxed": True}),
    )
    assert [offer.scope for offer in run.offers(action)] == [Scope.ONCE]


@pytest.mark.parametrize(
    "argv", [["rm", "x"], ["git", "push"], ["git", "reset", "--hard"], ["dd"], ["mkfs.ext4"]]
)
def test_what_cannot_be_taken_back_is_granted_once_only(argv):
    assert is_final(argv) and not is_final(["git", "status"])


def test_a_command_too_long_to_be_judged_is_granted_once_only(context):
    action = run.describe(context, {"argv": ["ls", "x" * 10_001]})
    assert [offer.scope for offer in run.offers(action)] == [Scope.ONCE]


def test_a_command_without_a_sandbox_is_never_granted_for_good(context):
    scopes = [offer.scope for offer in run.offers(run.describe(context, {"argv": ["ls"]}))]
    assert scopes == [Scope.ONCE, Scope.CHAT, *([] if bubblewrap.problem() else [Scope.ALWAYS])]


PROBE = """
import socket, sys
try:
    kind, where = sys.argv[1:]
    if kind == "tcp":
        socket.create_connection(("127.0.0.1", int(where)), 2)
    elif kind == "udp":
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", int(where)))
        sys.exit(9)
    elif kind == "abstract":
        socket.socket(socket.AF_UNIX).connect("\\0" + where)
    else:
        socket.socket(socket.AF_UNIX).connect(where)
    print("CONNECTED")
except OSError as error:
    print("no", error)
"""


async def test_the_sandbox_hides_the_machine(sandboxed, tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("s3cret")
    (sandboxed.folder / "link").symlink_to(secret)
    (sandboxed.folder / "data").mkdir()
    (sandboxed.folder / "data" / "audit.jsonl").write_text("s3cret")
    (sandboxed.folder / ".git" / "hooks").mkdir(parents=True)
    for argv in (["cat", str(secret)], ["cat", "link"], ["cat", "data/audit.jsonl"], ["cat", "/etc/shadow"]):
        text = await call(sandboxed, *argv)
        assert "s3cret" not in text and "exit code 1" in text, argv
    for target in ("/usr/x", ".git/hooks/x", "/x"):
        assert "exit code 1" in await call(sandboxed, "touch", target)
    assert str(os.getpid()) not in (await call(sandboxed, "sh", "-c", "cd /proc; echo [0-9]*")).split()
    assert "exit code 0" not in await call(sandboxed, "unshare", "-Ur", "true")
    assert "exit code 0" not in await call(sandboxed, "kill", "-0", str(os.getpid()))


async def test_the_sandbox_reaches_no_network_and_no_socket(sandboxed):
    (sandboxed.folder / "probe.py").write_text(PROBE)
    name = f"sidelight-test-{os.getpid()}"
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as abstract:
        abstract.bind("\0" + name)
        abstract.listen()
        port = str(tcp.getsockname()[1])
        for argv in (["tcp", port], ["abstract", name], ["path", "/tmp/.X11-unix/X0"]):
            text = await call(sandboxed, "python3", "probe.py", *argv)
            assert "no " in text and "CONNECTED" not in text, text


@pytest.mark.skipif(
    shutil.which("python3", path=bubblewrap.SEARCH) is None, reason="python3 is not in the system"
)
async def test_the_sandbox_has_limits(sandboxed):
    code = "x = bytearray(6 << 30); x[::4096] = bytes(len(x[::4096])); print('GOT IT')"
    assert "GOT IT" not in await call(sandboxed, "python3", "-c", code)
    big = "f = open('/tmp/big', 'wb'); f.write(bytes(100 << 20)); f.close(); print('GOT IT')"
    assert "GOT IT" not in await call(sandboxed, "python3", "-c", big)
    assert "GOT IT" not in await call(
        sandboxed, "python3", "-c", "f = [open('/dev/null') for _ in range(5000)]; print('GOT IT')"
    )


async def test_keys_in_a_granted_home_folder_stay_shut(sandboxed, monkeypatch):
    monkeypatch.setattr(Path, "home", lambda: sandboxed.folder)
    (sandboxed.folder / ".ssh").mkdir()
    (sandboxed.folder / ".ssh" / "id_rsa").write_text("s3cret")
    (sandboxed.folder / ".netrc").write_text("s3cret")
    for path in (".ssh/id_rsa", ".netrc"):
        assert "s3cret" not in await call(sandboxed, "cat", path)


async def test_nothing_is_left_when_the_app_is_killed(sandboxed, nap):
    code = (
        "import asyncio, sys\nfrom pathlib import Path\n"
        "from app.tool import ToolContext\nfrom app.tools.shell_run import run\n"
        "context = ToolContext(Path(sys.argv[1]), None, None, 'c')\n"
        "asyncio.run(run.run(context, {'argv': ['sleep', sys.argv[2]]}))"
    )
    app = await asyncio.create_subprocess_exec(sys.executable, "-c", code, str(sandboxed.folder), nap)
    for _ in range(200):
        if alive(f"sleep {nap}"):
            break
        await asyncio.sleep(0.05)
    assert alive(f"sleep {nap}")
    app.send_signal(signal.SIGKILL)
    await app.wait()
    await asyncio.sleep(0.5)
    assert alive(f"sleep {nap}") == []


def test_a_machine_without_bubblewrap_says_so(monkeypatch):
    monkeypatch.setattr(bubblewrap, "SEARCH", "/nonexistent")
    bubblewrap.problem.cache_clear()
    try:
        assert bubblewrap.problem() in (
            "bubblewrap is not installed",
            "there is no sandbox for this system yet",
        )
    finally:
        monkeypatch.undo()
        bubblewrap.problem.cache_clear()
