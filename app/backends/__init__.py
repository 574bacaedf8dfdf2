"""Where answers come from: one protocol, and one file for each kind of model host."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Protocol

from engine import Event, Memory, ModelInfo, Request


class Backend(Protocol):
    """A model, wherever it runs. Every failure is raised as `engine.EngineError`."""

    @property
    def info(self) -> ModelInfo | None:
        """The model, once loaded."""

    async def load(self, say: Callable[[str], None] = ...) -> ModelInfo:
        """Load the model; a second call waits for the first, and a later one returns at once.

        `say` is told in a sentence what takes long, if anything does.
        """

    def stream(self, request: Request) -> AsyncGenerator[Event, None]:
        """Answer `request`; ends with `Done`. Leaving the iteration early cancels within a step."""

    async def count(self, texts: Sequence[str]) -> list[int]:
        """Tokens in each text, by the model's own tokenizer."""

    async def measure(self, request: Request) -> int:
        """Prompt tokens of the request as its template renders it, tool schemas included."""

    def memory(self) -> Memory | None:
        """Bytes held, once loaded."""

    async def close(self) -> None:
        """Stop what runs and give the memory back."""
