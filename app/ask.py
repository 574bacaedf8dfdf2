"""A question from the command line: the answer on standard output, the rest on standard error."""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import os
import sys
import threading
from contextlib import aclosing, suppress
from dataclasses import fields, is_dataclass
from typing import TextIO

from app import events
from app.backends import Backend
from app.build import Services, build
from app.errors import UserError
from app.permissions.action import Answer
from engine import EngineError

NOBODY = "There is no terminal to ask on, so it was not allowed."
KEPT = "\n\t\u200d"  # the last joins the parts of an emoji
CAN_NOT, GONE, INTERRUPTED = 2, 1, 130


def ask(chosen: argparse.Namespace) -> int:
    """Ask, print, and give the exit status."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # where the terminal lacks a letter
    try:
        text = sys.stdin.buffer.read().decode() if chosen.text == "-" else chosen.text
        return asyncio.run(_ask(chosen, text))
    except (UserError, EngineError) as error:
        say(str(error))
        return CAN_NOT
    except UnicodeDecodeError:
        say("Standard input is not text in UTF-8.")
        return CAN_NOT
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the flush at the exit
        return GONE
    except KeyboardInterrupt:
        say("")
        return INTERRUPTED


async def _ask(chosen: argparse.Namespace, text: str) -> int:
    services = build(model=chosen.model, reply=chosen.max_tokens)
    chat = ""
    try:
        for notice in services.notices:
            say(notice)
        show = as_json if chosen.json else Printer(sys.stdout).show
        ended = events.TurnEnded("failed")
        chat = chat_of(services, chosen.chat)
        stream = services.assistant.send(chat, text, look=chosen.screen, image=chosen.image)
        async with aclosing(stream):
            async for event in stream:
                show(event)
                if isinstance(event, events.TurnStarted):
                    load_ahead(services.assistant.backend)
                if isinstance(event, events.PermissionAsked):
                    event.answer.set_result(await permission(event))
                if isinstance(event, events.TurnEnded):
                    ended = event
        if ended.reason == "failed":
            say(ended.message)
        return CAN_NOT if ended.reason == "failed" else 0
    except UserError:
        if chat and not chosen.chat:
            services.assistant.delete(chat)  # nothing was asked in it
        raise
    finally:
        await services.close()


def load_ahead(backend: Backend) -> None:
    """Load the model while the screen or a picture is read; the turn says what goes wrong."""
    loading = asyncio.ensure_future(backend.load(say))
    loading.add_done_callback(lambda done: done.cancelled() or done.exception())


def chat_of(services: Services, id: str | None) -> str:
    """The chat to go on in, or a new one; the first letters of its id are enough."""
    if id is None:
        return services.assistant.create().id
    found = [chat.id for chat in services.assistant.conversations() if id and chat.id.startswith(id)]
    if len(found) != 1:
        raise UserError(f"There is no chat {id}." if not found else f"Several chats begin with {id}.")
    return found[0]


class Printer:
    """Prints a turn for a person."""

    def __init__(self, out: TextIO) -> None:
        self._out, self._at_start = out, True

    def show(self, event: events.Event) -> None:
        """Print what an event says, if anything."""
        match event:
            case events.TextArrived():
                self._out.write(printable(event.text) if self._out.isatty() else event.text)
                self._out.flush()
                self._at_start = event.text.endswith("\n")
            case events.NoticeRaised():
                self._aside(event.text)
            case events.ScreenRead():
                self._aside(f"Read {event.words:,} words from {event.source}.")
            case events.ToolRequested():
                self._aside(f"Tool: {event.tool} {json.dumps(dict(event.arguments), ensure_ascii=False)}")
            case events.ToolFinished():
                self._aside(f"{event.tool}: {event.result}")
            case events.TurnEnded():
                self._end_line()
                if event.reason == "length":
                    self._aside("The answer was cut off at its longest length.")
            case _:
                pass

    def _aside(self, text: str) -> None:
        self._end_line()
        say(printable(text))

    def _end_line(self) -> None:
        if not self._at_start:
            self._out.write("\n")
            self._out.flush()
        self._at_start = True


def as_json(event: events.Event) -> None:
    """One event as a line of JSON."""
    values = {each.name: plain(getattr(event, each.name)) for each in fields(event) if each.name != "answer"}
    sys.stdout.write(json.dumps({"event": type(event).__name__, **values}) + "\n")
    sys.stdout.flush()


def plain(value: object) -> object:
    """A value as JSON knows it."""
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    return value


async def permission(event: events.PermissionAsked) -> Answer:
    """Ask on the terminal; only a clear yes is one. Without a terminal: no."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        say(f"{event.ask.action.headline} {NOBODY}")
        return Answer(False, note="Nobody is there to allow it.")
    action = event.ask.action
    for line in ("", action.headline, action.detail, *action.facts, event.ask.why):
        say(printable(line))
    say("Allow this once? [y/N] ", end="")
    line = await read_line()
    return Answer(line.strip().lower() in ("y", "yes"))


async def read_line() -> str:
    """A line from the terminal. The thread that waits for it holds up neither Ctrl+C nor the exit."""
    loop = asyncio.get_running_loop()
    line: asyncio.Future[str] = loop.create_future()

    def give(text: str) -> None:
        if not line.done():
            line.set_result(text)

    def read() -> None:
        text = sys.stdin.readline()
        with suppress(RuntimeError):  # the loop was closed meanwhile
            loop.call_soon_threadsafe(give, text)

    threading.Thread(target=read, name="terminal", daemon=True).start()
    return await line


def say(text: str, end: str = "\n") -> None:
    """A line on standard error."""
    sys.stderr.write(text + end)
    sys.stderr.flush()


def printable(text: str) -> str:
    """Text that cannot steer a terminal: control characters, and what turns the writing round, are shown."""
    return "".join(letter if letter in KEPT or letter.isprintable() else escaped(letter) for letter in text)


def escaped(letter: str) -> str:
    """A character that isn't printed, as what it is; spaces of every kind stay."""
    return letter if letter.isspace() and ord(letter) > 127 else f"\\u{ord(letter):04x}"
