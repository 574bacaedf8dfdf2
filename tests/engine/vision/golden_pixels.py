"""Writes golden_pixels.json with transformers' image processor, and prints how far ours is from it.

Its own dependency, torchvision, isn't ours: `pip install --no-deps --target FOLDER torchvision==0.28.0`,
then `PYTHONPATH=.:FOLDER python tests/engine/vision/golden_pixels.py`.
"""

from __future__ import annotations

import json
import re
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch

from engine.vision.patches import Cutting
from tests.engine.vision.pictures import SIZES, picture

GOLDEN = Path(__file__).with_name("golden_pixels.json")
CUTTING = Cutting(14, 2, 4_096, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
SAMPLES = 400  # values of each picture


def sampled(values: np.ndarray) -> np.ndarray:
    """Always the same ones of as many values, chosen at random."""
    return values.reshape(-1)[np.random.default_rng(values.size).integers(0, values.size, SAMPLES)]


def declare_operators() -> torch.library.Library:
    """Torchvision's compiled half doesn't load beside every torch; it is content when the names exist."""
    library = torch.library.Library("torchvision", "DEF")
    source = (Path(find_spec("torchvision").origin).parent / "_meta_registrations.py").read_text()
    names = {"nms", "qnms"} | set(re.findall(r'register_meta\("(\w+)"', source))
    for name in names:
        library.define(f"{name}(Tensor x) -> Tensor")
    return library


def main() -> None:
    declared = declare_operators()
    from transformers.models.muse_glimmer.image_processing_muse_glimmer import MuseGlimmerImageProcessor

    processor, record = MuseGlimmerImageProcessor(), []
    for size in SIZES:
        image = picture(*size)
        out = processor(images=[image], return_tensors="pt")
        _, rows, columns = out["image_grid_thw"][0].tolist()
        pixels = out["pixel_values"].view(rows * columns, 2, -1)[:, 0].numpy()
        grid = CUTTING.grid(*size)
        apart = np.abs(CUTTING.cut(image, (rows // 2, columns // 2)).numpy() - pixels) * 127.5
        print(
            size, (rows // 2, columns // 2), grid, f"mean {apart.mean():.4f}, most {apart.max():.2f} of 255"
        )
        levels = (sampled(pixels) * 127.5 + 127.5).round().astype(int).tolist()
        record.append({"size": size, "grid": (rows // 2, columns // 2), "levels": levels})
    GOLDEN.write_text(json.dumps(record, separators=(",", ":")) + "\n")
    del declared


if __name__ == "__main__":
    main()
