"""An engine in a process of its own, from outside: it runs only while it is asked."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryFile
from time import perf_counter
from typing import Any, Literal, Self

import numpy as np
import psutil

from engine import device
from engine.api import BadRequest, EngineError
from engine.bench.measures import Plan

Side = Literal["ours", "theirs"]
NAMES: dict[Side, str] = {"ours": "Sidelight", "theirs": "llama.cpp"}
VERSION = "0.3.36"  # of llama.cpp's binding: the one our figures are made with
SECONDS_TO_END = 10


def require_theirs() -> None:
    """Refuse if llama.cpp isn't installed."""
    if importlib.util.find_spec("llama_cpp") is None:
        raise BadRequest(
            "llama.cpp isn't installed here; this compiles it, which takes minutes: "
            f"{sys.executable} -m pip install llama-cpp-python=={VERSION}"
        )


class Worker:
    """An engine with a model. A context manager: the process ends with it."""

    def __init__(self, side: Side, path: Path, threads: int, plan: Plan) -> None:
        self._name, self._started = NAMES[side], perf_counter()
        self._errors = TemporaryFile()  # noqa: SIM115 - closed by `close`
        self._child = subprocess.Popen(
            [sys.executable, "-m", "engine.bench.child", side],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            encoding="utf-8",
            cwd=Path(__file__).parents[2],  # from where `engine` can be imported
            env={name: value for name, value in os.environ.items() if name != device.SPINS},
        )
        self._process = psutil.Process(self._child.pid)
        try:
            opened = self._converse(path=str(path.resolve()), threads=threads, plan=asdict(plan))
        except BaseException:
            self.close()
            raise
        self.seconds = float(opened["seconds"])
        self.version, self.features = str(opened["version"]), str(opened["features"])
        self.bytes_per_token = int(opened["bytes_per_token"])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def measure(self, name: str) -> list[float]:
        """Seconds, as the measure of that name returns them."""
        return [float(seconds) for seconds in self._converse(ask="measure", name=name)]

    def first(self) -> float:
        """Seconds from the start of the process until it has taken in a token."""
        self._converse(ask="first")
        return perf_counter() - self._started

    def peak(self) -> int:
        """The most memory it has held, in bytes."""
        return int(self._converse(ask="peak"))

    def rate(self, ids: Sequence[int], path: Path, context: int) -> np.ndarray:
        """(n, vocabulary) logits after each of the tokens, by way of a file."""
        self._converse(ask="rate", ids=list(ids), path=str(path), context=context)
        return np.fromfile(path, np.float32).reshape(len(ids), -1)

    def close(self) -> None:
        """End the process."""
        with suppress(psutil.NoSuchProcess):
            self._process.resume()
        with suppress(BrokenPipeError, subprocess.TimeoutExpired):
            self._child.communicate(timeout=SECONDS_TO_END)
        if self._child.poll() is None:
            self._child.kill()
            self._child.wait()
        self._errors.close()

    def _converse(self, **question: Any) -> Any:
        """Ask, and wait for the answer; before and after that it stands still, its threads too."""
        assert self._child.stdin is not None and self._child.stdout is not None
        try:
            self._process.resume()
            self._child.stdin.write(json.dumps(question) + "\n")
            self._child.stdin.flush()
            answer = json.loads(self._child.stdout.readline() or "{}")
            if "found" in answer:
                self._process.suspend()
                return answer["found"]
        except (psutil.NoSuchProcess, BrokenPipeError):
            answer = {}
        raise EngineError(f"{self._name} has failed: {answer.get('problem') or self._last_words()}")

    def _last_words(self) -> str:
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").split("\n")
        said = [line.strip() for line in lines if line.strip()]
        return said[-1] if said else "it has ended unexpectedly."
