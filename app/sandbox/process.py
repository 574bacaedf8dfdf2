"""A program run to its end: no input, little environment, output capped, nothing of it left afterwards."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

import psutil

HEAD = TAIL = 32 << 10  # bytes of output kept from each end
MOST_OUTPUT = 8 << 20  # bytes after which the program is stopped
STEP = 0.02  # seconds between looks at the program
MARK = "SIDELIGHT_CALL"  # found again in the environment of a child that left its group

Ending = Literal["exited", "timed out", "stopped", "too much output"]


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended. `code` is negative for a signal, as in subprocess; `size` counts all output."""

    ending: Ending
    code: int
    head: bytes
    tail: bytes
    size: int


class Output:
    """The first and the last bytes of a stream, and how many there were."""

    def __init__(self) -> None:
        self.head, self.size = bytearray(), 0
        self._tail: deque[bytes] = deque()
        self._kept = 0

    def add(self, data: bytes) -> None:
        """Take more of the stream."""
        self.size += len(data)
        room = HEAD - len(self.head)
        self.head += data[:room]
        if rest := data[room:] if room > 0 else data:
            self._tail.append(rest)
            self._kept += len(rest)
            while self._kept - len(self._tail[0]) >= TAIL:
                self._kept -= len(self._tail.popleft())

    @property
    def tail(self) -> bytes:
        """The last bytes, those in the head not repeated."""
        return b"".join(self._tail)[-TAIL:]


def run(
    argv: Sequence[str], folder: Path, env: Mapping[str, str], timeout: float, stop: threading.Event
) -> Ended:
    """Run `argv` in `folder` until it ends, `timeout` seconds passed or `stop` is set; raises OSError."""
    mark = secrets.token_hex(16)
    process = subprocess.Popen(
        list(argv),
        cwd=folder,
        env={**env, MARK: mark},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    output = Output()
    assert process.stdout is not None
    reader = threading.Thread(target=_drain, args=(process.stdout, output), daemon=True)
    reader.start()
    try:
        ending = _wait(process, output, time.monotonic() + timeout, stop)
    finally:
        _kill(process, mark)
        # A child that escaped may hold the pipe open for ever; what it still writes is not waited for.
        reader.join(1.0)
    return Ended(ending, process.wait(), bytes(output.head), output.tail, output.size)


def _drain(stream: IO[bytes], output: Output) -> None:
    with stream:
        while data := os.read(stream.fileno(), 1 << 16):
            output.add(data)
            if output.size > MOST_OUTPUT:
                return


def _wait(process: subprocess.Popen[bytes], output: Output, deadline: float, stop: threading.Event) -> Ending:
    while True:
        if output.size > MOST_OUTPUT:
            return "too much output"
        if process.poll() is not None:
            return "exited"
        if stop.is_set():
            return "stopped"
        if time.monotonic() > deadline:
            return "timed out"
        stop.wait(STEP)


def _kill(process: subprocess.Popen[bytes], mark: str) -> None:
    """End the program, its group, its descendants, and those that left both."""
    below = _below(process.pid)
    if sys.platform != "win32":
        with suppress(ProcessLookupError, PermissionError):  # the group is gone already
            os.killpg(process.pid, signal.SIGKILL)
    if process.poll() is None:
        process.kill()
    process.wait()
    for each in [*below, *_marked(mark)]:
        try:
            each.kill()
        except psutil.Error:
            continue


def _below(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return []


def _marked(mark: str) -> list[psutil.Process]:
    """Processes of ours that carry the call's mark: a daemon forked twice has no other tie to the call."""
    found = []
    for each in psutil.process_iter():
        try:
            if each.environ().get(MARK) == mark:
                found.append(each)
        except (psutil.Error, OSError):
            continue
    return found
