"""An engine in a process of its own: `python -m engine.bench.child ours` answers lines of JSON with such."""

from __future__ import annotations

import ctypes
import json
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from engine.api import EngineError
from engine.bench import machine
from engine.bench.measures import MEASURES, Opened, Plan, Rater, first

DIES_WITH_PARENT = 1  # PR_SET_PDEATHSIG


class Child:
    """What it has opened, and what can be asked of it."""

    def __init__(self, engine: str, path: str, threads: int, plan: dict[str, Any]) -> None:
        self._plan = Plan(**plan)
        self._opened = _open(engine, Path(path), threads, self._plan)
        self._rater: Rater | None = None

    def about(self) -> dict[str, Any]:
        """What has been opened."""
        opened = self._opened
        return {
            "seconds": opened.seconds,
            "version": opened.version,
            "features": opened.features,
            "bytes_per_token": opened.bytes_per_token,
        }

    def measure(self, name: str) -> list[float]:
        """Seconds, as the measure of that name returns them."""
        return MEASURES[name](self._opened.steppers, self._plan)

    def first(self) -> None:
        """Take in one token."""
        first(self._opened.steppers, self._plan)

    def peak(self) -> int:
        """The most memory it has held, in bytes."""
        return machine.peak_bytes()

    def rate(self, ids: list[int], path: str, context: int) -> None:
        """Write (n, vocabulary) logits into a file; the tokens follow those of the calls before."""
        if self._rater is None:
            self._rater = self._opened.begin(context)
        np.asarray(self._rater.rate(ids)).tofile(path)


def main() -> None:
    """Open what the first line says, then answer questions until there are no more."""
    _follow_parent()
    with suppress(KeyboardInterrupt):
        try:
            child = Child(sys.argv[1], **_question())
            _answer({"found": child.about()})
            while question := _question():
                ask = getattr(child, question.pop("ask"))
                _answer({"found": ask(**question)})
        except EngineError as error:
            _answer({"problem": str(error)})


def _open(engine: str, path: Path, threads: int, plan: Plan) -> Opened:
    if engine == "ours":
        from engine import device

        with device.gentle_start():
            from engine.bench import ours

        return ours.opened(path, threads, plan)
    from engine.bench import theirs

    return theirs.opened(path, threads, plan)


def _follow_parent() -> None:
    """End if the parent ends without a word: this process may be stopped then, and wouldn't notice."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(DIES_WITH_PARENT, signal.SIGKILL, 0, 0, 0)


def _question() -> dict[str, Any]:
    return json.loads(sys.stdin.readline() or "{}")


def _answer(values: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(values) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
