"""The window as the app itself opens it, but with a model that plays a script: it asks to run a command.

As a command: `python tests/tools/scripted_app.py "Run it." pwd -P`. Whenever it is asked just that, the model
wants to run the rest; to anything else it answers in words.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from functools import partial
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parents[1])]

from fakes import Scripted, Step, call, say  # noqa: E402 - found only now

import app.build  # noqa: E402
from engine import Request  # noqa: E402
from ui import main  # noqa: E402


def answer(question: str, argv: list[str], request: Request) -> Iterable[Step]:
    """What the model says to a request: the call, and once it has its result, what became of it."""
    last = request.messages[-1]
    if last.role == "tool":
        return say(f"I was told: {last.text}")
    return call("shell.run", {"argv": argv}) if last.text.strip() == question else say("Fine.")


def start(words: list[str]) -> int:
    """Open the window."""
    question, *argv = words
    backend = Scripted(*[partial(answer, question, argv)] * 100)
    app.build.build = partial(app.build.build, backend=backend)
    return main.main([])


if __name__ == "__main__":
    sys.exit(start(sys.argv[1:]))
