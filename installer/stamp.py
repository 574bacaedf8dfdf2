"""The note in `.venv` that says what is installed there, so that the next start need not look."""

from __future__ import annotations

import hashlib
import json
import os

from installer.levels import Level
from installer.place import Place


class Stamp:
    """Written last, so that an interrupted installation has none."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._path = place.venv / "sidelight-setup.json"

    def covers(self, level: Level, torch: str | None) -> bool:
        """Whether everything for `level` is in place, with the named build of PyTorch if one is named."""
        try:
            note = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return False
        return (
            isinstance(note, dict)
            and note.get("key") == self.key()
            and level.name in note.get("levels", [])
            and torch in (None, note.get("torch"))
            and os.access(self._place.python, os.X_OK)
            and self._place.model is not None
            and self._place.model.is_file()
        )

    def write(self, level: Level, torch: str) -> None:
        """Note that `level` is complete."""
        note = {"key": self.key(), "levels": list(level.contains), "torch": torch}
        partial = self._path.with_suffix(".part")
        partial.write_text(json.dumps(note), encoding="utf-8")
        partial.replace(self._path)

    def remove(self) -> None:
        """Forget, before anything is changed."""
        self._path.unlink(missing_ok=True)

    def key(self) -> str:
        """A digest of what an installation depends on: our files, the Python, and where the checkout lies."""
        digest = hashlib.sha256(str(self._place.root).encode())
        files = [self._place.root / "pyproject.toml", self._place.venv / "pyvenv.cfg"]
        files += sorted(p for p in self._place.lists.iterdir() if p.suffix in (".py", ".txt"))
        for path in files:
            content = path.read_bytes() if path.is_file() else b""
            digest.update(f"\n{path.name} {len(content)}\n".encode() + content)
        return digest.hexdigest()
