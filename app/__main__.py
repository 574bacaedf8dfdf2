"""The command line: the window, a question, and a look at what works here."""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

ASK = """Ask one question. The answer goes to standard output as it is written, the rest to standard error.
A text of "-" is read from standard input. The chat is kept, and shown in the window too."""
JSON = 'print every event as one JSON object a line, with its kind in "event"'
ENDS = "Exit status: 0 done, 1 the output is not read, 2 it can't be done (a sentence says why), 130 Ctrl+C."


def main(argv: list[str] | None = None) -> int:
    """Run a command; `gui` is the default."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments or arguments[0] not in ("gui", "ask", "doctor", "-h", "--help"):
        arguments.insert(0, "gui")
    if arguments[0] == "gui":
        return window(arguments[1:])
    chosen = parser().parse_args(arguments)
    if chosen.command == "doctor":
        from app.doctor import doctor

        return doctor(chosen.model)
    from app.ask import ask

    return ask(chosen)


def window(argv: list[str]) -> int:
    """Open the window. By name: app must not know ui, and this is the one place that starts it."""
    try:
        start = importlib.import_module("ui.main").main
    except ImportError as error:
        print(f"The window can't be opened, since a part is missing: {error}.", file=sys.stderr)
        return 2
    status: int = start(argv)
    return status


def parser() -> argparse.ArgumentParser:
    """What may be asked for."""
    top = argparse.ArgumentParser("sidelight", description="A private desktop assistant.", epilog=ENDS)
    commands = top.add_subparsers(dest="command", required=True)
    commands.add_parser("gui", help="open the window (the default)")
    asks = commands.add_parser("ask", help="ask one question", description=ASK, epilog=ENDS)
    asks.add_argument("text", help='the question; "-" reads it from standard input')
    asks.add_argument("--screen", action="store_true", help="read the screen first")
    asks.add_argument("--image", type=Path, metavar="FILE", help="read the text in a picture first")
    asks.add_argument("--json", action="store_true", help=JSON)
    asks.add_argument("--model", type=Path, metavar="FILE", help="use this GGUF file")
    asks.add_argument("--max-tokens", type=positive, metavar="N", help="the longest answer")
    asks.add_argument("--chat", metavar="ID", help="go on in this chat")
    doctors = commands.add_parser("doctor", help="say what works on this machine")
    doctors.add_argument("--model", type=Path, metavar="FILE", help="look at this GGUF file")
    return top


def positive(text: str) -> int:
    """A whole number from 1 on."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 1 on")
    return number


if __name__ == "__main__":
    sys.exit(main())
