from time import thread_time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PySide6.QtGui import QTextDocument

from tests.ui.chat.markdown_samples import pieces, sources
from ui.chat.document import MarkdownDocument
from ui.chat.styling import CODE_HEADER

SAMPLE = """# Title

Some *words* with `code`, a [link](https://a.b/c) and <b>tags</b>.

- one
- two

  ```sh
  ls
  ```

| a | b |
|---|--:|
| 1 | 2 |

```python
def f(x):

    return {"a": x}  # why
```

> said

end
"""


@pytest.fixture(autouse=True)
def _app(qapp):
    pass


def whole(source):
    document = MarkdownDocument()
    document.set_source(source)
    return document


def streamed(parts):
    document = MarkdownDocument()
    for part in parts:
        document.append(part)
    document.finish()
    return document


def look(document):
    """Everything that shows: text, formats of every block, and what is painted."""
    rows, block = [], document.begin()
    while block.isValid():
        form = block.blockFormat()
        rows.append(
            (block.text(), form.topMargin(), form.bottomMargin(), form.leftMargin(), form.indent(),
             form.headingLevel(), block.textList() is not None)
        )  # fmt: skip
        block = block.next()
    return rows, document.areas


@given(sources(), st.lists(st.integers(0, 400), max_size=30))
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_text_that_streamed_in_looks_like_text_shown_at_once(source, cuts):
    assert look(streamed(pieces(source, cuts))) == look(whole(source))


@given(st.text(max_size=200), st.lists(st.integers(0, 200), max_size=12))
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_text_at_all_streams_as_it_is_shown(source, cuts):
    assert look(streamed(pieces(source, cuts))) == look(whole(source))


@pytest.mark.parametrize("size", [1, 2, 3, 7, 50])
def test_the_text_so_far_is_the_text_of_the_prefix(size):
    document = MarkdownDocument()
    for start in range(0, len(SAMPLE), size):
        document.append(SAMPLE[start : start + size])
        if start % (size * 5) == 0 and not SAMPLE[start + size - 1].isspace():
            assert document.toPlainText() == whole(SAMPLE[: start + size]).toPlainText()
    document.finish()
    assert document.toHtml() == whole(SAMPLE).toHtml()


def test_the_text_is_what_qt_makes_of_the_whole():
    reference = QTextDocument()
    reference.setMarkdown(SAMPLE, QTextDocument.MarkdownFeature.MarkdownDialectGitHub)
    words = [
        line
        for line in whole(SAMPLE.replace("<b>tags</b>", "tags")).toPlainText().split("\n")
        if line.strip()
    ]
    reference.setMarkdown(SAMPLE.replace("<b>tags</b>", "tags"))
    assert words == [line for line in reference.toPlainText().split("\n") if line.strip()]


def test_html_is_text_and_dashes_at_the_start_are_not_swallowed():
    text = whole("---\nkey: value\n---\n\n<script>alert(1)</script> <img src=x>").toPlainText()
    assert "key: value" in text
    assert "<script>alert(1)</script> <img src=x>" in text


def test_pictures_become_their_description_and_address():
    document = whole("See ![a cat](file:///etc/passwd) and ![](https://x.y/z?q=1)")
    assert document.toPlainText() == "See a cat (file:///etc/passwd) and Image (https://x.y/z?q=1)"
    assert "<img" not in document.toHtml()


def test_only_web_and_mail_addresses_stay_links():
    html = whole(
        "[a](https://a.b) [b](file:///etc) [c](javascript:x) [d](mailto:a@b.c) [e](data:text/html,x)"
    ).toHtml()
    assert html.count("<a href=") == 2


def test_reference_links_work_across_paragraphs_once_the_text_is_complete():
    assert 'href="https://a.b"' in streamed(["see [it][1]\n\nmore\n\n", "[1]: https://a.b\n"]).toHtml()


def test_code_areas_know_language_and_text():
    document = streamed(list(SAMPLE))
    assert [(area.detail, document.text_of(area)) for area in document.areas if area.kind == "code"] == [
        ("sh", "ls"),
        ("python", 'def f(x):\n\n    return {"a": x}  # why'),
    ]


def test_finished_code_is_coloured(qtbot):
    document = streamed(["```python\ndef f(): return 'x'\n```\n"])
    qtbot.waitUntil(lambda: bool(document.begin().layout().formats()), timeout=2000)
    starts = [(span.start, span.length) for span in document.begin().layout().formats()]
    assert (0, 3) in starts  # def


def test_drawing_again_changes_nothing_but_colours():
    document = streamed(list(SAMPLE))
    before = look(document)
    document.redraw()
    assert look(document) == before
    growing = MarkdownDocument()
    growing.append(SAMPLE[:120])
    growing.redraw()
    growing.append(SAMPLE[120:])
    growing.finish()
    assert look(growing) == before


def test_a_long_answer_in_small_pieces_is_drawn_quickly():
    text = (SAMPLE.replace("# Title", "## Part") * 200)[:32_000]
    document, worst, started = MarkdownDocument(), 0.0, thread_time()
    document.setTextWidth(700)
    for start in range(0, len(text), 4):
        before = thread_time()
        document.append(text[start : start + 4])
        document.size()
        worst = max(worst, thread_time() - before)
    document.finish()
    assert thread_time() - started < 15  # every one of 8,000 pieces drawn; the program draws far fewer
    assert worst < 0.25


def test_a_long_numbered_list_keeps_its_numbers():
    document = whole("".join(f"{number}. item\n" for number in range(1, 61)))
    last = document.lastBlock()
    assert last.textList().itemText(last) == "60."


@pytest.mark.parametrize("pieces", [["```python\nprint(1)\n```\nend"], list("```python\nprint(1)\n```\nend")])
def test_code_at_the_very_start_has_room_for_its_header(pieces):
    document = MarkdownDocument()
    for piece in pieces:
        document.append(piece)
    document.finish()
    assert document.documentLayout().blockBoundingRect(document.begin()).top() >= CODE_HEADER
    document.set_source("Just text.")
    assert document.documentLayout().blockBoundingRect(document.begin()).top() < CODE_HEADER
