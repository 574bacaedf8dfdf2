"""Text from elsewhere, made safe to show: what cannot be seen is spelt out."""

from __future__ import annotations

import re
import unicodedata

HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
# Letters and symbols by category, yet drawn as nothing: Hangul fillers, blank braille, joiners, Khmer vowels.
BLANK = set("\u3164\u115f\u1160\uffa0\u2800\u034f\u17b4\u17b5")
GLYPHS = {"\n": "⏎", "\t": "⇥"}
OURS = set("⟨⟩⏎⇥")  # spelt out when they come from outside, so that ours cannot be imitated
MOST_SPACES = 8
MOST_MARKS = 3  # combining marks on one letter; more would run over the lines around
LEFT_ALONE = re.compile(r"[ -~]*")
BLANKS = re.compile(rf"[ \t\n]{{{MOST_SPACES + 1},}}")


def visible(text: str, *, lines: bool = False) -> str:
    """The text with controls, bidi marks, zero-width and filler characters as ⟨U+XXXX⟩, long blanks counted.

    Line breaks and tabs become glyphs; with `lines` a real line break follows each glyph.
    """
    if LEFT_ALONE.fullmatch(text) and " " * (MOST_SPACES + 1) not in text:
        return text
    out, marks = [], 0
    for piece, blank in _pieces(text):
        if blank:
            out.append(_count(piece))
            continue
        for letter in piece:
            marks = marks + 1 if unicodedata.combining(letter) else 0
            out.append(_letter(letter, marks))
    shown = "".join(out)
    return shown.replace("⏎", "⏎\n") if lines else shown


def _pieces(text: str) -> list[tuple[str, bool]]:
    """The text in parts, long runs of blanks apart."""
    pieces, start = [], 0
    for run in BLANKS.finditer(text):
        pieces += [(text[start : run.start()], False), (run.group(), True)]
        start = run.end()
    return [*pieces, (text[start:], False)]


def _count(run: str) -> str:
    breaks = run.count("\n")
    if not breaks:
        return f"⟨{len(run)} {'spaces' if set(run) == {' '} else 'blanks'}⟩"
    return f"⟨{len(run)} blanks, {breaks} of them line breaks⟩⏎"


def _letter(letter: str, marks: int) -> str:
    if letter in GLYPHS:
        return GLYPHS[letter]
    if letter.isascii() and letter.isprintable():
        return letter
    if marks > MOST_MARKS or letter in OURS or letter in BLANK or _is_hidden(letter):
        return f"⟨U+{ord(letter):04X}⟩"
    return letter


def _is_hidden(letter: str) -> bool:
    code = ord(letter)
    selector = 0xFE00 <= code <= 0xFE0F or 0xE0000 <= code <= 0xE0FFF or 0x180B <= code <= 0x180F
    return selector or unicodedata.category(letter) in HIDDEN | {"Zs"}
