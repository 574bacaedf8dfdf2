"""In which form keys and values are kept: as they are, or in fewer bits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import gcd
from types import MappingProxyType

import torch
from torch import Tensor

LARGEST = 127  # of a signed byte, and its negative
TINIEST = 1e-30  # a block of nothing but zeros has no scale
BLOCK = 32  # values that share a scale: a whole row's largest would drown the others
SCALE = torch.bfloat16  # its range is float32's


@dataclass(frozen=True, slots=True)
class Storage:
    """A number's type; `scaled`: whole numbers, and for each block of a head what one of them is worth."""

    name: str
    dtype: torch.dtype
    scaled: bool = False

    def row_bytes(self, head_dim: int) -> int:
        """Bytes of one head's key, or value, of one token."""
        scales = _blocks(head_dim) * SCALE.itemsize if self.scaled else 0
        return head_dim * self.dtype.itemsize + scales

    @property
    def is_plain(self) -> bool:
        """Whether reading needs no conversion, and so no memory."""
        return self.dtype == torch.float32

    def empty(self, heads: int, rows: int, head_dim: int) -> list[Tensor]:
        """Room for keys and values: (2, heads, rows, head dim), and (..., blocks) scales if there are any."""
        parts = [torch.empty(2, heads, rows, head_dim, dtype=self.dtype)]
        if self.scaled:
            parts.append(torch.empty(2, heads, rows, _blocks(head_dim), dtype=SCALE))
        return parts

    def pack(self, x: Tensor) -> tuple[Tensor, ...]:
        """(heads, n, head dim) -> what is written into each part."""
        if not self.scaled:
            return (x,)  # writing converts
        blocks = x.reshape(*x.shape[:-1], _blocks(x.shape[-1]), -1)
        scale = blocks.abs().amax(-1).div_(LARGEST).clamp_min_(TINIEST).to(SCALE)
        whole = (blocks / scale[..., None]).round_().clamp_(-LARGEST, LARGEST)
        return whole.flatten(-2), scale

    def unpack(self, parts: Sequence[Tensor]) -> Tensor:
        """The parts of some rows -> float32; of a plain storage no copy."""
        values = parts[0].float()
        if self.scaled:
            values.view(*parts[1].shape, -1).mul_(parts[1][..., None])
        return values


def _blocks(head_dim: int) -> int:
    return head_dim // gcd(head_dim, BLOCK)


F32 = Storage("F32", torch.float32)
F16 = Storage("F16", torch.float16)
BF16 = Storage("BF16", torch.bfloat16)
Q8 = Storage("Q8", torch.int8, scaled=True)
STORAGES: Mapping[str, Storage] = MappingProxyType({each.name: each for each in (F32, F16, BF16, Q8)})


def usual(is_fused: bool) -> Storage:
    """What is chosen unless somebody asks for another: kernels read half floats as they are."""
    return F16 if is_fused else F32
