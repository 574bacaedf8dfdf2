"""Opening a picture file as the person sees it: upright, on white, eight bits a colour."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

from PIL import Image, ImageOps, UnidentifiedImageError

from app.errors import UserError

FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF")
MOST_PIXELS = 80_000_000
DAMAGE = (OSError, SyntaxError, ValueError, EOFError, IndexError, struct.error, zlib.error)


def open_image(path: Path) -> Image.Image:
    """The picture in RGB; of a moving one, the first. Raises UserError, if huge before it is decoded."""
    if not path.exists():
        raise UserError(f"There is no file {path}.")
    if not path.is_file():
        raise UserError(f"{path} is not a file.")
    try:
        with Image.open(path, formats=FORMATS) as image:
            _check_size(image, path)
            image.load()
            return _flat(ImageOps.exif_transpose(image))
    except UnidentifiedImageError as error:
        raise UserError(f"{path.name} is not a picture that can be opened ({_kinds()}).") from error
    except Image.DecompressionBombError as error:
        raise UserError(_too_large(path)) from error
    except PermissionError as error:
        raise UserError(f"{path} can't be read: permission denied.") from error
    except DAMAGE as error:
        raise UserError(f"{path.name} is damaged or cut off, so it can't be opened.") from error


def _check_size(image: Image.Image, path: Path) -> None:
    if image.width * image.height > MOST_PIXELS:
        raise UserError(_too_large(path))


def _too_large(path: Path) -> str:
    return f"{path.name} is too large to open: more than {MOST_PIXELS // 1_000_000} million pixels."


def _kinds() -> str:
    return ", ".join(FORMATS)


def _flat(image: Image.Image) -> Image.Image:
    """Without transparency, palette, print colours or more than eight bits."""
    if image.mode.startswith("I") or image.mode == "F":
        image = _eight_bits(image)
    if image.has_transparency_data:
        clear = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", clear.size, "white"), clear).convert("RGB")
    return image.convert("RGB")


def _eight_bits(image: Image.Image) -> Image.Image:
    """Greys of 16 bits as greys of 8; floats from 0 to 1 too."""
    import numpy

    values = numpy.asarray(image).astype(numpy.float32)
    top = 65_535 if image.mode.startswith("I") else 1.0
    return Image.fromarray((values / top * 255).clip(0, 255).round().astype(numpy.uint8), "L")
