"""Picture files are opened as a person sees them, or refused in a sentence."""

from __future__ import annotations

import os
import struct
import time
import tracemalloc
import zlib
from pathlib import Path

import numpy
import pytest
from PIL import Image

from app.errors import UserError
from app.observe import open_image


def halves(mode="RGB", size=(40, 20)):
    """Red on the left, blue on the right."""
    image = Image.new("RGB", size, "blue")
    image.paste("red", (0, 0, size[0] // 2, size[1]))
    return image.convert(mode)


def close(got, wanted, by=12):
    return all(abs(a - b) <= by for a, b in zip(got, wanted, strict=True))


def test_a_plain_picture_is_the_same(tmp_path):
    halves().save(tmp_path / "a.png")
    opened = open_image(tmp_path / "a.png")
    assert opened.mode == "RGB" and opened.tobytes() == halves().tobytes()


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_turned_photo_is_upright(tmp_path, orientation):
    upright = halves(size=(40, 24))
    turn = {2: 0, 3: 3, 4: 1, 5: 5, 6: 2, 7: 6, 8: 4}  # the transposition that undoes the turn
    image = upright.transpose(Image.Transpose(turn[orientation])) if orientation > 1 else upright
    exif = Image.Exif()
    exif[0x0112] = orientation
    image.save(tmp_path / "a.jpg", exif=exif, quality=95)
    opened = open_image(tmp_path / "a.jpg")
    assert opened.size == (40, 24)
    assert close(opened.getpixel((4, 12)), (255, 0, 0)) and close(opened.getpixel((35, 12)), (0, 0, 255))


@pytest.mark.parametrize("mode", ["P", "RGBA", "CMYK", "YCbCr"])
def test_colours_survive_every_mode(tmp_path, mode):
    name = "a.jpg" if mode in ("CMYK", "YCbCr") else "a.png"
    halves(mode).save(tmp_path / name)
    opened = open_image(tmp_path / name)
    assert opened.mode == "RGB"
    assert close(opened.getpixel((4, 10)), (255, 0, 0)) and close(opened.getpixel((35, 10)), (0, 0, 255))


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P"])
def test_what_is_clear_is_white(tmp_path, mode):
    image = Image.new("RGBA", (20, 10), (0, 0, 0, 0))
    image.paste((0, 0, 0, 255), (10, 0, 20, 10))
    image.convert(mode).save(tmp_path / "a.png")
    if mode == "P":
        image.quantize(4).save(tmp_path / "a.png")
    opened = open_image(tmp_path / "a.png")
    assert opened.getpixel((2, 5)) == (255, 255, 255) and opened.getpixel((15, 5)) == (0, 0, 0)


def test_sixteen_bits_become_eight(tmp_path):
    values = numpy.linspace(0, 65_535, 256, dtype=numpy.uint16).reshape(1, 256).repeat(4, 0)
    Image.fromarray(values).save(tmp_path / "a.png")
    opened = open_image(tmp_path / "a.png")
    assert [opened.getpixel((x, 1))[0] for x in (0, 64, 128, 255)] == [0, 64, 128, 255]


def test_of_a_moving_picture_the_first_is_taken(tmp_path):
    first, second = Image.new("RGB", (10, 10), "red"), Image.new("RGB", (10, 10), "blue")
    first.save(tmp_path / "a.gif", save_all=True, append_images=[second], duration=100)
    assert open_image(tmp_path / "a.gif").getpixel((5, 5)) == (255, 0, 0)


@pytest.mark.parametrize("kind", ["webp", "bmp", "tiff"])
def test_other_kinds_open(tmp_path, kind):
    halves().save(tmp_path / f"a.{kind}")
    assert close(open_image(tmp_path / f"a.{kind}").getpixel((4, 10)), (255, 0, 0), 20)


def test_a_wrong_name_does_not_matter(tmp_path):
    halves().save(tmp_path / "a.jpg", "PNG")
    assert open_image(tmp_path / "a.jpg").size == (40, 20)


def png(width, height):
    """A PNG of a few kilobytes that claims, and holds, many pixels."""

    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    packer = zlib.compressobj(9)
    row = bytes(1 + width // 8 + 1)
    rows = b"".join(packer.compress(row) for _ in range(height)) + packer.flush()
    header = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


@pytest.mark.parametrize("side", [9_000, 12_000, 30_000])
def test_a_bomb_is_refused_before_it_is_decoded(tmp_path, side, recwarn):
    (tmp_path / "a.png").write_bytes(png(side, side))
    assert (tmp_path / "a.png").stat().st_size < 200_000
    tracemalloc.start()
    before = time.monotonic()
    with pytest.raises(UserError, match="too large"):
        open_image(tmp_path / "a.png")
    assert time.monotonic() - before < 1 and tracemalloc.get_traced_memory()[1] < 5_000_000
    tracemalloc.stop()


def test_html_named_png_is_refused(tmp_path):
    (tmp_path / "a.png").write_text("<html><body>Not found</body></html>")
    with pytest.raises(UserError, match=r"a\.png is not a picture"):
        open_image(tmp_path / "a.png")


@pytest.mark.filterwarnings("ignore::UserWarning:PIL")
@pytest.mark.parametrize("kind", ["png", "jpg", "gif", "webp", "bmp", "tiff"])
def test_every_cut_is_a_sentence(tmp_path, kind):
    noise = numpy.random.default_rng(3).integers(0, 255, (40, 40, 3), dtype=numpy.uint8)
    Image.fromarray(noise).save(tmp_path / f"a.{kind}")
    data = (tmp_path / f"a.{kind}").read_bytes()
    refused = 0
    for cut in range(0, len(data), max(1, len(data) // 60)):
        (tmp_path / "b").write_bytes(data[:cut])
        try:
            assert open_image(tmp_path / "b").size == (40, 40)
        except UserError as error:
            assert str(error).endswith(".")
            refused += 1
    assert refused > 40 or kind == "gif"


@pytest.mark.filterwarnings("ignore::UserWarning:PIL")
@pytest.mark.parametrize("kind", ["png", "jpg", "gif", "tiff"])
def test_damaged_bytes_never_crash(tmp_path, kind):
    chosen = numpy.random.default_rng(7)
    halves().save(tmp_path / f"a.{kind}")
    data = bytearray((tmp_path / f"a.{kind}").read_bytes())
    for _ in range(150):
        bad = bytearray(data)
        for place in chosen.integers(0, len(bad), 4):
            bad[place] = int(chosen.integers(0, 256))
        (tmp_path / "b").write_bytes(bad)
        try:
            assert open_image(tmp_path / "b").mode == "RGB"
        except UserError:
            continue


def test_what_is_not_there_or_not_a_file(tmp_path):
    with pytest.raises(UserError, match="There is no file"):
        open_image(tmp_path / "a.png")
    with pytest.raises(UserError, match="is not a file"):
        open_image(tmp_path)
    (tmp_path / "empty.png").touch()
    with pytest.raises(UserError, match="is not a picture"):
        open_image(tmp_path / "empty.png")


@pytest.mark.skipif(os.name != "posix", reason="pipes of this kind are a POSIX matter")
def test_a_pipe_does_not_hang(tmp_path):
    os.mkfifo(tmp_path / "a.png")
    with pytest.raises(UserError, match="is not a file"):
        open_image(tmp_path / "a.png")
    with pytest.raises(UserError):
        open_image(Path("/dev/zero"))
