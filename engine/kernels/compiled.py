"""Where compiled kernels are kept, so that compiling them happens once."""

from __future__ import annotations

import os
import platform
import re
import shutil
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from tempfile import mkdtemp
from time import time

HERE = Path(__file__).parent
READY = "ready"  # a file: all that the engine may run has been compiled
KEY = re.compile("[0-9a-f]{16}")
OLD = 3_600  # seconds: what has changed since then may be somebody else's, who compiles now


@cache
def key() -> str:
    """What compiled kernels depend on: their sources, the processor, and who compiles them.

    Files that are as old count as the same: numba doesn't look at what is in them.
    """
    from llvmlite import binding

    features = binding.get_host_cpu_features().flatten()
    facts = [str(HERE), binding.get_host_cpu_name(), features, platform.python_version()]
    facts += map(version, ("numba", "llvmlite", "numpy"))
    found = sha256("\0".join(facts).encode())
    for source in (HERE / "layouts.py", *sorted((HERE / "numba").rglob("*.py"))):
        found.update(source.read_bytes())
        found.update(str(source.stat().st_mtime_ns).encode())
    return found.hexdigest()[:16]


@cache
def folder() -> Path:
    """Beside the sources; in the user's cache where nothing can be written there."""
    for base in _bases():
        made = base / key()
        try:
            made.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(made, os.W_OK):
            return made
    return Path(mkdtemp(prefix="sidelight-kernels-"))  # for this time only: there is no place to keep it


def is_ready() -> bool:
    """Whether nothing remains to be compiled."""
    return (folder() / READY).is_file()


def mark_ready() -> None:
    """All is compiled; what was compiled of other sources, or for another processor, goes."""
    here = folder()
    (here / READY).touch()
    for other in here.parent.iterdir():
        if KEY.fullmatch(other.name) and other != here and _age(other) > OLD:
            shutil.rmtree(other, ignore_errors=True)


def _age(folder: Path) -> float:
    """Seconds since anything in it has changed."""
    return time() - max(path.stat().st_mtime for path in (folder, *folder.rglob("*")))


def _bases() -> Iterator[Path]:
    if wanted := os.environ.get("NUMBA_CACHE_DIR"):
        yield Path(wanted) / "sidelight"
    yield HERE / "__pycache__"
    from platformdirs import user_cache_path

    yield user_cache_path("sidelight", appauthor=False) / "kernels"
