"""Files of pictures of every kind, and what is wrong with some."""

from __future__ import annotations

import struct
import zlib
from io import BytesIO
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps

from engine.api import BadRequest
from engine.vision import image as opener
from engine.vision.image import open_picture, size_of
from tests.engine.vision.pictures import as_png, picture

NOISE = Image.fromarray(np.random.default_rng(0).integers(0, 256, (5, 7, 3), dtype=np.uint8))


def saved(image: Image.Image, kind: str, **options: Any) -> bytes:
    data = BytesIO()
    image.save(data, kind, **options)
    return data.getvalue()


def pixels(data: bytes) -> np.ndarray:
    return np.asarray(open_picture(data).pixels)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF"])
def test_every_kind_opens_as_pillow_opens_it(kind: str) -> None:
    data = saved(NOISE, kind)
    opened = open_picture(data)
    assert (opened.width, opened.height) == size_of(data) == (7, 5)
    assert opened.pixels.mode == "RGB"
    np.testing.assert_array_equal(
        np.asarray(opened.pixels), np.asarray(Image.open(BytesIO(data)).convert("RGB"))
    )


@pytest.mark.parametrize("turn", range(10))
@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "TIFF"])
def test_a_picture_stands_upright(kind: str, turn: int) -> None:
    exif = Image.Exif()
    exif[0x112] = turn
    data = saved(NOISE, kind, exif=exif)
    expected = ImageOps.exif_transpose(Image.open(BytesIO(data))).convert("RGB")
    opened = open_picture(data)
    assert (opened.width, opened.height) == size_of(data) == expected.size
    assert (expected.size == (5, 7)) == (turn in (5, 6, 7, 8))
    np.testing.assert_array_equal(np.asarray(opened.pixels), np.asarray(expected))


def test_exif_behind_the_pixels_counts_too() -> None:
    exif = Image.Exif()
    exif[0x112] = 6
    block = exif.tobytes().removeprefix(b"Exif\0\0")
    chunk = struct.pack(">I", len(block)) + b"eXIf" + block + struct.pack(">I", zlib.crc32(b"eXIf" + block))
    plain = as_png(NOISE)
    data = plain[:-12] + chunk + plain[-12:]
    assert size_of(data) == (5, 7)
    assert open_picture(data).pixels.size == (5, 7)


def test_broken_exif_turns_nothing() -> None:
    data = saved(NOISE, "JPEG", exif=b"Exif\0\0nonsense")
    assert size_of(data) == (7, 5)
    assert open_picture(data).pixels.size == (7, 5)


def test_what_is_clear_lies_on_white() -> None:
    clear = Image.new("RGBA", (2, 1), (255, 0, 0, 128))
    clear.putpixel((1, 0), (9, 9, 9, 0))
    assert pixels(as_png(clear)).tolist() == [[[255, 127, 127], [255, 255, 255]]]
    grey = Image.new("LA", (1, 1), (0, 51))
    assert pixels(as_png(grey)).tolist() == [[[204, 204, 204]]]


def test_a_palette_and_its_clear_colour() -> None:
    palette = Image.new("P", (2, 1))
    palette.putpalette([10, 20, 30, 200, 100, 50])
    palette.putpixel((1, 0), 1)
    assert pixels(as_png(palette)).tolist() == [[[10, 20, 30], [200, 100, 50]]]
    assert pixels(saved(palette, "PNG", transparency=0)).tolist() == [[[255, 255, 255], [200, 100, 50]]]
    assert pixels(saved(palette, "GIF", transparency=1)).tolist() == [[[10, 20, 30], [255, 255, 255]]]


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_sixteen_bits_become_eight(kind: str) -> None:
    grey = Image.fromarray(np.array([[0, 257 * 100, 65_535]], np.uint16))
    assert pixels(saved(grey, kind))[0, :, 1].tolist() == [0, 100, 255]


