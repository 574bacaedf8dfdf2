"""How parsed markdown looks: margins, sizes and colours, set on a small document before it is shown."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from PySide6.QtCore import QUrl
from PySide6.QtGui import (
    QBrush,
    QColor,
    QFont,
    QTextBlock,
    QTextBlockFormat,
    QTextCharFormat,
    QTextCursor,
    QTextDocument,
    QTextFormat,
    QTextFragment,
    QTextFrameFormat,
    QTextImageFormat,
    QTextTable,
)

from ui import theme

LINK_SCHEMES = ("http", "https", "mailto")
INDENT = 28  # a list level
CODE_PADDING = 14
CODE_HEADER = 34  # language and copy button
CODE_GAP = 12  # between a code panel and the text around it
QUOTE_STEP = 16

_HEADINGS = {1: 22, 2: 19, 3: 17, 4: 15, 5: 15, 6: 15}
_LINE_PERCENT = 140
_CODE_LINE_PERCENT = 130
_TABLE_LINE_PERCENT = 110
_PROPORTIONAL = QTextBlockFormat.LineHeightTypes.ProportionalHeight.value
_FIXED = QTextBlockFormat.LineHeightTypes.FixedHeight.value
_DIALECT = QTextDocument.MarkdownFeature.MarkdownDialectGitHub | QTextDocument.MarkdownFeature.MarkdownNoHTML
_NAMELESS_IMAGE = re.compile(r"!\[\s*\]\((?=[^`\n]*$)", re.MULTILINE)  # Qt would drop it without a word
_Property = QTextFormat.Property
_RULE = _Property.UserProperty.value + 1  # ours in place of Qt's own rule, which can't be coloured


@dataclass(frozen=True, slots=True)
class Area:
    """A stretch of the document that something is painted behind; positions of its first and last block."""

    kind: Literal["code", "quote", "rule"]
    start: int
    end: int
    detail: str = ""  # code: its language

    def moved(self, by: int) -> Area:
        """The same area, `by` characters further on."""
        return Area(self.kind, self.start + by, self.end + by, self.detail)


def parse(source: str) -> tuple[QTextDocument, list[Area]]:
    """A document of the styled markdown after one empty block, and what to paint behind it."""
    document = QTextDocument()
    document.setUndoRedoEnabled(False)
    # The leading paragraph keeps the format of the first real block when all of it is inserted elsewhere,
    # and keeps a line of dashes at the very start from being taken for front matter.
    document.setMarkdown("x\n\n" + _NAMELESS_IMAGE.sub("![Image](", source), _DIALECT)
    QTextCursor(document).deleteChar()
    _style_tables(document)
    areas: list[Area] = []
    block = document.begin().next()
    while block.isValid():
        _style_fragments(block)
        _style_block(block)
        _note(areas, block)
        block = block.next()
    return document, areas


def code_block_format(*, first: bool, last: bool) -> QTextBlockFormat:
    """A line of code in its panel."""
    result = QTextBlockFormat()
    result.setProperty(_Property.BlockCodeFence, "`")
    result.setLeftMargin(CODE_PADDING)
    result.setRightMargin(CODE_PADDING)
    result.setTopMargin(CODE_GAP + CODE_HEADER if first else 0)
    result.setBottomMargin(CODE_GAP + CODE_PADDING if last else 0)
    result.setLineHeight(_CODE_LINE_PERCENT, _PROPORTIONAL)
    return result


def code_char_format() -> QTextCharFormat:
    """Characters of a code block."""
    result = QTextCharFormat()
    result.setFontFamilies(theme.code_font().families())
    result.setFontFixedPitch(True)
    result.setProperty(_Property.FontPixelSize, theme.pixels(theme.SMALL))
    result.setForeground(QColor(theme.colours().text))
    return result


def is_code(block: QTextBlock) -> bool:
    """Whether this is a line of a fenced code block."""
    return block.blockFormat().hasProperty(_Property.BlockCodeFence)


def _is_rule(block: QTextBlock) -> bool:
    form = block.blockFormat()
    return form.hasProperty(_Property.BlockTrailingHorizontalRulerWidth) or form.boolProperty(_RULE)


def _style_block(block: QTextBlock) -> None:
    before = block.blockFormat()
    if is_code(block):
        first, last = not _same_code(block.previous(), block), not _same_code(block.next(), block)
        after = code_block_format(first=first, last=last)
        after.setProperty(_Property.BlockCodeLanguage, before.property(_Property.BlockCodeLanguage))
        after.setIndent(before.indent())
    else:
        after = QTextBlockFormat(before)
        _set_spacing(block, after)
    QTextCursor(block).setBlockFormat(after)


def _set_spacing(block: QTextBlock, form: QTextBlockFormat) -> None:
    level, in_table = form.headingLevel(), QTextCursor(block).currentTable() is not None
    quote = _quote_level(block)
    if _is_rule(block):
        form.setProperty(_RULE, True)
        form.clearProperty(_Property.BlockTrailingHorizontalRulerWidth)
    form.setLeftMargin(QUOTE_STEP * quote)
    form.setRightMargin(0)
    form.setLineHeight(_LINE_PERCENT, _PROPORTIONAL)
    if in_table:
        top = bottom = 0
        form.setLineHeight(_TABLE_LINE_PERCENT, _PROPORTIONAL)
    elif level:
        top, bottom = (20 if level < 3 else 16), 6
    elif block.textList() is not None:
        top, bottom = 3, 3
    elif not block.text():
        top = bottom = 0
        form.setLineHeight(2 if not _is_rule(block) else 24, _FIXED)
    else:
        top = bottom = 6
    form.setTopMargin(top)
    form.setBottomMargin(bottom)


def _style_fragments(block: QTextBlock) -> None:
    level = block.blockFormat().headingLevel()
    pieces: list[tuple[int, int, QTextCharFormat]] = []
    iterator = block.begin()
    while not iterator.atEnd():
        fragment: QTextFragment = iterator.fragment()
        pieces.append((fragment.position(), fragment.length(), fragment.charFormat()))
        iterator += 1
    cursor = QTextCursor(block)
    for start, length, form in reversed(pieces):  # an image becomes words, and moves what follows it
        cursor.setPosition(start)
        cursor.setPosition(start + length, QTextCursor.MoveMode.KeepAnchor)
        if form.isImageFormat():
            _replace_image(cursor, form.toImageFormat())
        else:
            cursor.setCharFormat(code_char_format() if is_code(block) else _char_format(form, level))


def _char_format(form: QTextCharFormat, heading: int) -> QTextCharFormat:
    now, result = theme.colours(), QTextCharFormat(form)
    result.clearProperty(_Property.FontSizeAdjustment)
    size = _HEADINGS.get(heading, theme.BODY)
    result.setProperty(_Property.FontPixelSize, theme.pixels(size))
    if heading:
        result.setFontWeight(QFont.Weight.DemiBold)
    if form.fontFixedPitch():
        result.setFontFamilies(theme.code_font().families())
        result.setProperty(_Property.FontPixelSize, theme.pixels(size - 1))
        result.setBackground(QColor(now.bubble))
    if form.isAnchor():
        _style_link(result, form.anchorHref())
    return result


def _style_link(form: QTextCharFormat, address: str) -> None:
    if QUrl(address).scheme().lower() in LINK_SCHEMES:
        form.setForeground(QColor(theme.colours().accent))
        form.setFontUnderline(True)
        form.setToolTip(address)
        return
    form.setAnchor(False)
    form.clearProperty(_Property.AnchorHref)
    form.clearProperty(_Property.ForegroundBrush)
    form.setFontUnderline(False)


def _replace_image(cursor: QTextCursor, image: QTextImageFormat) -> None:
    """Nothing is ever loaded: a picture becomes its description and its address."""
    address = image.name()
    words = image.property(_Property.ImageAltText) or "Image"
    form = QTextCharFormat()
    form.setProperty(_Property.FontPixelSize, theme.pixels(theme.BODY))
    form.setForeground(QColor(theme.colours().muted))
    if QUrl(address).scheme().lower() in LINK_SCHEMES:
        form.setAnchor(True)
        form.setAnchorHref(address)
        _style_link(form, address)
    cursor.insertText(f"{words} ({address})", form)


def _style_tables(document: QTextDocument) -> None:
    now = theme.colours()
    for frame in document.rootFrame().childFrames():
        if not isinstance(frame, QTextTable):
            continue
        form = frame.format()
        form.setBorder(1)
        form.setBorderStyle(QTextFrameFormat.BorderStyle.BorderStyle_Solid)
        form.setBorderBrush(QBrush(QColor(now.border_strong)))
        form.setBorderCollapse(True)
        form.setCellPadding(7)
        form.setCellSpacing(0)
        form.setTopMargin(8)
        form.setBottomMargin(8)
        frame.setFormat(form)
        for column in range(frame.columns()):
            _style_header_cell(frame, column, now.bubble)


def _style_header_cell(table: QTextTable, column: int, colour: str) -> None:
    cell = table.cellAt(0, column)
    form = cell.format()
    form.setBackground(QColor(colour))
    cell.setFormat(form)
    cursor = cell.firstCursorPosition()
    cursor.setPosition(cell.lastCursorPosition().position(), QTextCursor.MoveMode.KeepAnchor)
    bold = QTextCharFormat()
    bold.setFontWeight(QFont.Weight.DemiBold)
    cursor.mergeCharFormat(bold)


def _quote_level(block: QTextBlock) -> int:
    return block.blockFormat().intProperty(_Property.BlockQuoteLevel)


def _same_code(one: QTextBlock, other: QTextBlock) -> bool:
    language = _Property.BlockCodeLanguage
    return (
        one.isValid()
        and is_code(one)
        and one.blockFormat().indent() == other.blockFormat().indent()
        and one.blockFormat().property(language) == other.blockFormat().property(language)
    )


def _note(areas: list[Area], block: QTextBlock) -> None:
    """Begin an area at this block, or let the one before it reach here."""
    at, previous = block.position(), block.previous()
    last = areas[-1] if areas else None
    if is_code(block):
        kind, detail = "code", str(block.blockFormat().property(_Property.BlockCodeLanguage) or "")
        joins = _same_code(previous, block)
    elif level := _quote_level(block):
        kind, detail, joins = "quote", str(level), _quote_level(previous) == level
    elif _is_rule(block):
        kind, detail, joins = "rule", "", False
    else:
        return
    if last is not None and joins and last.kind == kind:
        areas[-1] = Area(last.kind, last.start, at, last.detail)
    else:
        areas.append(Area(kind, at, at, detail))  # type: ignore[arg-type]
