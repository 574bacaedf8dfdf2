"""Pictures as a person sees them: upright, on white, eight bits a colour; huge ones without a second copy."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from io import BytesIO
from math import ceil, sqrt

import numpy as np
from PIL import ExifTags, Image
from PIL.BmpImagePlugin import BmpImageFile
from PIL.GifImagePlugin import GifImageFile
from PIL.ImageFile import ImageFile
from PIL.JpegImagePlugin import JpegImageFile
from PIL.PngImagePlugin import PngImageFile
from PIL.TiffImagePlugin import TiffImageFile
from PIL.WebPImagePlugin import WebPImageFile

from engine.api import BadRequest

# Not through Image.open: its limit is one number for the whole process, and lower than ours.
KINDS: tuple[tuple[bytes, type[ImageFile]], ...] = (
    (b"\x89PNG\r\n\x1a\n", PngImageFile),
    (b"\xff\xd8\xff", JpegImageFile),
    (b"GIF8", GifImageFile),
    (b"RIFF", WebPImageFile),
    (b"BM", BmpImageFile),
    (b"II*\0", TiffImageFile),
    (b"MM\0*", TiffImageFile),
)
MOST_PIXELS = 16_384 * 16_384
WORKING_PIXELS = 1 << 26  # with more, a picture is reduced by a whole factor while it is flattened
STRIP_PIXELS = 1 << 20  # flattened at a time: laying it on white is one step, in which no one else runs
DAMAGE = (
    OSError,
    SyntaxError,
    ValueError,
    EOFError,
    IndexError,
    KeyError,
    TypeError,
    struct.error,
    zlib.error,
)
TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
ON_ITS_SIDE = 5  # from here on, height and width change places


@dataclass(frozen=True, slots=True)
class Picture:
    """An opened picture: its size as it was made, and its pixels in RGB, fewer if it is huge."""

    width: int
    height: int
    pixels: Image.Image


def open_picture(data: bytes) -> Picture:
    """The picture in a file's bytes; of a moving one, the first. `BadRequest`, if huge before decoding."""
    image = _open(data)
    turn = _turn(image, data)
    width, height = _upright(image, turn)
    try:
        factor = _factor(image)
        if factor > 1:
            image.draft(None, (image.width // factor, image.height // factor))  # JPEG: decoded smaller
        image.load()
        pixels = _flatten(image, _factor(image))
    except Image.DecompressionBombError:
        raise _too_large(width, height) from None
    except DAMAGE as error:
        raise _damaged() from error
    return Picture(width, height, pixels.transpose(TURNS[turn]) if turn in TURNS else pixels)


def size_of(data: bytes) -> tuple[int, int]:
    """(width, height) that `open_picture` will find; read without decoding."""
    image = _open(data)
    return _upright(image, _turn(image, data))


def _open(data: bytes) -> ImageFile:
    kind = next((kind for start, kind in KINDS if data.startswith(start)), None)
    if kind is None:
        raise BadRequest(
            "The picture is of a kind that can't be opened (PNG, JPEG, GIF, WebP, BMP and TIFF can)."
        )
    try:
        image = kind(BytesIO(data))
    except Image.DecompressionBombError:
        raise BadRequest("The picture is too large to open.") from None
    except DAMAGE as error:
        raise _damaged() from error
    if image.width < 1 or image.height < 1:
        raise _damaged()
    if image.width * image.height > MOST_PIXELS:
        raise _too_large(image.width, image.height)
    return image


def _turn(image: ImageFile, data: bytes) -> int:
    """How the camera was held, as EXIF counts it; TIFF files are turned by whoever decodes them."""
    if isinstance(image, TiffImageFile):
        return 1
    try:
        if isinstance(image, PngImageFile) and "exif" not in image.info and b"eXIf" in data:
            image.load()  # it may stand behind the pixels
        # Not the PNG class's own, which would decode every picture that says nothing.
        return int(Image.Image.getexif(image).get(ExifTags.Base.Orientation, 1))
    except DAMAGE:
        return 1


def _upright(image: ImageFile, turn: int) -> tuple[int, int]:
    width, height = image.size
    return (height, width) if turn in TURNS and turn >= ON_ITS_SIDE else (width, height)


def _factor(image: Image.Image) -> int:
    return ceil(sqrt(image.width * image.height / WORKING_PIXELS))


def _flatten(image: Image.Image, factor: int) -> Image.Image:
    """RGB, `factor` times smaller; strip by strip, so that no second copy of a huge picture is made."""
    if image.mode == "RGB" and not image.has_transparency_data and factor == 1:
        return image
    out = Image.new("RGB", (ceil(image.width / factor), ceil(image.height / factor)))
    rows = max(1, STRIP_PIXELS // image.width // factor) * factor
    for top in range(0, image.height, rows):
        strip = _plain(image.crop((0, top, image.width, min(image.height, top + rows))))
        out.paste(strip.reduce(factor) if factor > 1 else strip, (0, top // factor))
    return out


def _plain(image: Image.Image) -> Image.Image:
    """Without transparency, palette, print colours or more than eight bits."""
    if image.mode.startswith("I") or image.mode == "F":
        image = _eight_bits(image)
    if image.has_transparency_data:
        clear = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", clear.size, "white"), clear).convert("RGB")
    return image.convert("RGB")


def _eight_bits(image: Image.Image) -> Image.Image:
    """Greys of 16 bits as greys of 8; fractions from 0 to 1 too."""
    values = np.asarray(image).astype(np.float32)
    top = 1.0 if image.mode == "F" else 65_535.0
    return Image.fromarray(np.nan_to_num(values / top * 255).clip(0, 255).round().astype(np.uint8), "L")


def _damaged() -> BadRequest:
    return BadRequest("The picture is damaged or cut off, so it can't be opened.")


def _too_large(width: int, height: int) -> BadRequest:
    most = MOST_PIXELS // 1_000_000
    return BadRequest(
        f"The picture is too large to open: {width:,} x {height:,}, more than {most} million pixels."
    )
