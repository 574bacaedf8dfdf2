"""The installer's command line: what was asked for, and the short way when everything is set up already."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from installer.errors import SetupError
from installer.levels import PEER, RUN, TEST, Level
from installer.place import Place
from installer.stamp import Stamp

ROOT = Path(__file__).resolve().parent.parent


def parser() -> argparse.ArgumentParser:
    """The two commands and their options."""
    top = argparse.ArgumentParser(prog="bootstrap.py", description="Set Sidelight up, start it, check it.")
    commands = top.add_subparsers(dest="command", required=True, metavar="run | test")
    run = commands.add_parser(
        "run",
        help="set up what is missing, then start Sidelight",
        allow_abbrev=False,
        usage="bootstrap.py run [--yes] [--torch BUILD] [-- ARGUMENTS FOR SIDELIGHT]",
    )
    test = commands.add_parser(
        "test",
        help="set up what the checks need, then run ruff, mypy, lint-imports and pytest",
        allow_abbrev=False,
        usage="bootstrap.py test [--yes] [--torch BUILD] [--peer] [PYTEST ARGUMENTS]",
    )
    for command in (run, test):
        command.add_argument("--yes", "-y", action="store_true", help="install system packages unasked")
        command.add_argument(
            "--torch",
            choices=("auto", "cpu", "cuda"),
            help="which build of PyTorch (auto: CUDA if a suitable NVIDIA GPU is found)",
        )
    test.add_argument(
        "--peer", action="store_true", help="compare with llama.cpp instead (builds llama-cpp-python first)"
    )
    return top


def main(arguments: Sequence[str]) -> int:
    """Run one command; a sentence and exit code 2 when it cannot be done."""
    try:
        return dispatch(arguments)
    except SetupError as error:
        print(f"\n{error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nStopped. The same command goes on where this one ended.", file=sys.stderr)
        return 130


def dispatch(arguments: Sequence[str]) -> int:
    """Tell our own options from those for the program we start."""
    own, passed_on = split(arguments or ["run"])
    options, rest = parser().parse_known_args(own)
    place = Place(ROOT)
    if options.command == "run":
        if rest:
            raise SetupError(f"Put what is meant for Sidelight after two dashes: run -- {' '.join(rest)}")
        ensure(place, RUN, options)
        start(place, passed_on)
    level = PEER if options.peer else TEST
    ensure(place, level, options)
    from installer.checks import run_checks

    return run_checks(place, level, [*rest, *passed_on])


def split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Cut at the first `--`: what is before it is ours."""
    if "--" not in arguments:
        return list(arguments), []
    at = list(arguments).index("--")
    return list(arguments[:at]), list(arguments[at + 1 :])


def ensure(place: Place, level: Level, options: argparse.Namespace) -> None:
    """Set up what `level` needs, unless the stamp says that it is there."""
    if Stamp(place).covers(level, options.torch):
        return
    from installer.steps import set_up

    set_up(place, level, torch=options.torch or "auto", yes=options.yes)


def start(place: Place, arguments: Sequence[str]) -> NoReturn:
    """Become Sidelight; -P keeps an `app` folder in the current directory from being taken for it."""
    words = [str(place.python), "-P", "-m", "app", *arguments]
    if os.name != "nt":
        os.execv(words[0], words)
    sys.exit(subprocess.run(words, check=False).returncode)
