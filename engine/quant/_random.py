"""Random blocks of any format that decode to values of a wanted mean square, written as they are stored."""

from __future__ import annotations

from functools import cache
from importlib import import_module

import numpy as np
import torch

from engine.quant import format_of

PLAIN = {"F32": np.float32, "F16": np.float16, "BF16": np.uint16}
# Half of the largest stored number: a minimum this many scales below zero makes values lie around zero.
MIDDLES = {"Q4_1": -7.5, "Q5_1": -15.5, "Q2_K": 1.5, "Q4_K": 7.5, "Q5_K": 15.5}
UNEVEN = 0.3  # block scales differ by up to this share
TRIAL = 2_048  # blocks whose spread at scale one is measured


def random_blocks(kind: str, count: int, spread: float, chance: np.random.Generator) -> np.ndarray:
    """`count` blocks of the format `kind` as bytes (count, bytes of a block); values have this spread."""
    if kind in PLAIN:
        picks = _noise(2 * count, chance).view(np.uint16)
        return _quantiles(kind, spread)[picks].view(np.uint8)
    scales = 1 + chance.uniform(-UNEVEN, UNEVEN, count).astype(np.float32)
    if kind not in MIDDLES:  # whole numbers from -8 to 7 lie half below zero on average; signs even that out
        scales *= chance.integers(0, 2, count, np.int8) * np.float32(2) - 1
    return _blocks(kind, scales * np.float32(spread / _unit(kind)), chance)


def _blocks(kind: str, scales: np.ndarray, chance: np.random.Generator) -> np.ndarray:
    layout: np.dtype = import_module(f"engine.quant.{kind.lower()}").LAYOUT
    raw = _noise(len(scales) * layout.itemsize, chance).reshape(-1, layout.itemsize)
    blocks = raw.view(layout)[:, 0]
    blocks["scale"] = scales
    if kind in MIDDLES:
        blocks["minimum"] = scales * np.float32(MIDDLES[kind])
        _pair(kind, blocks)
    return raw


def _noise(size: int, chance: np.random.Generator) -> np.ndarray:
    """Random bytes."""
    words: np.ndarray = chance.integers(0, 1 << 64, -(-size // 8), np.uint64)
    return words.view(np.uint8)[:size]


def _pair(kind: str, blocks: np.ndarray) -> None:
    """Give each group the same small number for its scale and its minimum, so that both cancel out."""
    if kind == "Q2_K":
        blocks["scales"] = (blocks["scales"] & 15) * np.uint8(17)
    elif kind in ("Q4_K", "Q5_K"):
        packed = blocks["scales"]
        packed[:, 4:8] = packed[:, 0:4]
        packed[:, 8:12] = (packed[:, 8:12] & 15) * np.uint8(17)


@cache
def _unit(kind: str) -> float:
    """The spread of values whose blocks have scale one."""
    blocks = _blocks(kind, np.ones(TRIAL, np.float32), np.random.default_rng(0))
    return float(np.sqrt(np.square(format_of(kind).decode(blocks.reshape(-1)), dtype=np.float64).mean()))


@cache
def _quantiles(kind: str, spread: float) -> np.ndarray:
    """65,536 numbers that divide a normal distribution evenly: picked from, quicker than drawn."""
    share = (torch.arange(1 << 16, dtype=torch.float64) + 0.5) / (1 << 16)
    values = (torch.special.ndtri(share) * spread).float()
    if kind == "BF16":
        return values.to(torch.bfloat16).view(torch.uint16).numpy()
    out: np.ndarray = values.numpy().astype(PLAIN[kind])
    return out
