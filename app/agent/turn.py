"""A turn under way: each of its events is stored, then shown."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from concurrent.futures import Future
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from app.agent.context import Given, cut
from app.agent.loop import Agent, Play
from app.agent.prompt import INSTRUCTIONS, date_of, is_tainted, turns_of
from app.agent.prompt import Turn as Messages
from app.backends import Backend
from app.errors import UserError
from app.events import Event, NoticeRaised, ScreenRead, TurnEnded, TurnStarted
from app.history import Conversation, State
from app.observe import Frame, Observer, Reader
from app.paths import make_folder
from app.store.blocks import block_of
from app.store.conversations import Begun, Conversations
from app.tool import ToolContext
from engine import EngineError, ModelInfo, Sampling

SCREEN_SHARE = 2  # what was read may take one part in so many of the context
DATED = 1_000_000_000  # parameters: to a smaller model a date becomes the subject
UNEXPECTED = "Something went wrong inside Sidelight. The details are in the log."
NO_TEXT = "No text was found in {source}."
SCREEN_CUT = "Of what was read in {source}, the model gets the first {kept:,} of {whole:,} letters."
Offer = Literal["auto", "always", "never"]  # of tools to the model
STATES: dict[str, State] = {
    "complete": "complete",
    "length": "length",
    "stopped": "stopped",
    "failed": "failed",
}


@dataclass(frozen=True, slots=True)
class Choices:
    """What the person chose, as it stands when a turn begins."""

    instructions: str  # empty: our own
    sampling: Sampling  # ours
    chosen: Mapping[str, Any]  # fields of it that the person set
    reply: int  # the longest answer, in tokens
    offer: Offer
    folder: Path  # granted to tools; made when tools are offered
    private: tuple[Path, ...] = ()  # closed to every tool


@dataclass(frozen=True, slots=True)
class Parts:
    """What a turn works with."""

    backend: Backend
    store: Conversations
    agent: Agent
    observer: Observer
    reader: Reader


class Turn:
    """One turn, as a task of its own: it can be stopped whoever listens. `inbox` gets its events."""

    def __init__(self, parts: Parts, choices: Choices, conversation_id: str, begun: Begun) -> None:
        self._parts, self._choices = parts, choices
        self._conversation_id, self._begun = conversation_id, begun
        self._is_over = False
        self.inbox: asyncio.Queue[Event] = asyncio.Queue()
        self.inbox.put_nowait(TurnStarted(conversation_id, begun.question_id, begun.answer_id))

    async def run(self, *, look: bool, picture: Frame | None) -> None:
        """Play the turn; whatever happens, the last event is TurnEnded and the entry is closed."""
        ended = TurnEnded("failed", UNEXPECTED)
        try:
            async with aclosing(self._events(look, picture)) as stream:
                async for event in stream:
                    if isinstance(event, TurnEnded):
                        ended = event
                        break
                    await self._show(event)
        except asyncio.CancelledError:
            ended = TurnEnded("stopped")
        except (UserError, EngineError) as error:
            ended = TurnEnded("failed", str(error))
        finally:
            await self._end(ended)

    async def _show(self, event: Event) -> None:
        block = block_of(event)
        if block is not None:
            is_read = isinstance(event, ScreenRead)
            entry = self._begun.question_id if is_read else self._begun.answer_id
            try:
                await finished(self._parts.store.append(entry, block))
            except asyncio.CancelledError:
                self.inbox.put_nowait(event)  # it is stored, so it is shown
                raise
        self.inbox.put_nowait(event)

    async def _end(self, ended: TurnEnded) -> None:
        store, begun = self._parts.store, self._begun
        try:
            store.settle(begun.question_id)
            await finished(store.finish(begun.answer_id, STATES[ended.reason], ended.message))
        except UserError as error:
            ended = TurnEnded("failed", str(error))
        finally:
            self._say_end(ended)

    def _say_end(self, ended: TurnEnded) -> None:
        if not self._is_over:
            self._is_over = True
            self.inbox.put_nowait(ended)

    def close(self, task: asyncio.Task[None]) -> None:
        """The end of a task that was cancelled before it could say so itself."""
        if not self._is_over:
            with suppress(UserError):
                self._parts.store.finish(self._begun.answer_id, "stopped").result()
            self._say_end(TurnEnded("stopped"))

    async def _events(self, look: bool, picture: Frame | None) -> AsyncGenerator[Event, None]:
        frame = await self._parts.observer.frame() if look else picture
        if frame is not None:
            async with aclosing(self._read(frame)) as read:
                async for event in read:
                    yield event
        play = await self._play()
        async with aclosing(self._parts.agent.play(play)) as stream:
            async for event in stream:
                yield event

    async def _read(self, frame: Frame) -> AsyncGenerator[Event, None]:
        reading = await self._parts.reader.read(frame)
        source, whole = frame.monitor, reading.plain
        context = (await self._parts.backend.load()).context
        text = await cut(self._parts.backend, whole, context // SCREEN_SHARE)
        yield ScreenRead(text, source, len(text.split()))
        if not text:
            yield NoticeRaised(NO_TEXT.format(source=source))
        elif len(text) < len(whole):
            yield NoticeRaised(SCREEN_CUT.format(source=source, kept=len(text), whole=len(whole)))

    async def _play(self) -> Play:
        info = await self._parts.backend.load()
        conversation = self._parts.store.get(self._conversation_id)
        if conversation is None:
            raise UserError("This chat was deleted while the answer was prepared.")
        entries = [entry for entry in conversation.entries if entry.id != self._begun.answer_id]
        offered = self._parts.agent.specs() if self._offers(info) else ()
        if offered:
            await asyncio.to_thread(make_folder, self._choices.folder)
        given = Given(
            system=self._choices.instructions or INSTRUCTIONS,
            turns=dated(turns_of(entries), conversation, info),
            tools=offered,
            sampling=replace(info.sampling or self._choices.sampling, **self._choices.chosen),
            reply=self._choices.reply,
        )
        context = ToolContext(
            folder=self._choices.folder,
            observer=self._parts.observer,
            reader=self._parts.reader,
            conversation_id=self._conversation_id,
            private=self._choices.private,
        )
        return Play(given, context, conversation.title, is_tainted(entries))

    def _offers(self, info: ModelInfo) -> bool:
        """Whether the model is told of tools.

        By default only one whose template was made for them. Others answer worse, and call none:
        SmolLM2 135M, told of three, greets as somebody else and invents what is in the file it should read.
        """
        return self._choices.offer == "always" or (self._choices.offer == "auto" and info.knows_tools)


def dated(turns: list[Messages], conversation: Conversation, info: ModelInfo) -> list[Messages]:
    """Say in the first question when the chat began: that never changes, so what is cached stays good."""
    if info.parameters < DATED:
        return turns
    (question, *rest), *others = turns
    note = f"(It is {date_of(conversation.created)}.)\n\n"
    return [(replace(question, text=note + question.text), *rest), *others]


async def finished(write: Future[None]) -> None:
    """Wait until a write is done; a cancellation meanwhile is raised after it."""
    waiting = asyncio.wrap_future(write)
    try:
        await asyncio.shield(waiting)
    except asyncio.CancelledError:
        await asyncio.wait([waiting])
        raise
