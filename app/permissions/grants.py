"""The stored rules."""

from __future__ import annotations

from pathlib import Path

from app.permissions.policy import Rule


class Grants:
    """Rules on disk; those for one chat, too. `notice` is a sentence when the file was damaged."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.notice = ""

    def rules(self) -> list[Rule]:
        """All rules, oldest first."""
        raise NotImplementedError

    def add(self, rule: Rule) -> None:
        """Store a rule."""
        raise NotImplementedError

    def revoke(self, id: str) -> None:
        """Forget a rule; one that is gone already is no error."""
        raise NotImplementedError

    def forget_chat(self, conversation_id: str) -> None:
        """Forget the rules of a chat that was deleted."""
        raise NotImplementedError
