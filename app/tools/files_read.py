"""Reading a text file inside the granted folder."""

from __future__ import annotations

import asyncio
import codecs
import os
from typing import Annotated

from app.permissions.action import Risk
from app.permissions.beneath import granted, locate, open_file
from app.tool import Description, ToolContext, ToolError, tool

MOST_BYTES = 32 << 10
MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def describe(context: ToolContext, path: str) -> Description:
    """The call in words; a path that may not be read is refused here, before anybody is asked."""
    place = str(locate(context, path))
    return Description(
        headline="Read a file?",
        detail=place,
        facts=(f"Folder: {granted(context)}", "Only reads"),
        risk=Risk.LOW,
        subject={"path": place},
    )


@tool("files.read", describe=describe, read_only=True, open_world=False)
async def read(
    context: ToolContext, path: Annotated[str, "The file's path, relative to the granted folder."]
) -> str:
    """Read a text file in the folder the user granted. Long files are cut after the first part."""
    return await asyncio.to_thread(_read, context, path)


def _read(context: ToolContext, path: str) -> str:
    with os.fdopen(open_file(context, path), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        # A file of the system may claim no size and still have no end: never read on to the end.
        data = file.read(MOST_BYTES + 1)
    cut = len(data) > MOST_BYTES
    text, note = _decode(data[:MOST_BYTES], path, size, cut=cut)
    if cut:
        note = f"{note}\n" if note else ""
        note += f"[cut: this is the first {MOST_BYTES:,} of {max(size, len(data)):,} bytes]"
    if not text and not note:
        return f"{path} is empty."
    return f"{text}\n{note}" if note else text


def _decode(data: bytes, path: str, size: int, *, cut: bool) -> tuple[str, str]:
    """The text, and a remark if not all of it could be read."""
    encoding = next((name for mark, name in MARKS if data.startswith(mark)), "utf-8")
    if encoding != "utf-16" and b"\0" in data:
        raise ToolError(f"{path} is not a text file ({size:,} bytes of binary data).")
    decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
    text = decoder.decode(data, final=not cut)  # a cut through a character is no fault of the file
    bad = text.count("\ufffd") - data.count("\ufffd".encode())
    if bad > 0 and encoding != "utf-16":
        return text, f"[not all of it is UTF-8: what is not, {bad:,} in all, is shown as \ufffd]"
    return text, ""
