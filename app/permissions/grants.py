"""The stored rules: a small file of our own, replaced as a whole and readable by the person alone."""

from __future__ import annotations

import json
import logging
import os
import re
import threading
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args

from app.errors import UserError
from app.permissions.action import Scope
from app.permissions.files import locked, open_private, replace
from app.permissions.policy import Effect, Match, Rule, Test

LOG = logging.getLogger(__name__)
DAMAGED = (
    "The file of permissions was damaged: what was allowed will be asked again, what was denied stays denied."
)


class Grants:
    """Rules on disk. Read again whenever the file changed, so that a rule taken away is gone at once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.notice = ""  # a sentence when the file was damaged
        self._lock = threading.Lock()
        self._seen: tuple[int, ...] | None = None
        self._rules: list[Rule] = []

    def rules(self) -> list[Rule]:
        """All rules, oldest first."""
        with self._lock:
            self._refresh()
            return list(self._rules)

    def add(self, rule: Rule) -> None:
        """Store a rule; one that says the same is replaced."""
        self._change(lambda rules: [each for each in rules if _meaning(each) != _meaning(rule)] + [rule])

    def revoke(self, id: str) -> None:
        """Forget a rule; one that is gone already is no error."""
        self._change(lambda rules: [rule for rule in rules if rule.id != id])

    def forget_chat(self, conversation_id: str) -> None:
        """Forget the rules of a chat that was deleted."""
        self._change(lambda rules: [rule for rule in rules if rule.conversation_id != conversation_id])

    def _change(self, edit: Callable[[list[Rule]], list[Rule]]) -> None:
        try:
            guard = open_private(self.path.with_name(f".{self.path.name}.lock"), os.O_RDWR)
            try:
                with self._lock, locked(guard):
                    self._refresh()
                    changed = edit(self._rules)
                    if changed != self._rules:
                        self._write(changed)
            finally:
                os.close(guard)
        except OSError as error:
            raise UserError(f"The permissions can't be saved in {self.path} ({error.strerror}).") from error

    def _write(self, rules: list[Rule]) -> None:
        data = {"version": 1, "rules": [asdict(rule) for rule in rules]}
        replace(self.path, json.dumps(data, indent=1, ensure_ascii=False).encode())
        self._rules, self._seen = rules, self._stamp()

    def _stamp(self) -> tuple[int, ...] | None:
        try:
            status = self.path.stat()
        except FileNotFoundError:
            return None
        return status.st_ino, status.st_mtime_ns, status.st_size

    def _refresh(self) -> None:
        stamp = self._stamp()
        if stamp == self._seen:
            return
        self._rules, self._seen = [], stamp
        if stamp is None:
            return
        data = self.path.read_bytes()
        try:
            self._rules = _read(data)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            LOG.warning("damaged permissions in %s: %s", self.path, error)
            self.notice = DAMAGED
            self._rules = _salvage(data)
            replace(self.path.with_name(f"{self.path.name}.damaged"), data)


def _meaning(rule: Rule) -> tuple[object, ...]:
    match = json.dumps([asdict(each) for each in rule.match], sort_keys=True)
    return rule.effect, rule.tool, match, rule.scope, rule.conversation_id


def _read(data: bytes) -> list[Rule]:
    content = json.loads(data)
    if content["version"] != 1 or content.keys() != {"version", "rules"}:
        raise ValueError("unknown version or key")
    return [_rule(each) for each in content["rules"]]


def _salvage(data: bytes) -> list[Rule]:
    """The rules of a damaged file that forbid or ask, wherever they can still be read."""
    text, decoder, found = data.decode(errors="replace"), json.JSONDecoder(), []
    for brace in re.finditer("{", text):
        try:
            rule = _rule(decoder.raw_decode(text, brace.start())[0])
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
        if rule.effect != "allow":
            found.append(rule)
    return found


def _rule(value: dict[str, Any]) -> Rule:
    """A rule from its stored form; anything missing, unknown or of a wrong kind makes it invalid."""
    match = tuple(Match(**each) for each in value["match"])
    rule = Rule(**{**value, "match": match, "scope": Scope(value["scope"])})
    texts = (rule.id, rule.tool, rule.words, rule.conversation_id)
    known = rule.effect in get_args(Effect) and all(each.test in get_args(Test) for each in match)
    if not known or not all(isinstance(text, str) for text in texts) or rule.scope is Scope.ONCE:
        raise ValueError(f"not a rule: {value}")
    if rule.effect == "allow" and rule.tool == "*":
        raise ValueError("a rule for every tool may not allow")
    return rule
