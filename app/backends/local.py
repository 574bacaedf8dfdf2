"""Answers from the engine in this process: the one place where its thread meets asyncio."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from app.backends.preload import preload
from app.errors import UserError
from engine import Done, EngineError, Event, Failed, Memory, ModelInfo, Reasoning, Request, Text

if TYPE_CHECKING:
    from engine import Engine

log = logging.getLogger(__name__)

Make = Callable[[], "Engine"]


class LocalBackend:
    """An engine that is loaded in a thread of its own when it is first needed."""

    def __init__(self, model: Callable[[], Path], *, context: int = 0, threads: int = 0) -> None:
        self._model, self._context, self._threads = model, context, threads
        self._workers = ThreadPoolExecutor(2, thread_name_prefix="backend")
        self._lock = threading.Lock()
        self._loading: Future[Engine] | None = None
        self._listeners: list[Callable[[str], None]] = []
        self._said = ""  # what a load under way takes long for
        self._closed = False

    @property
    def info(self) -> ModelInfo | None:
        """The model, once loaded."""
        engine = self._loaded()
        return engine.info if engine else None

    async def load(self, say: Callable[[str], None] = lambda _: None) -> ModelInfo:
        """Load the model; a second call waits for the first, and after a failure it is tried again."""
        loop = asyncio.get_running_loop()

        def listener(sentence: str) -> None:
            loop.call_soon_threadsafe(say, sentence)

        self._listeners.append(listener)
        if self._said:
            say(self._said)
        try:
            return (await self._engine()).info
        finally:
            self._listeners.remove(listener)

    async def stream(self, request: Request) -> AsyncGenerator[Event, None]:
        """Answer `request`; ends with `Done`. Leaving the iteration early cancels within a step."""
        engine = await self._engine()
        loop = asyncio.get_running_loop()
        inbox: asyncio.Queue[Event] = asyncio.Queue()

        def emit(event: Event) -> None:
            # raises when the loop was closed: the engine then drops this generation, and lives on
            loop.call_soon_threadsafe(inbox.put_nowait, event)

        ticket = engine.submit(request, emit)
        try:
            while True:
                for event in await next_events(inbox):
                    if isinstance(event, Failed):
                        raise event.error
                    yield event
                    if isinstance(event, Done):
                        return
        finally:
            ticket.cancel()

    async def count(self, texts: Sequence[str]) -> list[int]:
        """Tokens in each text, by the model's own tokenizer."""
        engine = await self._engine()
        return await asyncio.wrap_future(self._workers.submit(lambda: [engine.count(text) for text in texts]))

    async def measure(self, request: Request) -> int:
        """Prompt tokens of the request as its template renders it, tool schemas included."""
        engine = await self._engine()
        return await asyncio.wrap_future(self._workers.submit(engine.measure, request))

    def memory(self) -> Memory | None:
        """Bytes held, once loaded."""
        engine = self._loaded()
        return engine.memory() if engine else None

    async def close(self) -> None:
        """Stop what runs and give the memory back; a load under way is waited for, then given back too."""
        with self._lock:
            self._closed, loading = True, self._loading
        await asyncio.get_running_loop().run_in_executor(None, self._close, loading)

    def _close(self, loading: Future[Engine] | None) -> None:
        self._workers.shutdown(wait=True, cancel_futures=True)
        if loading is not None and not loading.cancelled() and loading.exception() is None:
            loading.result().close()

    def _loaded(self) -> Engine | None:
        loading = self._loading
        if loading is None or not loading.done() or loading.cancelled() or loading.exception():
            return None
        return loading.result()

    async def _engine(self) -> Engine:
        with self._lock:
            if self._closed:
                raise EngineError("The model was closed.")
            if self._loading is None or (self._loading.done() and self._loading.exception()):
                self._loading = self._workers.submit(self._load)
            loading = self._loading
        # shielded: who stops waiting does not stop the load for the others
        return await asyncio.shield(asyncio.wrap_future(loading))

    def _load(self) -> Engine:
        try:
            path = self._model()
        except UserError as error:
            raise EngineError(str(error)) from error
        preload()
        try:
            from engine import Engine

            context, threads = self._context or None, self._threads or None
            return Engine(path, context=context, threads=threads, say=self._say)
        except ImportError as error:
            raise EngineError(f"A part that runs the model is missing ({error}).") from error
        except MemoryError as error:
            raise EngineError(f"There is not enough memory to load {path.name}.") from error
        finally:
            self._said = ""

    def _say(self, sentence: str) -> None:
        """On the engine thread: everybody who waits hears it."""
        self._said = sentence
        for listener in [*self._listeners]:
            with suppress(RuntimeError):  # its loop was closed
                listener(sentence)


async def next_events(inbox: asyncio.Queue[Event]) -> list[Event]:
    """What has arrived, at least one; pieces of text that waited together are joined."""
    events = [await inbox.get()]
    while not inbox.empty():
        event, last = inbox.get_nowait(), events[-1]
        if (
            isinstance(event, Text | Reasoning)
            and isinstance(last, Text | Reasoning)
            and type(event) is type(last)
        ):
            events[-1] = replace(last, text=last.text + event.text, tokens=last.tokens + event.tokens)
        else:
            events.append(event)
    return events
