"""Running a program in the granted folder: an argument list, never a line for a shell to take apart."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import shutil
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from app.permissions.action import Action, Offer, Risk, Scope
from app.permissions.beneath import closed, granted
from app.sandbox import bubblewrap, process
from app.tool import Description, Refused, ToolContext, ToolError, tool

LONGEST = 600  # seconds
SHOWABLE = 10_000  # letters; a longer command can't be judged by a person, so it is never granted for longer
# What these run is decided by their arguments, a file or what they are told later: granting one grants all.
RUNNERS = re.compile(
    r"(ba|da|z|fi|k|c|tc|a|mk|pd)?sh|busybox|toybox|cmd|powershell|pwsh|wsl"
    r"|python[\d.]*w?|pypy[\d.]*|perl[\d.]*|ruby[\d.]*|node|nodejs|deno|bun|lua[\d.]*|luajit|php[\d.]*|tclsh|wish"
    r"|r|rscript|julia|ghci?|java|jshell|groovy|scala|osascript|awk|[gmn]awk|sed|ed|ex|vim?|nvim|emacs|gdb|lldb"
    r"|env|sudo|su|doas|pkexec|runuser|setpriv|chroot|unshare|nsenter|bwrap|xargs|parallel|find|fd|watch|time|timeout"
    r"|nice|ionice|nohup|setsid|stdbuf|script|expect|flock|strace|ltrace|systemd-run|at|batch|crontab|screen|tmux"
    r"|ssh|scp|sftp|rsync|docker|podman|make|gmake|ninja|cmake|npm|npx|pnpm|yarn|pip[\d.]*|uv|uvx|pipx|cargo|go"
    r"|gradle|mvn|ant|just|task|rake|tar|zip"
)
# What these do can't be taken back: each time is asked.
FINAL = re.compile(
    r"rm|rmdir|unlink|shred|dd|mkfs.*|wipefs|truncate|mv|cp|install|ln|chmod|chown|kill|pkill|killall"
)
FINAL_GIT = {
    "push",
    "reset",
    "clean",
    "checkout",
    "restore",
    "rebase",
    "rm",
    "gc",
    "config",
    "filter-branch",
    "-c",
}
ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_].*?(?:\x07|\x1b\\|\Z)|[ -/]*[0-~])", re.DOTALL)
CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


def describe(context: ToolContext, argv: list[str], timeout: int) -> Description:
    """The call in words, with what will hold the program back."""
    folder = _check(context, argv, timeout)
    problem = bubblewrap.problem()
    facts = (
        ("Sandboxed: sees this folder and the system's programs", "Network: no")
        if not problem
        else (f"Not sandboxed: runs with your rights ({problem})", "Network: yes")
    )
    return Description(
        headline="Run a command?",
        detail=shlex.join(argv),
        facts=(f"Folder: {folder}", *facts, f"Stopped after {timeout} seconds"),
        risk=Risk.HIGH,
        subject={"argv": argv, "folder": str(folder), "sandboxed": not problem},
    )


def offers(action: Action) -> tuple[Offer, ...]:
    """A grant covers this exact command in this folder; what could be anything, or is final, asks anew."""
    subject: Mapping[str, Any] = json.loads(action.subject)
    once = Offer(Scope.ONCE, "this command, once")
    if len(action.detail) > SHOWABLE or is_runner(subject["argv"]) or is_final(subject["argv"]):
        return (once,)
    words = f"exactly `{action.detail}` in {subject['folder']}"
    chat = Offer(Scope.CHAT, f"{words}, in this chat")
    if not subject["sandboxed"]:
        return once, chat
    return once, chat, Offer(Scope.ALWAYS, f"{words}, in every chat")


def is_runner(argv: Sequence[str]) -> bool:
    """Whether the program runs what its arguments say, or is a file that could be exchanged."""
    return "/" in argv[0] or "\\" in argv[0] or RUNNERS.fullmatch(_name(argv[0])) is not None


def is_final(argv: Sequence[str]) -> bool:
    """Whether what it does can't be taken back."""
    name = _name(argv[0])
    return FINAL.fullmatch(name) is not None or (name == "git" and not FINAL_GIT.isdisjoint(argv[1:]))


