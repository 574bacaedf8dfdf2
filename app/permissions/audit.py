"""The log of every decision and outcome: lines that are only appended, each chained to the one before."""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal

from app.errors import UserError
from app.permissions.files import locked, open_private
from app.permissions.policy import By
from app.permissions.visible import visible

# asked: put to the person; allowed: cleared to run; denied: by a person or a rule; refused: by us, whatever
# the rules say; finished and failed: how a call ended
AuditEvent = Literal["asked", "allowed", "denied", "refused", "finished", "failed"]
MOST_LETTERS = 20_000  # of one field
BLOCK = 1 << 16
START = "0" * 64


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One line of the log; its texts are safe to show."""

    number: int
    time: float  # seconds since the epoch
    event: AuditEvent
    tool: str
    detail: str  # the exact thing: "git status"
    by: By
    reason: str = ""
    conversation_id: str = ""
    arguments: str = ""
    tainted: bool = False


class Audit:
    """An append-only file. A line that did not reach the disk whole is passed over, and shows in `verify`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()

    def record(
        self,
        event: AuditEvent,
        tool: str,
        detail: str,
        by: By,
        *,
        reason: str = "",
        conversation_id: str = "",
        arguments: str = "",
        tainted: bool = False,
    ) -> None:
        """Append one line and wait until it is on the disk; raises UserError, and then nothing may run."""
        entry = AuditEntry(
            number=0,
            time=time.time(),
            event=event,
            tool=tool,
            detail=_cut(detail),
            by=by,
            reason=_cut(reason),
            conversation_id=conversation_id,
            arguments=_cut(arguments),
            tainted=tainted,
        )
        try:
            with self._lock:
                self._append(entry)
        except OSError as error:
            cause = error.strerror
            raise UserError(f"The log {self.path} can't be written ({cause}), so nothing is run.") from error

    def _append(self, entry: AuditEntry) -> None:
        number = open_private(self.path, os.O_RDWR | os.O_APPEND)
        try:
            with locked(number):
                last, whole = _last_line(number)
                values = asdict(entry) | {"number": _number(last) + 1, "prev": _digest(last)}
                # Pure ASCII: escapes in the text stay harmless to whoever prints the file.
                line = json.dumps(values).encode() + b"\n"
                _write(number, line if whole else b"\n" + line)
                os.fsync(number)
        finally:
            os.close(number)

    def entries(self, limit: int = 200) -> list[AuditEntry]:
        """The newest entries, newest first."""
        if not self.path.exists():
            return []
        with self.path.open("rb") as file:
            lines = _tail(file.fileno(), limit)
        return [entry for line in reversed(lines) if (entry := _entry(line)) is not None][:limit]

    def verify(self) -> str:
        """Empty if every line follows from the one before, else a sentence saying where the chain breaks."""
        if not self.path.exists():
            return ""
        before = b""
        with self.path.open("rb") as file:
            for place, raw in enumerate(file, 1):
                line = raw.rstrip(b"\n")
                values = _parse(line)
                if values is not None and values.get("prev") != _digest(before):
                    return f"The log was changed: line {place} does not follow from line {place - 1}."
                if values is None and place == 1 and raw.endswith(b"\n"):
                    return "The log was changed: its first line can't be read."
                before = line
        return (
            ""
            if before == b"" or _parse(before) is not None
            else "The last line of the log was not written whole."
        )


def _cut(text: str) -> str:
    if len(text) <= MOST_LETTERS:
        return text
    digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
    return f"{text[:MOST_LETTERS]} … cut; {len(text):,} letters, sha256 {digest}"


def _digest(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest() if line else START


def _parse(line: bytes) -> dict[str, Any] | None:
    try:
        values = json.loads(line)
    except ValueError:
        return None
    return values if isinstance(values, dict) else None


def _number(line: bytes) -> int:
    number = (_parse(line) or {}).get("number", 0)
    return number if isinstance(number, int) else 0


def _entry(line: bytes) -> AuditEntry | None:
    values = _parse(line)
    names = {field.name for field in fields(AuditEntry)}
    if values is None or not names <= values.keys():
        return None
    shown: dict[str, Any] = {name: values[name] for name in names}
    for name, value in shown.items():
        shown[name] = visible(value) if isinstance(value, str) else value
    return AuditEntry(**shown)


def _last_line(number: int) -> tuple[bytes, bool]:
    """The last line, and whether it was ended."""
    size = os.fstat(number).st_size
    if not size:
        return b"", True
    os.lseek(number, size - 1, os.SEEK_SET)
    whole = os.read(number, 1) == b"\n"
    return (_tail(number, 1) or [b""])[-1], whole


def _tail(number: int, count: int) -> list[bytes]:
    """The last `count` lines that are not empty, read from the end."""
    place, data = os.fstat(number).st_size, b""
    while place > 0 and data.rstrip(b"\n").count(b"\n") < count:
        step = min(place, max(BLOCK, len(data)))
        place -= step
        os.lseek(number, place, os.SEEK_SET)
        data = os.read(number, step) + data
    lines = data.split(b"\n")
    return [line for line in (lines if place == 0 else lines[1:]) if line][-count:]


def _write(number: int, data: bytes) -> None:
    while data:
        data = data[os.write(number, data) :]
