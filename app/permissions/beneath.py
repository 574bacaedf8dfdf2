"""Opening a file inside the granted folder, and nowhere else: checked and opened in one step."""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import sys
from pathlib import Path, PurePath

from app.tool import Refused, ToolContext, ToolError

OPENAT2 = 437  # the same number on x86-64 and aarch64
NO_MAGICLINKS, BENEATH = 0x02, 0x08
PSEUDO = ("/proc", "/sys", "/dev")
UNSUPPORTED = {errno.ENOSYS, errno.EPERM, errno.EINVAL}
# In the home folder; a granted folder that holds them does not open them.
CREDENTIALS = (
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".kube",
    ".docker",
    ".netrc",
    ".pgpass",
    ".git-credentials",
    ".password-store",
    ".mozilla",
    ".thunderbird",
    ".config/gcloud",
    ".config/gh",
    ".config/google-chrome",
    ".config/chromium",
    ".local/share/keyrings",
    "Library/Keychains",
    "AppData/Roaming/Microsoft/Credentials",
    "AppData/Local/Google/Chrome",
)


class How(ctypes.Structure):
    """The kernel's `struct open_how`."""

    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def closed(context: ToolContext) -> tuple[Path, ...]:
    """Paths that no tool may touch: our own folders and the places where passwords and keys are kept."""
    home = Path.home()
    return (*(each.resolve() for each in context.private), *(home.resolve() / each for each in CREDENTIALS))


def locate(context: ToolContext, path: str) -> Path:
    """Where a file inside the folder really is, links followed; raises ToolError and Refused."""
    number = open_file(context, path)
    try:
        return _real(number, granted(context).joinpath(*_parts(granted(context), path)))
    finally:
        os.close(number)


def open_file(context: ToolContext, path: str) -> int:
    """A descriptor, for reading, of a regular file inside the folder; raises ToolError and Refused."""
    folder = granted(context)
    parts = _parts(folder, path)
    if os.open not in os.supports_dir_fd:
        return _open_by_name(context, folder, parts, path)
    try:
        number = _open_at(folder, parts)
    except OSError as error:
        raise _reason(error, path) from error
    try:
        _check(context, number, folder.joinpath(*parts), path)
        return _for_reading(number, folder, parts)
    finally:
        os.close(number)


def granted(context: ToolContext) -> Path:
    """The folder the person granted; raises ToolError if there is none."""
    if context.folder is None:
        raise ToolError(
            "The user has not granted a folder, so there is nothing to work in. Ask them to choose one."
        )
    folder = context.folder.resolve()
    if not folder.is_dir():
        raise ToolError(f"The granted folder {folder} is not there any more.")
    return folder


def _parts(folder: Path, path: str) -> tuple[str, ...]:
    """The path below the folder, piece by piece; what could lead out is refused before the disk is asked."""
    if not path or "\0" in path:
        raise ToolError("The path is empty." if not path else "The path contains a NUL character.")
    pure = PurePath(path)
    if ".." in path.replace("\\", "/").split("/"):
        raise Refused(f"{path} was not opened: a path may not contain '..'.")
    if sys.platform == "win32":
        _check_windows(pure, path)
    if pure.is_absolute():
        if not pure.is_relative_to(folder):
            raise Refused(f"{path} is outside the granted folder {folder}.")
        pure = pure.relative_to(folder)
    return pure.parts


def _check_windows(pure: PurePath, path: str) -> None:
    rest = pure.parts[1:] if pure.is_absolute() else pure.parts
    odd = any(":" in part or part != part.rstrip(". ") or "~" in part for part in rest)
    if odd or path.startswith(("\\\\", "//", "\\??")) or any(os.path.isreserved(part) for part in rest):  # type: ignore[attr-defined,unused-ignore]
        raise Refused(f"{path} was not opened: it is a special name on Windows.")


def _open_at(folder: Path, parts: tuple[str, ...]) -> int:
    """Without reading or waking a device: on Linux the descriptor names the file and does no more."""
    start = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if sys.platform == "linux":
            try:
                return _openat2(start, "/".join(parts) or ".", os.O_PATH | os.O_CLOEXEC)
            except OSError as error:
                if error.errno not in UNSUPPORTED:
                    raise
        return _open_by_piece(start, parts)
    finally:
        os.close(start)


