"""An answer while it grows: what its events come to, without a window."""

from __future__ import annotations

from dataclasses import replace

from app import events
from app.events import Event
from app.history import Block, Entry, NoticeBlock, ReasoningBlock, State, TextBlock, ToolBlock


class Answer:
    """Folds a turn's events into the blocks of an entry."""

    def __init__(self, entry: Entry) -> None:
        self.id = entry.id
        self.state: State = "streaming"
        self.error = ""
        self.progress = ""  # what happens while nothing is written
        self._blocks: list[Block] = list(entry.blocks)
        self._parts: list[str] = []  # text that belongs to the last block, not joined to it yet

    def apply(self, event: Event) -> None:
        """Take in one event; those about something else change nothing."""
        match event:
            case events.TextArrived():
                self._write(TextBlock, event.text)
            case events.ReasoningArrived():
                self._write(ReasoningBlock, event.text)
            case events.ToolRequested():
                self._add(ToolBlock(event.call_id, event.tool, event.arguments))
            case events.ToolFinished():
                self._finish_tool(event)
            case events.NoticeRaised():
                self._add(NoticeBlock(event.text))
            case events.PromptAdvanced():
                self.progress = reading(event.done, event.total)
            case events.TurnEnded():
                self.state, self.error, self.progress = event.reason, event.message, ""
            case _:
                pass

    def blocks(self) -> tuple[Block, ...]:
        """Everything so far."""
        self._join()
        return tuple(self._blocks)

    def entry(self) -> Entry:
        """The answer as it would be stored."""
        return Entry(self.id, "assistant", self.blocks(), self.state, self.error)

    def _write(self, kind: type[TextBlock | ReasoningBlock], text: str) -> None:
        if not self._blocks or not isinstance(self._blocks[-1], kind):
            self._add(kind(""))
        self._parts.append(text)
        self.progress = ""

    def _add(self, block: Block) -> None:
        self._join()
        self._blocks.append(block)
        self.progress = ""

    def _join(self) -> None:
        last = self._blocks[-1] if self._blocks else None
        if self._parts and isinstance(last, TextBlock | ReasoningBlock):
            self._blocks[-1] = type(last)(last.text + "".join(self._parts))
        self._parts.clear()

    def _finish_tool(self, event: events.ToolFinished) -> None:
        self._join()
        for index, block in enumerate(self._blocks):
            if isinstance(block, ToolBlock) and block.call_id == event.call_id and block.result is None:
                self._blocks[index] = replace(
                    block, result=event.result, ok=event.ok, denied_by=event.denied_by
                )


def reading(done: int, total: int) -> str:
    """How far the prompt has been read, in words; nothing once it is."""
    if total <= 0 or done >= total:
        return ""
    return f"Reading the prompt, {100 * done // total} %"
