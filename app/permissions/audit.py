"""The log of every decision."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from app.permissions.action import Action
from app.permissions.policy import By

AuditEvent = Literal["asked", "allowed", "denied", "refused", "finished", "failed"]


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One line of the log. `detail` is the exact thing, with invisible characters spelt out."""

    number: int
    time: float
    event: AuditEvent
    tool: str
    detail: str
    by: By
    reason: str = ""
    conversation_id: str = ""
    arguments: str = ""
    tainted: bool = False


class Audit:
    """An append-only file of decisions and outcomes, each line chained to the one before."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def entries(self, limit: int = 200) -> list[AuditEntry]:
        """The newest entries, newest first."""
        raise NotImplementedError

    def verify(self) -> str | None:
        """None if the chain is whole, else a sentence saying where it breaks."""
        raise NotImplementedError

    def record(
        self,
        event: AuditEvent,
        action: Action,
        by: By,
        *,
        reason: str = "",
        conversation_id: str = "",
        tainted: bool = False,
    ) -> None:
        """Append one line and wait until it is on the disk."""
        raise NotImplementedError
