"""Markdown to cut up, for the tests of this folder."""

from itertools import pairwise

from hypothesis import strategies as st

PIECES = [
    "# Heading", "plain words", "- item", "  more of the item", "1. one", "", "", "```py", "x = 1", "```",
    "~~~",
    "| a | b |", "|---|---|", "| 1 | 2 |", "> quote", "    indented", "---", "**bold** and `code`",
    "[a]: http://b.c",
    "* star", "12) twelve", "<b>html</b>", "&amp; $x$ \\(y\\)", "😀 漢字 \u200f\u202e", "![i](file:///etc/passwd)",
]  # fmt: skip


def sources():
    return st.lists(st.sampled_from(PIECES), max_size=24).map("\n".join)


def pieces(source, cuts):
    at = sorted({min(cut, len(source)) for cut in cuts} | {0, len(source)})
    return [source[start:end] for start, end in pairwise(at)]
