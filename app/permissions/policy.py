"""What happens to an action under the rules: allow, ask or deny. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from app.permissions.action import Action, Risk, Scope

Effect = Literal["allow", "ask", "deny"]
Mode = Literal["ask", "locked"]  # locked: nobody is there to answer, so what would ask is denied
By = Literal["person", "rule", "default"]
Test = Literal["is", "prefix", "glob"]


@dataclass(frozen=True, slots=True)
class Match:
    """One condition on a key of the subject: equal, a list's beginning, or an anchored path glob."""

    key: str
    test: Test
    value: Any

    def holds(self, subject: dict[str, Any], *, missing: bool) -> bool:
        """Whether the subject fits; `missing` is the answer for a key the subject lacks."""
        if self.key not in subject:
            return missing
        value = subject[self.key]
        match self.test:
            case "is":
                return bool(value == self.value)
            case "prefix":
                return isinstance(value, list) and value[: len(self.value)] == self.value
            case "glob":
                return isinstance(value, str) and glob(self.value).fullmatch(value) is not None


@dataclass(frozen=True, slots=True)
class Rule:
    """A stored decision. `words` is what the person agreed to; tool "*" is for deny and ask only."""

    id: str
    effect: Effect
    tool: str
    match: tuple[Match, ...]
    scope: Scope
    words: str
    created: float
    conversation_id: str = ""  # of a rule for one chat

    def covers(self, action: Action, conversation_id: str) -> bool:
        """Whether this rule speaks about the action. An untestable condition never allows, but denies."""
        if self.scope is Scope.CHAT and self.conversation_id != conversation_id:
            return False
        if self.tool != action.tool and (self.tool != "*" or self.effect == "allow"):
            return False
        subject = json.loads(action.subject)
        return all(each.holds(subject, missing=self.effect != "allow") for each in self.match)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is to happen, who says so, and the rule that says it."""

    effect: Effect
    by: By
    rule: Rule | None = None


def decide(
    action: Action,
    rules: Iterable[Rule],
    *,
    conversation_id: str = "",
    mode: Mode = "ask",
    read_only: bool = False,
    tainted: bool = False,
) -> Verdict:
    """deny over ask over allow, whatever is more specific. After untrusted text a stored allow asks again."""
    covering = [rule for rule in rules if rule.covers(action, conversation_id)]
    verdict = _by_rule(covering, ("deny", "ask")) or _allow(
        action, covering, read_only=read_only, tainted=tainted
    )
    if verdict.effect == "ask" and mode == "locked":
        return Verdict("deny", "default")
    return verdict


def _by_rule(rules: list[Rule], effects: tuple[Effect, ...]) -> Verdict | None:
    for effect in effects:
        for rule in rules:
            if rule.effect == effect:
                return Verdict(effect, "rule", rule)
    return None


def _allow(action: Action, rules: list[Rule], *, read_only: bool, tainted: bool) -> Verdict:
    if action.risk is Risk.LOW and read_only:
        return Verdict("allow", "default")
    allowed = _by_rule(rules, ("allow",))
    if allowed is None or (tainted and not read_only):
        return Verdict("ask", "default")
    return allowed


@lru_cache(256)
def glob(pattern: str) -> re.Pattern[str]:
    """An anchored path glob: `*` and `?` stay within a folder, `**` crosses folders."""
    out = ""
    for part in re.split(r"(\*\*/?|\*|\?)", pattern):
        out += {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}.get(part, re.escape(part))
    return re.compile(out, re.DOTALL)