def _name(program: str) -> str:
    return Path(program).name.casefold().removesuffix(".exe")


def _check(context: ToolContext, argv: list[str], timeout: int) -> Path:
    folder = granted(context)
    if not argv or not argv[0]:
        raise ToolError("shell.run was not run: 'argv' is empty. Its first item is the program.")
    if any("\0" in each for each in argv):
        raise ToolError("shell.run was not run: 'argv' contains a NUL character.")
    if not 1 <= timeout <= LONGEST:
        raise ToolError(f"shell.run was not run: 'timeout' must be from 1 to {LONGEST} seconds.")
    if shutil.which(argv[0], path=_environment()["PATH"]) is None and "/" not in argv[0]:
        hint = " Give the program and each argument as an item of its own." if " " in argv[0] else ""
        raise ToolError(f"shell.run was not run: there is no program {argv[0]!r}.{hint}")
    if any(folder.is_relative_to(each) for each in closed(context)):
        raise Refused(f"{folder} is closed to every tool.")
    return folder


def _environment() -> dict[str, str]:
    """The little a program needs: no secrets, no display, no session bus."""
    if sys.platform == "win32":
        kept = ("PATH", "SYSTEMROOT", "TEMP", "USERPROFILE", "PATHEXT")
        return {name: os.environ[name] for name in kept if name in os.environ}
    return {"PATH": bubblewrap.SEARCH, "HOME": str(Path.home()), "LANG": "C.UTF-8"}


@tool("shell.run", describe=describe, offers=offers, destructive=True, open_world=True)
async def run(
    context: ToolContext,
    argv: Annotated[
        list[str], 'The program and its arguments, one item each: ["git", "status"]. No shell reads it.'
    ],
    timeout: Annotated[int, "Seconds after which the program is stopped."] = 60,
) -> str:
    """Run a program in the folder the user granted, and return what it printed. The user is asked first."""
    stop = threading.Event()
    work = asyncio.ensure_future(asyncio.to_thread(_run, context, argv, timeout, stop))
    try:
        ended = await asyncio.shield(work)
    except asyncio.CancelledError:
        stop.set()
        await asyncio.wait([work])  # nothing of it is left when the turn has ended
        raise
    return report(ended, timeout)


def _run(context: ToolContext, argv: list[str], timeout: int, stop: threading.Event) -> process.Ended:
    folder, command, env = _check(context, argv, timeout), argv, _environment()
    if not bubblewrap.problem():
        command, env = bubblewrap.wrap(argv, folder, closed(context)), {"PATH": bubblewrap.SEARCH}
    try:
        return process.run(command, folder, env, timeout, stop)
    except OSError as error:
        raise ToolError(f"{argv[0]} could not be started: {error.strerror}.") from error


def report(ended: process.Ended, timeout: int) -> str:
    """What the model is told: the output, what was cut from it, and how the program ended."""
    left_out = ended.size - len(ended.head) - len(ended.tail)
    if left_out > 0:
        middle = f"\n[cut: {left_out:,} of {ended.size:,} bytes left out]\n"
        text = _clean(ended.head) + middle + _clean(ended.tail)
    else:
        text = _clean(ended.head + ended.tail)
    return (
        f"{text.rstrip()}\n[{_ending(ended, timeout)}]"
        if text.strip()
        else f"[no output; {_ending(ended, timeout)}]"
    )


def _clean(data: bytes) -> str:
    """As text, without terminal escapes."""
    text = ESCAPES.sub("", data.decode(errors="replace")).replace("\r\n", "\n").replace("\r", "\n")
    return CONTROLS.sub("\ufffd", text)


def _ending(ended: process.Ended, timeout: int) -> str:
    match ended.ending:
        case "timed out":
            return f"stopped after {timeout} seconds"
        case "stopped":
            return "stopped by the user"
        case "too much output":
            return f"stopped: it printed more than {process.MOST_OUTPUT:,} bytes"
        case _ if ended.code < 0 or (ended.code > 128 and ended.code - 128 in _signals()):
            number = -ended.code if ended.code < 0 else ended.code - 128
            return f"ended by signal {_signals().get(number, number)}"
        case _:
            return f"exit code {ended.code}"


def _signals() -> dict[int, str]:
    return {each.value: each.name for each in signal.Signals}
