"""The virtual environment: made, checked, and mended after an interruption."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from installer.errors import SetupError
from installer.place import Place
from installer.process import Runner

# A dist-info folder has all of these once pip is through with a package; INSTALLER is among the last written.
COMPLETE = ("METADATA", "RECORD", "INSTALLER")
USABLE = "import sys, pip; sys.exit(sys.version_info < (3, 11))"


def provide(place: Place, runner: Runner) -> bool:
    """Have a working environment; True if it had to be made."""
    if is_usable(place):
        mend(place)
        return False
    remove(place)
    # Our own executable may be that of the environment which was just removed.
    base = getattr(sys, "_base_executable", sys.executable)
    outcome = runner.run([base, "-m", "venv", str(place.venv)], hold_lock=True)
    if outcome.code != 0 or not is_usable(place):
        if "No space left on device" in outcome.output:
            raise SetupError("The disk is full. Free some space, then run this again.")
        raise SetupError(f"No virtual environment could be made in {place.venv}; {place.log} says why.")
    return True


def is_usable(place: Place) -> bool:
    """Whether the environment's Python starts, is new enough and has pip."""
    try:
        answer = subprocess.run(
            [str(place.python), "-c", USABLE], capture_output=True, stdin=subprocess.DEVNULL, check=False
        )
    except OSError:
        return False
    return answer.returncode == 0


def remove(place: Place) -> None:
    """Take the environment away."""
    if place.venv.is_symlink() or place.venv.is_file():
        place.venv.unlink()
    elif place.venv.exists():
        shutil.rmtree(place.venv)


def mend(place: Place) -> list[str]:
    """Drop what a stopped pip left behind, so that those packages are installed again; the names dropped."""
    if place.packages is None:
        return []
    remains = [folder for folder in place.packages.iterdir() if folder.is_dir() and is_remains(folder)]
    for folder in remains:
        shutil.rmtree(folder)
    return [folder.name for folder in remains]


def is_remains(folder: Path) -> bool:
    """Whether a folder is a half-written note of a package, or one that pip was about to replace."""
    if folder.name.startswith("~"):
        return True
    return folder.suffix == ".dist-info" and not all((folder / name).is_file() for name in COMPLETE)


def installed_version(place: Place, package: str) -> str | None:
    """The version of an installed package, read off its folder's name."""
    if place.packages is None:
        return None
    names = [folder.name for folder in place.packages.glob(f"{package}-*.dist-info")]
    return names[0].removesuffix(".dist-info").partition("-")[2] if names else None