def test_fractions_and_whole_numbers_become_eight_bits() -> None:
    fractions = Image.fromarray(np.array([[0, 0.5, 1, np.nan, 7]], np.float32))
    assert pixels(saved(fractions, "TIFF"))[0, :, 0].tolist() == [0, 128, 255, 0, 255]
    whole = Image.fromarray(np.array([[0, 257 * 7, -5, 10**6]], np.int32))
    assert pixels(saved(whole, "TIFF"))[0, :, 2].tolist() == [0, 7, 0, 255]


def test_one_bit_and_print_colours() -> None:
    assert pixels(as_png(Image.new("1", (1, 1), 1))).tolist() == [[[255, 255, 255]]]
    ink = Image.new("CMYK", (16, 16), (0, 255, 255, 0))
    red = pixels(saved(ink, "JPEG", quality=100))[8, 8]
    assert red[0] > 250
    assert red[1:].max() < 5


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "PNG", "TIFF"])
def test_of_a_moving_picture_the_first(kind: str) -> None:
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("lime", "red", "blue")]
    options = {"lossless": True} if kind == "WEBP" else {}
    data = saved(frames[0], kind, save_all=True, append_images=frames[1:], **options)
    assert pixels(data)[4, 4].tolist() == [0, 255, 0]


def bomb(width: int, height: int) -> bytes:
    """A PNG that says it is this large and holds nothing."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


@pytest.mark.parametrize("size", [(16_385, 16_384), (1 << 30, 1), (1 << 31, 1 << 31)])
def test_a_bomb_is_refused_before_it_is_decoded(
    size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opener.PngImageFile, "load", lambda self: pytest.fail("decoded"))
    for use in (open_picture, size_of):
        with pytest.raises(BadRequest, match=r"too large|damaged"):
            use(bomb(*size))


def test_the_largest_is_measured_without_being_decoded() -> None:
    assert size_of(bomb(16_384, 16_384)) == (16_384, 16_384)


def test_a_huge_picture_is_reduced_while_it_is_flattened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opener, "WORKING_PIXELS", 400 * 300)
    monkeypatch.setattr(opener, "STRIP_PIXELS", 50_000)
    drawn = picture(1_001, 702)
    clear = drawn.copy()
    clear.putalpha(Image.new("L", drawn.size, 255))
    for image in (drawn, clear):
        opened = open_picture(as_png(image))
        assert (opened.width, opened.height) == (1_001, 702)
        assert opened.pixels.size == (334, 234)
        expected = np.asarray(drawn.reduce(3)).astype(int)
        assert np.abs(np.asarray(opened.pixels) - expected).max() <= 1
    smaller = open_picture(saved(drawn, "JPEG", quality=95))
    assert (smaller.width, smaller.height) == (1_001, 702)
    assert max(smaller.pixels.size) <= 501  # the decoder's own half


def test_strips_leave_no_seam(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opener, "STRIP_PIXELS", 7 * 2)
    palette = NOISE.quantize(8)
    np.testing.assert_array_equal(pixels(as_png(palette)), np.asarray(palette.convert("RGB")))


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF"])
def test_a_picture_cut_off_is_refused(kind: str) -> None:
    data = saved(picture(200, 150), kind)
    with pytest.raises(BadRequest, match="damaged or cut off"):
        open_picture(data[: len(data) // 2])


@pytest.mark.parametrize("data", [b"", b"hello", b"%PDF-1.7", b"<svg></svg>", bytes(100)])
def test_what_is_no_picture_is_refused(data: bytes) -> None:
    for use in (open_picture, size_of):
        with pytest.raises(BadRequest, match="of a kind that can't be opened"):
            use(data)


@settings(deadline=None, max_examples=150)
@given(kind=st.sampled_from(["PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF"]), data=st.data())
def test_a_damaged_file_opens_or_is_refused(kind: str, data: st.DataObject) -> None:
    whole = bytearray(saved(NOISE, kind))
    for _ in range(data.draw(st.integers(1, 6))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    try:
        opened = open_picture(bytes(whole))
    except BadRequest:
        return
    assert opened.pixels.mode == "RGB"
