"""Runs one program, with its words in the log and its state in the progress display."""

from __future__ import annotations

import os
import queue
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from installer.errors import SetupError
from installer.progress import Progress

# Settings of the person's own that would send packages elsewhere than into our environment.
MISLEADING = (
    "PYTHONPATH",
    "PYTHONHOME",
    "PIP_TARGET",
    "PIP_PREFIX",
    "PIP_ROOT",
    "PIP_REQUIRE_VIRTUALENV",
    "PIP_PYTHON",
)


@dataclass(frozen=True)
class Outcome:
    """How a program ended, and all that it printed."""

    code: int
    output: str


@dataclass
class Runner:
    """Starts programs one after the other."""

    log: Path
    progress: Progress
    lock: int | None = None  # a descriptor that keeps the lock held for as long as the program lives

    def run(
        self,
        words: Sequence[str],
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        short: Callable[[str], str | None] = lambda line: None,
        hold_lock: bool = False,
    ) -> Outcome:
        """Run to the end; `short` makes of a line of output what to show, or None to leave what is shown."""
        held = (self.lock,) if hold_lock and self.lock is not None and os.name != "nt" else ()
        with self.log.open("a", encoding="utf-8") as log:
            log.write(f"\n$ {' '.join(words)}\n")
            log.flush()
            process = start(words, cwd, {**environment(), **(env or {})}, held)
            try:
                lines = self._follow(process, log, short)
                return Outcome(process.wait(), "".join(lines))
            finally:
                end(process)

    def _follow(
        self, process: subprocess.Popen[str], log: TextIO, short: Callable[[str], str | None]
    ) -> list[str]:
        inbox: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        threading.Thread(target=pump, args=(process, inbox), daemon=True).start()
        lines: list[str] = []
        while True:
            try:
                line = inbox.get(timeout=self.progress.wait)
            except queue.Empty:
                self.progress.tick()
                continue
            if line is None:
                return lines
            lines.append(line)
            log.write(line)
            log.flush()
            if shown := short(line.strip()):
                self.progress.detail(shown)
            self.progress.tick()


def start(
    words: Sequence[str], cwd: Path | None, env: Mapping[str, str], held: Sequence[int]
) -> subprocess.Popen[str]:
    """Start a program whose stdout and stderr come to us as text lines."""
    try:
        return subprocess.Popen(
            words,
            cwd=cwd,
            env=env,
            pass_fds=held,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            errors="replace",
        )
    except OSError as error:
        raise SetupError(f"{words[0]} could not be started: {error.strerror}.") from error


def pump(process: subprocess.Popen[str], inbox: queue.SimpleQueue[str | None]) -> None:
    """Hand over each line, then None."""
    assert process.stdout is not None
    for line in process.stdout:
        inbox.put(line)
    inbox.put(None)


def end(process: subprocess.Popen[str]) -> None:
    """Leave no program behind when we are stopped."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def environment() -> dict[str, str]:
    """Our own environment without what would mislead Python or pip."""
    return {name: value for name, value in os.environ.items() if name not in MISLEADING}