def _openat2(start: int, path: str, flags: int) -> int:
    library = ctypes.CDLL(None, use_errno=True)
    how = How(flags, 0, BENEATH | NO_MAGICLINKS)
    for _ in range(8):
        number = library.syscall(
            ctypes.c_long(OPENAT2),
            ctypes.c_int(start),
            os.fsencode(path),
            ctypes.byref(how),
            ctypes.c_size_t(ctypes.sizeof(how)),
        )
        # EAGAIN: something was renamed on the way, and the kernel could not be sure.
        if number >= 0 or ctypes.get_errno() != errno.EAGAIN:
            break
    if number < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), path)
    return int(number)


def _open_by_piece(start: int, parts: tuple[str, ...]) -> int:
    """Each piece opened from the one before, links refused: for systems without openat2."""
    number = os.dup(start)
    for index, part in enumerate(parts):
        last = index == len(parts) - 1
        flags = os.O_NONBLOCK if last else os.O_DIRECTORY
        try:
            inner = os.open(part, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | flags, dir_fd=number)
        finally:
            os.close(number)
        number = inner
    return number


def _for_reading(number: int, folder: Path, parts: tuple[str, ...]) -> int:
    """The same file, opened for reading: by its descriptor, never by its name again."""
    if sys.platform != "linux":
        return os.dup(number)
    try:
        return os.open(f"/proc/self/fd/{number}", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise _reason(error, "/".join(parts)) from error


def _open_by_name(context: ToolContext, folder: Path, parts: tuple[str, ...], path: str) -> int:
    """For systems that can't open from a folder's descriptor: resolve, open, and compare what was opened."""
    real = Path(os.path.realpath(folder.joinpath(*parts)))
    if not real.is_relative_to(folder):
        raise Refused(f"{path} is outside the granted folder {folder}.")
    if not real.is_file():
        raise ToolError(f"{path} is a folder, not a file." if real.is_dir() else f"There is no file {path}.")
    try:
        number = os.open(real, os.O_RDONLY | getattr(os, "O_BINARY", 0))
    except OSError as error:
        raise _reason(error, path) from error
    try:
        if not os.path.samestat(os.fstat(number), os.stat(real)) or os.path.realpath(real) != str(real):
            raise Refused(f"{path} changed while it was opened.")
        _check(context, number, real, path)
    except ToolError:
        os.close(number)
        raise
    return number


def _check(context: ToolContext, number: int, named: Path, path: str) -> None:
    status = os.fstat(number)
    if stat.S_ISDIR(status.st_mode):
        raise ToolError(f"{path} is a folder, not a file.")
    if not stat.S_ISREG(status.st_mode):
        raise Refused(f"{path} was not opened: it is {_kind(status.st_mode)}, not a file.")
    if any(os.path.exists(each) and os.stat(each).st_dev == status.st_dev for each in PSEUDO):
        raise Refused(f"{path} was not opened: it is part of the system, not a file.")
    real = _real(number, named)
    shut = [os.stat(each) for each in closed(context) if each.exists()]
    for place in (real, *real.parents):
        if place.exists() and any(os.path.samestat(os.stat(place), each) for each in shut):
            raise Refused(f"{path} was not opened: {place} is closed to every tool.")


def _real(number: int, named: Path) -> Path:
    """The path of what is open; without /proc, the name it was opened by."""
    try:
        return Path(os.readlink(f"/proc/self/fd/{number}"))
    except OSError:
        return Path(os.path.realpath(named))


def _kind(mode: int) -> str:
    for test, word in (
        (stat.S_ISFIFO, "a pipe"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISLNK, "a link"),
    ):
        if test(mode):
            return word
    return "a device"


def _reason(error: OSError, path: str) -> ToolError:
    match error.errno:
        case errno.EXDEV:
            return Refused(f"{path} leads outside the granted folder.")
        case errno.ELOOP:
            return Refused(f"{path} was not opened: it goes through a link that can't be followed.")
        case errno.ENOENT | errno.ENOTDIR:
            return ToolError(f"There is no file {path} in the granted folder.")
        case errno.EACCES | errno.EPERM:
            return ToolError(f"{path} can't be read: permission denied.")
        case _:
            return ToolError(f"{path} can't be opened: {error.strerror}.")
