"""What is asked for and what is answered: the values the permission gate works on."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Scope(StrEnum):
    """How long an answer holds."""

    ONCE = "once"
    CHAT = "chat"
    ALWAYS = "always"


class Risk(StrEnum):
    """How bad a wrong yes would be."""

    LOW = "low"  # reads inside the granted folder
    MEDIUM = "medium"  # reads the screen, or changes what can be undone
    HIGH = "high"  # runs code, changes or sends what cannot be undone


@dataclass(frozen=True, slots=True)
class Action:
    """One call, in the form that is judged, shown, logged and run: the same object throughout."""

    tool: str
    arguments: str  # canonical JSON: sorted keys
    headline: str  # in our words: "Run a command?"
    detail: str  # the exact thing, whole: "rm -r build"
    facts: tuple[str, ...]  # "Folder: /home/me/work", "Network: yes", "Not sandboxed"
    risk: Risk
    subject: str  # what a stored rule matches: canonical argv or path, as JSON


@dataclass(frozen=True, slots=True)
class Offer:
    """A scope the person may grant, with the rule in words ("any file under ~/work, this chat")."""

    scope: Scope
    words: str


@dataclass(frozen=True, slots=True)
class Ask:
    """A question to the person. `why`: where the request comes from; `said`: the model's own word for it."""

    id: str
    action: Action
    why: str
    offers: tuple[Offer, ...]
    chat: str = ""  # the conversation's title
    tainted: bool = False  # formed after untrusted text (screen, file, output) was read
    said: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """The person's answer; `note` goes to the model with a refusal."""

    allow: bool
    scope: Scope = Scope.ONCE
    note: str = ""
