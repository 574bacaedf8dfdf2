"""Where Sidelight keeps its files; everything under $SIDELIGHT_HOME when that is set."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from app.errors import UserError

NAME = "sidelight"


@dataclass(frozen=True, slots=True)
class Paths:
    """The folders, made when first asked for, and the files in them."""

    config: Path
    data: Path
    state: Path
    cache: Path
    folder: Path  # the assistant's own working folder, unless the person granted another

    @property
    def settings(self) -> Path:
        """The options the person changed."""
        return self.config / "settings.toml"

    @property
    def database(self) -> Path:
        """The conversations."""
        return self.data / "conversations.db"

    @property
    def grants(self) -> Path:
        """The permissions the person gave for longer than once."""
        return self.data / "grants.json"

    @property
    def audit(self) -> Path:
        """What was asked, answered and run."""
        return self.state / "audit.jsonl"

    @property
    def log(self) -> Path:
        """What went wrong, for a report."""
        return self.state / "sidelight.log"

    @property
    def results(self) -> Path:
        """Tool results too long to keep in a conversation, whole."""
        return self.data / "results"


def find() -> Paths:
    """The paths for this person, with the folders made; UserError when that is not allowed."""
    if home := os.environ.get("SIDELIGHT_HOME"):
        root = Path(home).expanduser().absolute()
        paths = Paths(root / "config", root / "data", root / "state", root / "cache", root / "Sidelight")
    else:
        places = platformdirs.PlatformDirs(NAME, appauthor=False)
        paths = Paths(
            places.user_config_path,
            places.user_data_path,
            places.user_state_path,
            places.user_cache_path,
            Path.home() / "Sidelight",
        )
    for folder in (paths.config, paths.data, paths.state, paths.cache):
        make_folder(folder)
    return paths


def make_folder(folder: Path) -> None:
    """Make a folder only this person can read; UserError when it cannot be made or written to."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except (FileExistsError, NotADirectoryError):
        raise UserError(f"{folder} is needed as a folder, but there is a file in its place.") from None
    except OSError as error:
        raise UserError(f"The folder {folder} can't be made: {error.strerror or error}.") from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UserError(f"Sidelight may not write to the folder {folder}.")
