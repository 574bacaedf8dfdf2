"""One message as one growing document: finished parts go in once, only the end is drawn again."""

from __future__ import annotations

from PySide6.QtCore import QObject
from PySide6.QtGui import QTextBlockFormat, QTextCursor, QTextDocument, QTextDocumentFragment, QTextOption

from ui import theme
from ui.chat import chunks
from ui.chat.chunks import Chunk
from ui.chat.highlight import Highlighter
from ui.chat.styling import CODE_HEADER, INDENT, Area, code_block_format, code_char_format, parse


class MarkdownDocument(QTextDocument):
    """Markdown that may still be coming. `areas` says what to paint behind it."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.setUndoRedoEnabled(False)
        self._highlighter = Highlighter(self)
        self._source: list[str] = []
        self._tail = ""
        self._final = False
        self._start_over()

    @property
    def source(self) -> str:
        """The markdown so far."""
        return "".join(self._source)

    @property
    def areas(self) -> list[Area]:
        """Code panels, quotations and rules, in order."""
        return self._areas + self._tail_areas

    def append(self, text: str) -> None:
        """More markdown came."""
        text = chunks.clean(text)
        if not text:
            return
        self._source.append(text)
        self._tail += text
        if self._grow_code():
            return
        self._remove_tail()
        done, self._tail = chunks.split(self._tail, final=False)
        self._insert_all(done)
        self._draw_tail()

    def finish(self) -> None:
        """Nothing more will come."""
        if self._final:
            return
        self._final = True
        shared = chunks.definitions(self.source)
        if shared:
            self._start_over()
            self._tail = self.source
        else:
            self._remove_tail()
        done, self._tail = chunks.split(self._tail, final=True)
        self._insert_all(done, shared)

    def set_source(self, source: str) -> None:
        """Show this, whole and finished."""
        self._source, self._tail, self._final = [chunks.clean(source)], chunks.clean(source), False
        self._start_over()
        self.finish()

    def redraw(self) -> None:
        """Draw everything again, in the colours of now."""
        source, final = self.source, self._final
        self._source, self._tail, self._final = [], "", False
        self._start_over()
        self.append(source)
        if final:
            self.finish()

    def text_of(self, area: Area) -> str:
        """The lines of a code area."""
        lines, block = [], self.findBlock(area.start)
        while block.isValid() and block.position() <= area.end:
            lines.append(block.text())
            block = block.next()
        return "\n".join(lines)

    def _start_over(self) -> None:
        self._highlighter.clear()
        self.clear()
        self.setDocumentMargin(0)
        self._leave_at_top(0)
        self.setIndentWidth(INDENT)
        self.setDefaultFont(theme.text_font())
        option = QTextOption()
        option.setWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
        self.setDefaultTextOption(option)
        self._areas: list[Area] = []
        self._tail_areas: list[Area] = []
        self._is_blank = True  # nothing is drawn yet
        self._tail_start = -1  # where the tail is drawn; -1: none is
        self._tail_is_all = False
        self._tail_format = QTextBlockFormat()
        self._code_lines = -1  # lines drawn of an open code block that is the whole tail; -1: it isn't

    def _insert_all(self, done: list[Chunk], shared: str = "") -> None:
        for chunk in done:
            areas = self._insert(chunk, shared)
            self._areas += areas
            for area in areas:
                if area.kind == "code":
                    self._highlighter.add(area.start, self.text_of(area), area.detail)

    def _draw_tail(self) -> None:
        if not self._tail.strip():
            return
        self._tail_start, self._tail_is_all = self.characterCount() - 1, self._is_blank
        self._tail_format = self.lastBlock().blockFormat()
        chunk = chunks.as_chunk(self._tail)
        self._tail_areas = self._insert(chunk)
        if chunk.is_code:
            self._code_lines = len(chunks.code_parts(chunk)[1])

    def _remove_tail(self) -> None:
        if self._tail_start < 0:
            return
        if self._tail_is_all:
            self._start_over()
            return
        cursor = QTextCursor(self)
        cursor.setPosition(self._tail_start)
        cursor.movePosition(QTextCursor.MoveOperation.End, QTextCursor.MoveMode.KeepAnchor)
        cursor.removeSelectedText()
        cursor.setBlockFormat(self._tail_format)
        self._tail_areas, self._tail_start, self._code_lines = [], -1, -1

    def _insert(self, chunk: Chunk, shared: str = "") -> list[Area]:
        at_start, self._is_blank = self._is_blank, False
        cursor = QTextCursor(self)
        cursor.movePosition(QTextCursor.MoveOperation.End)
        cursor.beginEditBlock()
        if chunk.is_code:
            areas = self._insert_code(cursor, chunk, at_start)
        else:
            areas = self._insert_prose(cursor, f"{chunk.source}\n\n{shared}", at_start)
        cursor.endEditBlock()
        if at_start and areas and areas[0].kind == "code" and areas[0].start == 0:
            self._leave_at_top(CODE_HEADER)
        return areas

    def _insert_prose(self, cursor: QTextCursor, source: str, at_start: bool) -> list[Area]:
        parsed, areas = parse(source)
        base = cursor.position()
        cursor.insertFragment(QTextDocumentFragment(parsed))
        if at_start and QTextCursor(self.begin().next()).currentTable() is None:
            cursor.setPosition(0)
            cursor.deleteChar()
            base -= 1
        return [area.moved(base) for area in areas]

    def _insert_code(self, cursor: QTextCursor, chunk: Chunk, at_start: bool) -> list[Area]:
        language, lines = chunks.code_parts(chunk)
        characters, start = code_char_format(), -1
        for index, line in enumerate(lines or [""]):
            form = code_block_format(first=index == 0, last=index >= len(lines) - 1)
            if index == 0 and at_start:
                cursor.setBlockFormat(form)
                cursor.setBlockCharFormat(characters)
            else:
                cursor.insertBlock(form, characters)
            start = cursor.position() if index == 0 else start
            cursor.insertText(line, characters)
        return [Area("code", start, cursor.block().position(), language)]

    def _leave_at_top(self, pixels: int) -> None:
        """Room above the first block, whose own margin Qt leaves out."""
        form = self.rootFrame().frameFormat()
        form.setTopMargin(pixels)
        self.rootFrame().setFrameFormat(form)

    def _grow_code(self) -> bool:
        """Add to an open code block what is new in it. False: it isn't one, or it ended."""
        if self._code_lines < 0 or chunks.split(self._tail, final=False)[0]:
            return False
        lines = chunks.code_parts(chunks.as_chunk(self._tail))[1]
        cursor = QTextCursor(self)
        cursor.movePosition(QTextCursor.MoveOperation.End)
        shown = max(self._code_lines, 1)
        if len(lines) < shown:
            return False
        cursor.beginEditBlock()
        cursor.insertText(lines[shown - 1][cursor.positionInBlock() :], code_char_format())
        for index in range(shown, len(lines)):
            cursor.setBlockFormat(code_block_format(first=index == 1, last=False))
            form = code_block_format(first=False, last=index == len(lines) - 1)
            cursor.insertBlock(form, code_char_format())
            cursor.insertText(lines[index], code_char_format())
        cursor.endEditBlock()
        area = self._tail_areas[0]
        self._tail_areas = [Area("code", area.start, cursor.block().position(), area.detail)]
        self._code_lines = len(lines)
        return True
