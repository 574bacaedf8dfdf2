"""What works on this machine, one line each."""

from __future__ import annotations

import asyncio
import importlib.metadata
import os
import platform
import shutil
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

from app import paths
from app.errors import UserError
from app.library.found import default_model
from app.paths import Paths
from app.settings import Settings
from engine import EngineError

GIB = 1 << 30
LIBRARIES = ("torch", "tokenizers", "PySide6_Essentials", "rapidocr", "onnxruntime", "mss", "keyring")


def doctor(model: Path | None) -> int:
    """Print a line for each part; 2 when the model, the one part that must be there, is not."""
    try:
        places = paths.find()
    except UserError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    settings = Settings(places.settings)
    checks: tuple[tuple[str, Callable[[], str | Awaitable[str]]], ...] = (
        ("Sidelight", versions),
        ("Libraries", libraries),
        ("Model", lambda: describe_model(model, settings)),
        ("Screen", lambda: capture(settings)),
        ("Text reading", reading),
        ("Keyring", keyring),
        ("Sandbox", sandbox),
        ("Files", lambda: disk(places)),
        ("Folder for tools", lambda: folder(places, settings)),
    )
    return asyncio.run(run(checks))


async def run(checks: tuple[tuple[str, Callable[[], str | Awaitable[str]]], ...]) -> int:
    """Make the checks, one after another."""
    status = 0
    for name, check in checks:
        try:
            found = check()
            text = found if isinstance(found, str) else await found
        except (UserError, EngineError) as error:
            text = f"no: {error}"
            status = 2 if name == "Model" else status
        except ImportError as error:
            text = f"no: a part is missing ({error})."
        sys.stdout.write(f"{name + ':':18}{text}\n")
        sys.stdout.flush()
    return status


def versions() -> str:
    """Sidelight, Python and the system."""
    return f"{version('sidelight')}, Python {platform.python_version()}, {platform.platform(terse=True)}"


def libraries() -> str:
    """The versions of what matters."""
    return ", ".join(f"{name} {version(name)}" for name in LIBRARIES)


def version(name: str) -> str:
    """An installed package's version."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "missing" if name != "sidelight" else "0.1.0 (not installed)"


async def describe_model(model: Path | None, settings: Settings) -> str:
    """Load the model and say what it is."""
    from app.backends.local import LocalBackend

    backend = LocalBackend(lambda: model or default_model(settings.text("model.path")))
    try:
        info = await backend.load()
        return (
            f"{info.name}, {info.architecture}, {info.parameters / 1e6:,.0f} million parameters, "
            f"{info.quantisation}, context {info.context:,} tokens, {info.device}"
        )
    finally:
        await backend.close()


async def capture(settings: Settings) -> str:
    """Take one picture of the screen, and forget it."""
    from app.observe import Observer

    observer = Observer(settings.whole("screen.monitor") or None)
    try:
        return f"yes, {(await observer.frame()).monitor}"
    finally:
        await observer.close()


async def reading() -> str:
    """Read a picture that has a word in it."""
    from PIL import Image, ImageDraw, ImageFont

    from app.observe import Frame, Reader

    picture = Image.new("RGB", (320, 80), "white")
    ImageDraw.Draw(picture).text((20, 20), "Sidelight", "black", ImageFont.load_default(36))
    reader = Reader()
    try:
        read = (await reader.read(Frame(picture, "a test picture", 0, 0, 0.0))).plain.strip()
    finally:
        await reader.close()
    return "yes" if read == "Sidelight" else f"no: a test picture was read as {read!r}."


def keyring() -> str:
    """Where secrets would be kept."""
    import keyring as library

    backend = library.get_keyring()
    return f"yes, {backend.name}" if backend.priority >= 1 else "no: there is no safe place for secrets here."


def sandbox() -> str:
    """Whether commands run closed off."""
    from app.sandbox import bubblewrap

    problem = bubblewrap.problem()
    return f"no: {problem}" if problem else "yes, bubblewrap"


def disk(places: Paths) -> str:
    """Where files are, and the room left there."""
    free = shutil.disk_usage(places.data).free
    return f"{places.data} ({free / GIB:,.1f} GiB free), settings in {places.settings}"


def folder(places: Paths, settings: Settings) -> str:
    """The folder tools may use."""
    path = Path(settings.text("folder")).expanduser() if settings.text("folder") else places.folder
    if not path.exists():
        return f"{path}, made when a tool first needs it"
    writable = os.access(path, os.R_OK | os.W_OK | os.X_OK)
    return f"{path}" if writable else f"no: Sidelight may not use {path}."
