"""Colours for finished code, a few milliseconds at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from time import perf_counter

from pygments.lexers import get_lexer_by_name
from pygments.token import Comment, Keyword, Name, Number, Operator, String, Token, _TokenType
from pygments.util import ClassNotFound
from PySide6.QtCore import QObject, QTimer
from PySide6.QtGui import QColor, QTextBlock, QTextCharFormat, QTextDocument, QTextLayout

from ui import theme

_SLICE_SECONDS = 0.006
_LONGEST = 100_000  # characters; longer code stays plain

_COLOURS = (
    (Comment, "syntax_comment"),
    (Keyword, "syntax_keyword"),
    (Operator.Word, "syntax_keyword"),
    (String, "syntax_string"),
    (Number, "syntax_number"),
    (Name.Function, "syntax_name"),
    (Name.Decorator, "syntax_name"),
    (Name.Tag, "syntax_name"),
    (Name.Class, "syntax_type"),
    (Name.Builtin, "syntax_type"),
    (Name.Exception, "syntax_type"),
    (Name.Attribute, "syntax_type"),
)

Span = tuple[int, int, str]  # first column, length, name of a colour


def spans(code: str, language: str) -> Iterator[list[Span]]:
    """What to colour in each line; nothing at all for a language nobody knows."""
    try:
        lexer = get_lexer_by_name(language, stripnl=False, ensurenl=False)  # type: ignore[no-untyped-call]
    except ClassNotFound:
        return
    line: list[Span] = []
    column = 0
    for kind, text in lexer.get_tokens(code):
        name = _colour_name(kind)
        for index, part in enumerate(text.split("\n")):
            if index:
                yield line
                line, column = [], 0
            width = len(part.encode("utf-16-le")) // 2  # Qt counts UTF-16 units
            if name and width:
                line.append((column, width, name))
            column += width
    yield line


def _colour_name(kind: _TokenType) -> str:
    return next((name for parent, name in _COLOURS if kind in parent), "") if kind is not Token.Text else ""


class Highlighter(QObject):
    """Colours the code blocks of one document, without ever holding up the window."""

    def __init__(self, document: QTextDocument) -> None:
        super().__init__(document)
        self._document = document
        self._waiting: deque[tuple[int, Iterator[list[Span]]]] = deque()
        self._timer = QTimer(self)
        self._timer.setInterval(0)
        self._timer.timeout.connect(self._work)

    def add(self, first_position: int, code: str, language: str) -> None:
        """Colour the lines from the block at this position on; it must not move any more."""
        if language and len(code) <= _LONGEST:
            first = self._document.findBlock(first_position).blockNumber()
            self._waiting.append((first, spans(code, language)))
            self._timer.start()

    def clear(self) -> None:
        """Forget what is waiting: the document is built anew."""
        self._waiting.clear()
        self._timer.stop()

    def _work(self) -> None:
        until = perf_counter() + _SLICE_SECONDS
        while self._waiting and perf_counter() < until:
            number, lines = self._waiting[0]
            line = next(lines, None)
            if line is None:
                self._waiting.popleft()
                continue
            self._colour(self._document.findBlockByNumber(number), line)
            self._waiting[0] = (number + 1, lines)
        if not self._waiting:
            self._timer.stop()

    def _colour(self, block: QTextBlock, line: list[Span]) -> None:
        if not block.isValid() or not line:
            return
        block.layout().setFormats([_range(*span) for span in line])
        self._document.markContentsDirty(block.position(), block.length())


def _range(start: int, length: int, name: str) -> QTextLayout.FormatRange:
    form = QTextCharFormat()
    form.setForeground(QColor(getattr(theme.colours(), name)))
    result = QTextLayout.FormatRange()
    result.start, result.length, result.format = start, length, form
    return result
