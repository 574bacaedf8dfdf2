"""What is on the screen is read, in order, at its place, without asking the network."""

from __future__ import annotations

import logging
import random
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image, ImageDraw, ImageFont

from app.errors import UserError
from app.observe import Frame, Observer, Reader
from app.observe.ocr import Line, Reading, finder_side
from app.tool import ToolContext, ToolError
from app.tools.screen_look import look

WORDS = [
    "quick",
    "brown",
    "foxes",
    "jump",
    "over",
    "lazy",
    "dogs",
    "while",
    "seventeen",
    "engineers",
    "measure",
    "alpha",
    "values",
    "42",
    "times",
]


@pytest.fixture(scope="module")
def reader():
    return Reader(threads=2)


def font(size):
    for name in ("DejaVuSans.ttf", "Arial.ttf", "Helvetica.ttc", "arial.ttf"):
        try:
            return ImageFont.truetype(name, size)
        except OSError:
            continue
    return ImageFont.load_default(size)


def page(width, height, texts, size=14, colour=("white", "black")):
    image = Image.new("RGB", (width, height), colour[0])
    draw = ImageDraw.Draw(image)
    for x, y, text in texts:
        draw.text((x, y), text, font=font(size), fill=colour[1])
    return image


def frame(image, left=0, top=0, scale=1.0):
    return Frame(image, f"Screen 1, {image.width}x{image.height}", left, top, 0.0, scale)


async def test_a_sentence_in_a_real_window_is_read(display, reader):
    display.show(display.sentence)
    observer = Observer()
    reading = await reader.read(await observer.frame())
    assert reading.plain == display.sentence
    assert (reading.source, reading.words) == ("Screen 1, 1280x720", 8)
    [line] = reading.lines
    left, top, width, height = line.box
    assert 110 < left < 130 and 95 < top < 110 and 230 < width < 300 and 12 < height < 30
    assert reading.text == f"[{left + width // 2},{top + height // 2}] {display.sentence}"
    await observer.close()


async def test_the_tool_looks_and_finds(display, reader, tmp_path):
    display.show(display.sentence)
    observer = Observer()
    context = ToolContext(tmp_path, observer, reader, "chat")
    text = await look.run(context, {})
    assert text.startswith("Screen 1, 1280x720:\n[") and text.endswith(display.sentence)
    assert display.sentence in await look.run(context, {"find": "HERON"})
    assert "none of the 1 lines contains 'stork'" in await look.run(context, {"find": "stork"})
    observer.pause()
    with pytest.raises(ToolError, match="paused"):
        await look.run(context, {})
    await observer.close()


async def test_without_a_display_the_tool_says_so(monkeypatch, reader, tmp_path):
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setenv("XDG_SESSION_TYPE", "tty")
    monkeypatch.setattr("sys.platform", "linux")
    observer = Observer()
    with pytest.raises(ToolError, match="no display"):
        await look.run(ToolContext(tmp_path, observer, reader, "chat"), {})
    await observer.close()


async def test_small_text_on_a_full_screen_is_read_whole_in_two_columns(reader):
    chosen = random.Random(5)
    texts = [
        (40 + column * 960, 20 + row * 46, " ".join(chosen.choice(WORDS) for _ in range(7)))
        for column in range(2)
        for row in range(12)
    ]
    reading = await reader.read(frame(page(1920, 1080, texts)))
    assert [line.text for line in reading.lines] == [text for _, _, text in texts]


@pytest.mark.parametrize(
    ("size", "scale", "left", "top"),
    [((800, 500), 1.0, 0, 0), ((800, 500), 2.0, -1920, 300), ((2600, 1400), 1.25, 7, 9)],
)
async def test_boxes_are_in_screen_pixels_at_every_scale(reader, size, scale, left, top):
    image = page(*size, [(200, 120, "Measured exactly"), (300, 320, "Lower line")], 28)
    reading = await reader.read(frame(image, left, top, scale))
    assert [line.text for line in reading.lines] == ["Measured exactly", "Lower line"]
    for line, (x, y) in zip(reading.lines, [(200, 120), (300, 320)], strict=True):
        x0, y0, x1, y1 = ImageDraw.Draw(image).textbbox((x, y), line.text, font=font(28))
        got_left, got_top, width, height = line.box
        for got, true in (
            (got_left, left + x0 / scale),
            (got_top, top + y0 / scale),
            (got_left + width, left + x1 / scale),
            (got_top + height, top + y1 / scale),
        ):
            assert abs(got - true) <= 16 / scale  # the finder leaves air around a line
        assert abs((got_left + width / 2) - (left + (x0 + x1) / 2 / scale)) <= 4
        assert abs((got_top + height / 2) - (top + (y0 + y1) / 2 / scale)) <= 4


async def test_white_on_black_and_an_empty_screen(reader):
    dark = page(900, 400, [(50, 50, "Night mode works")], 20, ("#202020", "#e0e0e0"))
    assert (await reader.read(frame(dark))).plain == "Night mode works"
    assert (await reader.read(frame(Image.new("RGB", (800, 600), "white")))).lines == ()
    assert (await reader.read(frame(Image.new("RGB", (3, 2), "white")))).lines == ()


async def test_nothing_is_fetched_and_nothing_is_printed(monkeypatch, capfd, caplog):
    def refuse(*_):
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    fresh = Reader(threads=2)
    with caplog.at_level(logging.INFO):
        assert (
            await fresh.read(frame(page(400, 100, [(20, 30, "Quiet please")], 24)))
        ).plain == "Quiet please"
    await fresh.close()
    assert capfd.readouterr() == ("", "")
    assert not [record for record in caplog.records if "rapid" in record.name.lower()]


async def test_models_that_are_missing_are_said(monkeypatch, tmp_path):
    import rapidocr

    monkeypatch.setattr(rapidocr, "__file__", str(tmp_path / "__init__.py"))
    with pytest.raises(UserError, match="not installed whole"):
        await Reader().read(frame(Image.new("RGB", (64, 64))))


def test_the_engine_is_not_imported_before_it_is_needed():
    code = (
        "import sys, app.observe, app.tools\napp.tools.find()\n"
        "print([n for n in ('rapidocr', 'onnxruntime', 'cv2', 'torch', 'mss') if n in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(__file__).parents[3]
    )
    assert done.stdout.strip() == "[]", done.stderr


@pytest.mark.parametrize(
    ("width", "height", "side"),
    [(1920, 1080, 960), (1080, 1920, 960), (3840, 2160, 1920), (1280, 720, 960), (800, 600, 800), (5, 5, 32)],
)
def test_where_text_is_looked_for(width, height, side):
    assert finder_side(width, height) == side


def test_a_reading_counts_its_words():
    reading = Reading((Line("two words", (10, 20, 30, 10)), Line("one", (10, 40, 30, 11))), "Screen 1")
    assert (reading.words, reading.plain, reading.text) == (
        3,
        "two words\none",
        "[25,25] two words\n[25,45] one",
    )
