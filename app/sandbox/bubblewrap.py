"""The Linux sandbox: bubblewrap with the granted folder and the system's programs alone; no network."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

SEARCH = "/usr/local/bin:/usr/bin:/bin"
HOME = "/home/agent"
SCRATCH = 64 << 20  # bytes of /tmp and of the home folder, both gone afterwards
SYSTEM = ("bin", "sbin", "lib", "lib32", "lib64")
READABLE = ("/etc/alternatives", "/etc/ld.so.cache", "/etc/localtime", "/nix/store")
LIMITS = ("--core=0", "--nofile=1024", "--nproc=512", f"--fsize={1 << 30}", f"--data={4 << 30}")


def wrap(argv: Sequence[str], folder: Path, hidden: Sequence[Path] = ()) -> list[str]:
    """The command line that runs `argv` inside; start it with `env={"PATH": SEARCH}` and nothing more.

    `--clearenv` alone is not enough: what bwrap was started with can be read in /proc/1/environ.
    """
    inside = str(folder)
    parts = ["bwrap", "--unshare-user", "--unshare-all", "--disable-userns", "--die-with-parent"]
    parts += ["--new-session", "--cap-drop", "ALL", "--clearenv"]
    parts += ["--setenv", "PATH", SEARCH, "--setenv", "HOME", HOME, "--setenv", "LANG", "C.UTF-8"]
    parts += ["--ro-bind", "/usr", "/usr", *_system(), "--proc", "/proc", "--dev", "/dev"]
    for each in ("/tmp", HOME):
        parts += ["--size", str(SCRATCH), "--tmpfs", each]
    parts += [
        "--bind",
        inside,
        inside,
        *_closed(folder, hidden),
        "--remount-ro",
        "/",
        "--chdir",
        inside,
        "--",
    ]
    return [*parts, *_limits(), *argv]


def _system() -> list[str]:
    parts: list[str] = []
    for name in SYSTEM:
        path = Path("/", name)
        if path.is_symlink():
            parts += ["--symlink", str(path.readlink()), str(path)]
        elif path.exists():
            parts += ["--ro-bind", str(path), str(path)]
    for each in READABLE:
        parts += ["--ro-bind-try", each, each]
    return parts


def _closed(folder: Path, hidden: Sequence[Path]) -> list[str]:
    """What stays shut inside the folder: its version control for writing, what is hidden altogether."""
    git, parts = folder / ".git", list[str]()
    if git.exists() and not git.is_symlink():
        parts += ["--ro-bind", str(git), str(git)]
    for each in hidden:
        if each.is_relative_to(folder) and each.exists():
            parts += ["--tmpfs", str(each)] if each.is_dir() else ["--ro-bind", "/dev/null", str(each)]
    return parts


def _limits() -> list[str]:
    found = shutil.which("prlimit", path=SEARCH)
    return [found, *LIMITS] if found and found.startswith("/usr/") else []


@lru_cache(1)
def problem() -> str:
    """Empty if programs can be sandboxed here, else why not. Tried once, with a harmless program."""
    if not sys.platform.startswith("linux"):
        return "there is no sandbox for this system yet"
    if shutil.which("bwrap", path=SEARCH) is None:
        return "bubblewrap is not installed"
    with tempfile.TemporaryDirectory() as folder:
        try:
            command = wrap(["true"], Path(folder).resolve())
            tried = subprocess.run(
                command, env={"PATH": SEARCH}, stdin=subprocess.DEVNULL, capture_output=True, timeout=10
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"bubblewrap does not start ({error})"
    said = tried.stderr.decode(errors="replace").strip().splitlines()
    return (
        ""
        if tried.returncode == 0
        else f"bubblewrap does not work ({said[-1] if said else 'no reason given'})"
    )
