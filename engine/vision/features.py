"""Pictures encoded for a text model, and kept by what they hold: a chat shows the same ones often."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Generator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import torch
from torch import Tensor

from engine.layers.patch_order import Lookup
from engine.models.muse_vision import VisionModel, load
from engine.vision.image import open_picture, size_of
from engine.vision.patches import Grid
from engine.weights.gguf import GgufFile
from engine.weights.safetensors import SafetensorsFolder

CACHE_BYTES = 512 << 20
LOOKUP: Lookup = "reference"  # how positions are read; `engine.layers.patch_order` says what that means


class EncodingCancelled(Exception):
    """Nobody wants the picture any more."""


@dataclass(frozen=True, slots=True, eq=False)
class ImageFeatures:
    """A picture as the text model takes it in, normed already: a row for each cell, row by row."""

    grid: Grid  # rows, columns of cells
    features: Tensor  # (cells, width), float32


class VisionEncoder:
    """The vision half of a model. Everything but `cells`, `measure` and `tokens` belongs to one thread."""

    def __init__(self, model: VisionModel, weight_bytes: int, cache_bytes: int) -> None:
        self._model, self.weight_bytes = model, weight_bytes
        self._cache = FeatureCache(cache_bytes)

    @classmethod
    def open(
        cls,
        path: Path,
        width: int,
        threads: int = 1,
        *,
        cache_bytes: int = CACHE_BYTES,
        lookup: Lookup = LOOKUP,
    ) -> VisionEncoder:
        """Read an mmproj file, or the vision half of a folder, for a text model of this width."""
        with _opened(path) as file, torch.inference_mode():
            return cls(*load(file, width, threads, lookup), cache_bytes)

    @property
    def cache_bytes(self) -> int:
        """Bytes that kept features take."""
        return self._cache.bytes

    def cells(self, width: int, height: int) -> Grid:
        """(rows, columns) of cells, each a token, for a picture of this size in pixels."""
        return self._model.config.cutting.grid(width, height)

    def measure(self, data: bytes) -> Grid:
        """(rows, columns) of cells for a picture file's bytes, without encoding it."""
        return self.cells(*size_of(data))

    def tokens(self, data: bytes) -> int:
        """How many tokens a picture file's bytes take in a prompt."""
        rows, columns = self.measure(data)
        return rows * columns

    def encode(self, data: bytes, is_cancelled: Callable[[], bool] = lambda: False) -> ImageFeatures:
        """A picture file's bytes as features. Asks again and again whether to go on: `EncodingCancelled`."""
        steps = self.steps(data)
        while not is_cancelled():
            try:
                next(steps)
            except StopIteration as end:
                return end.value
        raise EncodingCancelled

    def steps(self, data: bytes) -> Generator[None, None, ImageFeatures]:
        """The same, a short piece of work at a time, for who has other things to do between."""
        key = sha256(data).digest()
        if (known := self._cache.find(key)) is not None:
            return known
        picture = open_picture(data)
        yield
        cutting = self._model.config.cutting
        grid = cutting.grid(picture.width, picture.height)
        patches = cutting.cut(picture.pixels, grid)
        del picture
        yield
        features = yield from _quietly(self._model.steps(patches, grid))
        self._cache.keep(key, made := ImageFeatures(grid, features))
        return made


class FeatureCache:
    """Features by their picture's hash, those used last; never more than `limit` bytes."""

    def __init__(self, limit: int) -> None:
        self.limit, self.bytes = limit, 0
        self._kept: OrderedDict[bytes, ImageFeatures] = OrderedDict()

    def find(self, key: bytes) -> ImageFeatures | None:
        """What is kept under a hash; it counts as used now."""
        if key in self._kept:
            self._kept.move_to_end(key)
        return self._kept.get(key)

    def keep(self, key: bytes, made: ImageFeatures) -> None:
        """Keep it, and let go of those that were not used for longest."""
        if made.features.nbytes > self.limit or key in self._kept:
            return
        self._kept[key] = made
        self.bytes += made.features.nbytes
        while self.bytes > self.limit:
            _, gone = self._kept.popitem(last=False)
            self.bytes -= gone.features.nbytes


def _opened(path: Path) -> GgufFile | SafetensorsFolder:
    return SafetensorsFolder(path) if Path(path).is_dir() else GgufFile(path)


def _quietly(steps: Generator[None, None, Tensor]) -> Generator[None, None, Tensor]:
    """Each step without gradients, and the state left as it was between two of them."""
    while True:
        with torch.inference_mode():
            try:
                next(steps)
            except StopIteration as end:
                return end.value
        yield
