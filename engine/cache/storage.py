"""In which form keys and values are kept: as they are, or in fewer bits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import torch
from torch import Tensor

LARGEST = 127  # of a signed byte, and its negative
TINIEST = 1e-30  # a row of nothing but zeros has no scale


@dataclass(frozen=True, slots=True)
class Storage:
    """A number's type; `scaled`: whole numbers, and for each row of a head what one of them is worth."""

    name: str
    dtype: torch.dtype
    scaled: bool = False

    def row_bytes(self, head_dim: int) -> int:
        """Bytes of one head's key, or value, of one token."""
        return head_dim * self.dtype.itemsize + (torch.float32.itemsize if self.scaled else 0)

    @property
    def is_plain(self) -> bool:
        """Whether reading needs no conversion, and so no memory."""
        return self.dtype == torch.float32

    def empty(self, heads: int, rows: int, head_dim: int) -> list[Tensor]:
        """Room for keys and values: (2, heads, rows, head dim), and the scales if there are any."""
        parts = [torch.empty(2, heads, rows, head_dim, dtype=self.dtype)]
        return [*parts, torch.empty(2, heads, rows, 1)] if self.scaled else parts

    def pack(self, x: Tensor) -> tuple[Tensor, ...]:
        """(heads, n, head dim) -> what is written into each part."""
        if not self.scaled:
            return (x,)  # writing converts
        scale = x.abs().amax(-1, keepdim=True).div_(LARGEST)
        return (x / scale.clamp_min(TINIEST)).round_(), scale

    def unpack(self, parts: Sequence[Tensor]) -> Tensor:
        """The parts of some rows -> float32; of a plain storage no copy."""
        values = parts[0].float()
        return values.mul_(parts[1]) if self.scaled else values


F32 = Storage("F32", torch.float32)
BF16 = Storage("BF16", torch.bfloat16)
Q8 = Storage("Q8", torch.int8, scaled=True)
STORAGES: Mapping[str, Storage] = MappingProxyType({each.name: each for each in (F32, BF16, Q8)})
