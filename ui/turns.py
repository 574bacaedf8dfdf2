"""The turns in progress: one a chat, each event handed to whoever shows that chat."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from app import events
from ui.tasks import spawn

if TYPE_CHECKING:
    from app.session import Assistant


class Turns(QObject):
    """Starts, follows and stops turns. What a turn reported is kept, to show its chat again midway."""

    arrived = Signal(str, object)  # conversation id, event
    changed = Signal(str)  # conversation id: a turn began or ended
    refused = Signal(str, str, str)  # conversation id, the text if it was not stored, a sentence

    def __init__(self, assistant: Assistant, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._assistant = assistant
        self._seen: dict[str, list[events.Event]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._questions: dict[str, str] = {}

    def start(self, conversation_id: str, text: str, *, look: bool) -> None:
        """Send `text`; its events arrive as signals."""
        if conversation_id in self._seen:
            self.refused.emit(conversation_id, text, "An answer is still being written in this chat.")
            return
        self._seen[conversation_id] = []
        self._questions[conversation_id] = text
        self._tasks[conversation_id] = spawn(
            self._follow(conversation_id, text, look),
            owner=self,
            on_error=lambda sentence: self._fail(conversation_id, sentence),
        )
        self.changed.emit(conversation_id)

    def stop(self, conversation_id: str) -> None:
        """Stop the chat's turn, keeping what it wrote."""
        if conversation_id in self._tasks:
            self._assistant.stop(conversation_id)

    def seen(self, conversation_id: str) -> tuple[events.Event, ...] | None:
        """What the running turn of a chat reported so far; None: no turn runs."""
        seen = self._seen.get(conversation_id)
        return None if seen is None else tuple(seen)

    def question(self, conversation_id: str) -> str:
        """What the chat's turn was asked."""
        return self._questions.get(conversation_id, "")

    def running(self) -> tuple[str, ...]:
        """The chats in which a turn runs."""
        return tuple(self._seen)

    async def close(self) -> None:
        """Stop every turn and wait until its words are stored."""
        tasks = list(self._tasks.values())
        for conversation_id in list(self._tasks):
            self._assistant.stop(conversation_id)
        if tasks:
            await asyncio.wait(tasks, timeout=2)
        for task in tasks:
            task.cancel()

    async def _follow(self, conversation_id: str, text: str, look: bool) -> None:
        try:
            async with aclosing(self._assistant.send(conversation_id, text, look=look)) as stream:
                async for event in stream:
                    remember(self._seen[conversation_id], event)
                    self.arrived.emit(conversation_id, event)
        finally:
            if self._seen.pop(conversation_id, None):
                self._questions.pop(conversation_id, None)  # it is stored
            self._tasks.pop(conversation_id, None)
            self.changed.emit(conversation_id)

    def _fail(self, conversation_id: str, sentence: str) -> None:
        self.refused.emit(conversation_id, self._questions.pop(conversation_id, ""), sentence)


def remember(seen: list[events.Event], event: events.Event) -> None:
    """Append an event; pieces of one text become one piece, and progress replaces progress."""
    last = seen[-1] if seen else None
    match last, event:
        case events.TextArrived(), events.TextArrived():
            seen[-1] = events.TextArrived(last.text + event.text)
        case events.ReasoningArrived(), events.ReasoningArrived():
            seen[-1] = events.ReasoningArrived(last.text + event.text)
        case events.PromptAdvanced(), events.PromptAdvanced():
            seen[-1] = event
        case _:
            seen.append(event)
