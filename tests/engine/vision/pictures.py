"""Pictures that every run draws alike, in sizes that people have and sizes that nobody expects."""

from __future__ import annotations

from io import BytesIO

import numpy as np
from PIL import Image

# (width, height): thirty, of which none has two grids equally near its shape
SIZES = (
    (1, 1),
    (28, 28),
    (56, 28),
    (1, 40),
    (40, 1),
    (3, 200),
    (500, 9),
    (27, 29),
    (30, 60),
    (57, 83),
    (100, 75),
    (64, 200),
    (333, 77),
    (199, 401),
    (640, 480),
    (480, 641),
    (800, 600),
    (1024, 768),
    (1280, 720),
    (1366, 768),
    (1440, 900),
    (1600, 1000),
    (1920, 1080),
    (1080, 1920),
    (1920, 1200),
    (2560, 1440),
    (2048, 2047),
    (3840, 2160),
    (4000, 300),
    (150, 3001),
)


def picture(width: int, height: int) -> Image.Image:
    """Slopes, stripes, discs and noise: what a resampling filter can get wrong."""
    rng = np.random.default_rng(width * 65_537 + height)
    across, down = np.meshgrid(np.arange(width), np.arange(height))
    slope = 255 * across / max(1, width - 1)
    stripes = 127.5 * (1 + np.sin((across + 2 * down) / 3))
    disc = np.where(
        (across - width / 2) ** 2 + (down - height / 2) ** 2 < min(width, height) ** 2 / 9, 230, 20
    )
    values = np.stack([slope, stripes, disc], axis=-1)
    noise = rng.integers(-60, 61, (height, width, 3)) * (down < height / 2)[:, :, None]
    return Image.fromarray((values + noise).clip(0, 255).astype(np.uint8))


def as_png(image: Image.Image) -> bytes:
    """The picture as a file's bytes, nothing lost."""
    data = BytesIO()
    image.save(data, "PNG")
    return data.getvalue()
