"""Looking at the screen: a picture taken now, its text read."""

from __future__ import annotations

from typing import Annotated

from app.errors import UserError
from app.observe import Line
from app.observe.ocr import positioned
from app.permissions.action import Action, Offer, Risk, Scope
from app.tool import Description, ToolContext, ToolError, tool

MOST_LETTERS = 12_000


def describe(context: ToolContext, find: str) -> Description:
    """The call in words."""
    wanted = f", for lines with {find!r}" if find else ""
    return Description(
        headline="Look at the screen?",
        detail=f"Take a picture of the screen and read its text{wanted}.",
        facts=("Sidelight's own windows are left out", "The picture is not kept; the text goes to the model"),
        risk=Risk.MEDIUM,
    )


def offers(action: Action) -> tuple[Offer, ...]:
    """Looking may be granted for longer."""
    return (
        Offer(Scope.ONCE, "this one look"),
        Offer(Scope.CHAT, "looking at the screen whenever it asks, in this chat"),
        Offer(Scope.ALWAYS, "looking at the screen whenever it asks, in every chat"),
    )


@tool("screen.look", describe=describe, offers=offers, read_only=True, open_world=False)
async def look(
    context: ToolContext,
    find: Annotated[str, "Return only lines that contain this text; empty for all lines."] = "",
) -> str:
    """Read the text on the user's screen now. Each line is given as `[x,y] text`, x and y in pixels."""
    if context.observer is None or context.reader is None:
        raise ToolError("The screen can't be looked at here.")
    try:
        reading = await context.reader.read(await context.observer.frame())
    except UserError as error:
        raise ToolError(str(error)) from error
    wanted = [line for line in reading.lines if find.casefold() in line.text.casefold()]
    if not wanted:
        found = f"none of the {len(reading.lines)} lines contains {find!r}" if find else "no text was found"
        return f"{reading.source}: {found}."
    return f"{reading.source}:\n{_capped(wanted)}"


def _capped(lines: list[Line]) -> str:
    text = ""
    for index, line in enumerate(lines):
        text += positioned(line) + "\n"
        if len(text) > MOST_LETTERS:
            return f"{text}… cut here: {len(lines) - index - 1} more lines. Use `find` to look for something."
    return text.rstrip("\n")
