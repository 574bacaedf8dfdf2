"""Cutting growing markdown into pieces that, once finished, never change."""

from __future__ import annotations

import re
from dataclasses import dataclass

_FENCE = re.compile(r"(`{3,})[^`]*$|(~{3,})")
_NESTED_FENCE = re.compile(r"[\s>]*(?:(?:[-*+]|\d{1,9}[.)])\s+)*(?:(`{3,})[^`]*$|(~{3,}))")
_ITEM = re.compile(r" {0,3}(?:[-*+]|\d{1,9}[.)])(?:\s|$)")
_DEFINITION = re.compile(r"^ {0,3}\[[^\]\n]+\]:[ \t]*\S+.*$", re.MULTILINE)
_MOST_ITEMS = 40  # a longer list goes in parts, cut between its outermost items
_LONGEST_MARKER = 15  # characters after which a line is known to start a list item, or not to

# A document structure character of Qt's, or one that would break a line where markdown sees none.
_UNSAFE = {
    **dict.fromkeys(map(ord, "\0\ufdd0\ufdd1\ufffc"), "\ufffd"),
    **dict.fromkeys(map(ord, "\u2028\u2029\v\f\x1c\x1d\x1e\x85"), "\n"),
    ord("\r"): None,
}


@dataclass(frozen=True, slots=True)
class Chunk:
    """A top-level stretch of markdown: one fenced code block, or anything else."""

    source: str
    is_code: bool = False
    is_closed: bool = True


def clean(text: str) -> str:
    """The text without the few characters that mean something to the document itself."""
    return text.translate(_UNSAFE).encode("utf-8", "replace").decode("utf-8")


def definitions(source: str) -> str:
    """Its link reference definitions, which any chunk may refer to."""
    return "\n".join(_DEFINITION.findall(source))


def split(source: str, *, final: bool) -> tuple[list[Chunk], str]:
    """The finished chunks at the start of `source`, and the rest. A prefix never splits differently later."""
    chunks: list[Chunk] = []
    while True:
        source = _without_blank_start(source)
        chunk, used = _first(source, final)
        if chunk is None:
            return chunks, source
        chunks.append(chunk)
        source = source[used:]


def as_chunk(tail: str) -> Chunk:
    """The unfinished rest, to be drawn as it stands."""
    first = tail.split("\n", 1)[0]
    return Chunk(tail, is_code=_opens(first) is not None and "\n" in tail, is_closed=False)


def code_parts(chunk: Chunk) -> tuple[str, list[str]]:
    """Language and lines of a code chunk."""
    opening, *lines = chunk.source.split("\n")
    mark = _opens(opening) or "```"
    words = opening[len(mark) :].split()
    if lines and _closes(lines[-1], mark):
        lines.pop()
    elif lines and lines[-1] == "":
        lines.pop()  # the newline that ends the last line so far
    return (words[0] if words else ""), lines


def _without_blank_start(source: str) -> str:
    while True:
        line, newline, rest = source.partition("\n")
        if line.strip() or not newline:
            return source
        source = rest


def _first(source: str, final: bool) -> tuple[Chunk | None, int]:
    if not source or (final and not source.strip()):
        return None, 0
    mark = _opens(source.split("\n", 1)[0])
    if mark is not None:
        return _code(source, mark, final)
    return _prose(source, final)


def _code(source: str, mark: str, final: bool) -> tuple[Chunk | None, int]:
    at = source.find("\n") + 1
    while at:
        end = source.find("\n", at)
        if end < 0:
            break
        if _closes(source[at:end], mark):
            return Chunk(source[:end], is_code=True), end + 1
        at = end + 1
    if not final:
        return None, 0
    return Chunk(source, is_code=True, is_closed=bool(at) and _closes(source[at:], mark)), len(source)


def _prose(source: str, final: bool) -> tuple[Chunk | None, int]:
    at, in_list, was_blank, nested, items = 0, False, False, "", 0
    while at < len(source):
        end = source.find("\n", at)
        complete = end >= 0
        line = source[at : end if complete else len(source)]
        if nested:
            nested = "" if _closes(line.lstrip(" >"), nested) else nested
        elif not line.strip():
            was_blank = True
        else:
            if at and complete and _opens(line) is not None:
                return Chunk(source[:at].rstrip("\n")), at
            if was_blank and _begins_anew(line, in_list, complete or final):
                return Chunk(source[:at].rstrip("\n")), at
            if complete and line[0] != " " and _ITEM.match(line):
                items += 1
                if items > _MOST_ITEMS and not line.startswith(("1.", "1)")):  # every item may be called 1
                    return Chunk(source[:at].rstrip("\n")), at
            was_blank = False
            in_list = in_list or _ITEM.match(line) is not None
            fence = _NESTED_FENCE.match(line)
            nested = (fence[1] or fence[2]) if fence else ""
        at = end + 1 if complete else len(source)
    return (Chunk(source.rstrip("\n")), len(source)) if final else (None, 0)


def _begins_anew(line: str, in_list: bool, complete: bool) -> bool:
    """Whether this line after a blank one surely starts something of its own; in doubt it doesn't."""
    if line.startswith(("    ", "\t")) or (in_list and line[0].isspace()):
        return False
    if not complete and len(line) < _LONGEST_MARKER and not line[0].isalpha():
        return False
    return not (in_list and _ITEM.match(line))


def _opens(line: str) -> str | None:
    found = _FENCE.match(line)
    return (found[1] or found[2]) if found else None


def _closes(line: str, mark: str) -> bool:
    text = line.strip()
    return len(text) >= len(mark) and set(text) == {mark[0]} and len(line) - len(line.lstrip(" ")) < 4
