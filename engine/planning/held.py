"""How the engine holds tensors in main memory: as they are stored, or decoded to float32."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from engine.kernels.layouts import HEAD_DIM, can_pack, packed_bytes
from engine.planning.footprint import EMBEDDING
from engine.weights.config import Config
from engine.weights.source import Stored

# Matrices that are one in memory, so that either all of them stay as they are stored or none.
TOGETHER = (("attn_q", "attn_k", "attn_v"), ("ffn_gate", "ffn_up"))


class Held:
    """The text model's tensors. `packs`: whether matrices stay as they are stored, if they can."""

    def __init__(self, tensors: Sequence[Stored], config: Config, packs: bool) -> None:
        self._all = {tensor.name: tensor for tensor in tensors}
        self._config, self._packs = config, packs

    def bytes(self, tensor: Stored) -> int:
        """Bytes of one; an embedding that stays is read in the file itself, unless it is the head, too."""
        if not self._stays(tensor):
            return 4 * tensor.elements
        if tensor.name == EMBEDDING and not self._config.tied:
            return 0
        return packed_bytes(tensor.type, tensor.shape)

    @cached_property
    def is_packed(self) -> bool:
        """Whether any tensor stays as it is stored."""
        return any(map(self._stays, self._all.values()))

    @cached_property
    def is_fused(self) -> bool:
        """Whether the kernels run all layers: then they read half floats of keys and values as they are."""
        blocks = [tensor for tensor in self._all.values() if tensor.name.startswith("blk.")]
        matrices = [tensor for tensor in blocks if len(tensor.shape) == 2]
        return bool(matrices) and self._config.head_dim % HEAD_DIM == 0 and all(map(self._stays, matrices))

    def _stays(self, tensor: Stored) -> bool:
        return self._packs and all(map(_can_stay, self._with(tensor))) and not self._has_bias(tensor)

    def _with(self, tensor: Stored) -> list[Stored]:
        """Those with which it is one matrix, itself among them."""
        block, _, name = tensor.name.removesuffix(".weight").rpartition(".")
        for names in TOGETHER:
            if name in names:
                return [self._all[full] for each in names if (full := f"{block}.{each}.weight") in self._all]
        return [tensor]

    def _has_bias(self, tensor: Stored) -> bool:
        return any(f"{each.name.removesuffix('.weight')}.bias" in self._all for each in self._with(tensor))


def _can_stay(tensor: Stored) -> bool:
    return can_pack(tensor.type, tensor.shape)
