"""How stored matrices lie in memory once packed: sizes alone, so that plans need no kernels."""

from __future__ import annotations

from collections.abc import Sequence

TILE = 8  # rows of a matrix that lie together
HEAD_DIM = 16  # heads are a multiple of it wide where attention is computed by kernels
# By format: columns of a block, and bytes of a tile's block. The kernels' modules say what lies in them.
PACKED = {
    "Q4_0": (32, 144),
    "Q4_1": (32, 160),
    "Q5_0": (32, 176),
    "Q5_1": (32, 192),
    "Q8_0": (32, 272),
    "Q4_K": (256, 1_184),
    "Q5_K": (256, 1_440),
    "Q6_K": (256, 1_680),
}


def can_pack(kind: str, shape: Sequence[int]) -> bool:
    """Whether a tensor of this format and (rows, columns) can be packed."""
    return kind in PACKED and len(shape) == 2 and shape[0] % TILE == 0 and shape[1] % PACKED[kind][0] == 0


def packed_bytes(kind: str, shape: Sequence[int]) -> int:
    """Bytes of it, packed."""
    block, size = PACKED[kind]
    return shape[0] // TILE * (shape[1] // block) * size
