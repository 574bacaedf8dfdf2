"""Calls pip, shows what it does in few words, and turns its failures into sentences."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from installer.errors import SetupError
from installer.place import Place
from installer.process import Runner

# pip's own settings, proxies and indexes stay in force; only these are set.
ENVIRONMENT = {
    "PIP_USER": "0",
    "PIP_NO_INPUT": "1",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_NO_COLOR": "1",
}

# Without retries pip says nothing of a connection, only that there are no versions at all.
NETWORK = re.compile(
    r"NewConnectionError|Failed to establish a new connection|ConnectTimeoutError|ReadTimeoutError"
    r"|ConnectionResetError|ProxyError|NameResolutionError|Temporary failure in name resolution"
    r"|Connection refused|connection broken|Network is unreachable"
    r"|from versions: none|Read timed out|IncompleteRead|RemoteDisconnected|SSLError|Could not fetch URL"
)
# The latter when a constraint file of the person's own names the package too.
NOT_FOUND = re.compile("No matching distribution found|ResolutionImpossible")
COMPLAINT = re.compile(" requires | has requirement ")
LAST_ERROR = re.compile(r"^ERROR: (?!pip's dependency resolver)(.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Pip:
    """The pip of our environment."""

    place: Place
    runner: Runner

    def install(self, arguments: Sequence[str], what: str, missing: str | None = None) -> None:
        """Install, or raise a sentence; `missing` is the one for a version that no index has."""
        words = [str(self.place.python), "-m", "pip", "install", "--progress-bar=off", *arguments]
        outcome = self.runner.run(words, cwd=self.place.root, env=ENVIRONMENT, short=shorten, hold_lock=True)
        if outcome.code != 0:
            raise SetupError(explain(outcome.output, what, self.place.log, missing))

    def complaints(self, tolerated: Sequence[str]) -> list[str]:
        """What `pip check` finds wrong, leaving out packages that are there for their files only."""
        words = [str(self.place.python), "-m", "pip", "check"]
        outcome = self.runner.run(words, cwd=self.place.root, env=ENVIRONMENT)
        if outcome.code == 0:
            return []
        lines = [line for line in outcome.output.splitlines() if COMPLAINT.search(line)]
        return [line for line in lines if line.split()[0] not in tolerated]


def shorten(line: str) -> str | None:
    """One of pip's lines in a few words, or None if it says nothing to a person."""
    match line.split():
        case ["Collecting", name, *_]:
            return f"looking for {re.split('[<>=!~;[(]', name)[0]}"
        case ["Downloading", address, *size]:
            return f"downloading {address.rsplit('/', 1)[-1]} {' '.join(size)}".strip()
        case ["Processing" | "Obtaining", path, *_]:
            return f"reading {path.rsplit('/', 1)[-1]}"
        case ["Installing", "collected", "packages:", *names]:
            return f"installing {len(names)} package{'s' if len(names) > 1 else ''}"
        case ["Building", "wheel" | "editable", "for", name, *_]:
            return f"building {name}"
        case ["Attempting", "uninstall:", name]:
            return f"replacing {name}"
    return None


def explain(output: str, what: str, log: Path, missing: str | None = None) -> str:
    """Why pip failed, and what to do about it."""
    if "No space left on device" in output or "Errno 28" in output or "Disk quota exceeded" in output:
        return f"The disk is full, so {what} could not be installed. Free some space, then run this again."
    if "Permission denied" in output or "Read-only file system" in output:
        return f"There is no permission to write {what} to disk. Make this folder yours, or move it home."
    if "DO NOT MATCH THE HASHES" in output:
        return f"The download of {what} is not the expected file, so it was thrown away. Run this again."
    if missing and NOT_FOUND.search(output):
        return missing
    if NETWORK.search(output):
        return (
            f"The package index could not be reached, so {what} could not be downloaded. Check the network "
            "(and the proxy or index set for pip, if any), then run this again; what is there is kept."
        )
    errors = LAST_ERROR.findall(output)
    reason = errors[-1].strip() if errors else "pip ended with an error"
    return f"{what} could not be installed: {reason.rstrip('.')}. All that pip said is in {log}."
