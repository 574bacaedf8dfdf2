"""What a window or a command line talks to: conversations, and the turns that grow them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import suppress
from pathlib import Path

from app import events
from app.agent.context import TooLong, reserved
from app.agent.turn import Choices, Parts, Turn
from app.backends import Backend
from app.errors import UserError
from app.history import Conversation
from app.observe import Frame
from app.store.conversations import Begun
from engine import EngineError

log = logging.getLogger(__name__)
BUSY = "An answer is still being written in this chat. Stop it first, or wait for its end."
EMPTY = "There is nothing to send."
GONE = "This chat is not there any more."


class Running:
    """A turn's task, from before it begins: it may be stopped at any time."""

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None
        self._is_stopped = False

    def start(self, turn: Turn, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """Begin, or end at once if it was stopped already."""
        self._task = asyncio.create_task(work, name="turn")
        self._task.add_done_callback(turn.close)
        if self._is_stopped:
            self._task.cancel()
        return self._task

    def stop(self) -> None:
        """End it."""
        self._is_stopped = True
        if self._task is not None:
            self._task.cancel()

    async def ended(self) -> None:
        """Stop it and wait for its end; its own failure is somebody else's to raise."""
        self.stop()
        if self._task is not None:
            await asyncio.wait([self._task])


class Assistant:
    """All chats. One turn at a time in each."""

    def __init__(self, parts: Parts, choices: Callable[[], Choices]) -> None:
        self._parts, self._store, self._choices = parts, parts.store, choices
        self._turns: dict[str, Running] = {}

    @property
    def backend(self) -> Backend:
        """The model."""
        return self._parts.backend

    def conversations(self) -> list[Conversation]:
        """All chats, newest first, without their entries."""
        return self._store.all()

    def conversation(self, id: str) -> Conversation:
        """A chat with its entries; UserError when it is gone."""
        found = self._store.get(id)
        if found is None:
            raise UserError(GONE)
        return found

    def create(self) -> Conversation:
        """A new, empty chat."""
        return self._store.create().result()

    def rename(self, id: str, title: str) -> None:
        """Give a chat another title."""
        self._store.rename(id, title).result()

    def delete(self, id: str) -> None:
        """Take a chat away, stopping what it writes; `restore` brings it back."""
        self.stop(id)
        self._store.delete(id).result()

    def restore(self, id: str) -> None:
        """Bring a deleted chat back."""
        self._store.restore(id).result()

    def is_busy(self, conversation_id: str) -> bool:
        """Whether a turn runs in this chat."""
        return conversation_id in self._turns

    def stop(self, conversation_id: str) -> None:
        """End the chat's turn, if one runs; what it wrote is kept."""
        if (running := self._turns.get(conversation_id)) is not None:
            running.stop()

    async def send(
        self, conversation_id: str, text: str, *, look: bool = False, image: Path | None = None
    ) -> AsyncGenerator[events.Event, None]:
        """Ask something. The first event comes when the question is stored, the last is TurnEnded.

        Raises UserError before the first for what cannot begin. Leaving early stops the turn.
        """
        if self.is_busy(conversation_id):
            raise UserError(BUSY)
        running = self._turns[conversation_id] = Running()
        try:
            choices = self._choices()
            question = text.encode(errors="replace").decode()  # half a surrogate pair can't be tokenized
            picture = await self._check(conversation_id, question, choices, image)
            begun = await self._begin(conversation_id, question)
            turn = Turn(self._parts, choices, conversation_id, begun)
            task = running.start(turn, turn.run(look=look, picture=picture))
            while not isinstance(event := await turn.inbox.get(), events.TurnEnded):
                yield event
            self._forget(conversation_id, running)  # whoever sees the end may send again
            yield event
            await asyncio.wait([task])
            if not task.cancelled():
                task.result()  # a fault of ours is raised here, after its end was shown
        finally:
            await running.ended()
            self._forget(conversation_id, running)

    def _forget(self, conversation_id: str, running: Running) -> None:
        if self._turns.get(conversation_id) is running:
            del self._turns[conversation_id]

    async def close(self) -> None:
        """Stop every turn, and wait until what they wrote is stored."""
        for running in list(self._turns.values()):
            await running.ended()

    async def _check(
        self, conversation_id: str, text: str, choices: Choices, image: Path | None
    ) -> Frame | None:
        """Refuse what cannot begin; gives the picture to read."""
        if not text.strip():
            raise UserError(EMPTY)
        if self._store.get(conversation_id) is None:
            raise UserError(GONE)
        await self._check_length(text, choices)
        return await asyncio.to_thread(open_picture, image) if image is not None else None

    async def _check_length(self, text: str, choices: Choices) -> None:
        """Refuse a text that never fits. Only one that might be too long waits for the model to count it."""
        size, info = len(text.encode()), self.backend.info
        if size < 1_024 or (info is not None and size < info.context // 2):
            return  # no token is shorter than a byte
        with suppress(EngineError):  # the turn itself says what is wrong with the model
            limit = (await self.backend.load()).context
            room = limit - reserved(choices.reply, limit)
            [needed] = await self.backend.count([text])
            if needed > room:
                raise TooLong(needed, room)

    async def _begin(self, conversation_id: str, text: str) -> Begun:
        begun = self._store.begin(conversation_id, text)
        try:
            await asyncio.wrap_future(begun.written)
        except asyncio.CancelledError:
            self._store.finish(begun.answer_id, "stopped")
            raise
        return begun


def open_picture(path: Path) -> Frame:
    """A picture file as something to read; UserError when it is none."""
    from app.observe.image import open_image

    image = open_image(path)
    return Frame(image, f"{path.name}, {image.width}x{image.height}", 0, 0, time.time())
