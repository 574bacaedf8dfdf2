"""A backend that plays a script, for tests without weights. The real one is tested beside it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from engine import (
    Called,
    Done,
    EngineError,
    Event,
    Memory,
    ModelInfo,
    Prefill,
    Request,
    Sampling,
    Text,
    ToolCall,
    Usage,
)
from engine.api import FinishReason

USAGE = Usage(prompt_tokens=10, cached_tokens=4, generated_tokens=5, prefill_seconds=0.1, decode_seconds=0.2)


@dataclass
class Pause:
    """Wait here until `go` is set, or for so many seconds."""

    go: asyncio.Event | None = None
    seconds: float = 0.0


Step = Event | Exception | Pause
Script = Iterable[Step] | Callable[[Request], Iterable[Step]]


def say(text: str, reason: FinishReason = "stop") -> list[Step]:
    """An answer, word by word."""
    pieces = text.split(" ")
    words = [piece + " " for piece in pieces[:-1]] + pieces[-1:]
    return [Prefill(10, 10, 4), *(Text(word) for word in words if word), Done(reason, USAGE)]


def call(name: str, arguments: dict[str, Any], id: str = "call-1", text: str = "") -> list[Step]:
    """A request for a tool."""
    words: list[Step] = [Text(text)] if text else []
    return [*words, Called(ToolCall(id, name, arguments)), Done("tool_calls", USAGE)]


class Scripted:
    """Plays one script a request, in order; then says "Done." to whatever comes. Counts words as tokens."""

    def __init__(
        self, *scripts: Script, context: int = 8_192, tools: bool = True, sampling: Sampling | None = None
    ) -> None:
        self.scripts = list(scripts)
        self.requests: list[Request] = []
        self.cancelled = 0
        self.closed = False
        self.failure: EngineError | None = None  # of loading
        self._context, self._tools, self._sampling = context, tools, sampling
        self._info: ModelInfo | None = None

    @property
    def info(self) -> ModelInfo | None:
        return self._info

    async def load(self, say: Callable[[str], None] = lambda _: None) -> ModelInfo:
        await asyncio.sleep(0)
        if self.failure is not None:
            raise self.failure
        self._info = ModelInfo(
            name="Scripted",
            architecture="script",
            parameters=1_000,
            file_bytes=1_000,
            quantisation="none",
            context_length=self._context,
            context=self._context,
            device="CPU, 1 thread",
            knows_tools=self._tools,
            sampling=self._sampling,
        )
        return self._info

    async def stream(self, request: Request) -> AsyncGenerator[Event, None]:
        await self.load()
        self.requests.append(request)
        script = self.scripts.pop(0) if self.scripts else say("Done.")
        ended = False
        try:
            for step in script(request) if callable(script) else script:
                match step:
                    case Exception():
                        raise step
                    case Pause():
                        await (step.go.wait() if step.go else asyncio.sleep(step.seconds))
                    case _:
                        await asyncio.sleep(0)
                        ended = isinstance(step, Done)
                        yield step
        finally:
            self.cancelled += not ended

    async def count(self, texts: Sequence[str]) -> list[int]:
        return [len(text.split()) for text in texts]

    async def measure(self, request: Request) -> int:
        schemas = sum(len(f"{tool.description} {dict(tool.parameters)}".split()) for tool in request.tools)
        return schemas + sum(len(message.text.split()) + 4 for message in request.messages)

    def memory(self) -> Memory | None:
        return Memory(1_000, 2_000, 3_000) if self._info else None

    async def close(self) -> None:
        self.closed = True
