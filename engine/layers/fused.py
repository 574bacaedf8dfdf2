"""All blocks of a decoder as one program of the kernels, made from the same parts that torch runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import numpy as np
import torch
from torch import Tensor

from engine.cache.kv import Kv
from engine.cache.storage import F16, F32
from engine.kernels.layouts import HEAD_DIM
from engine.layers.attention import Attention
from engine.layers.block import Block
from engine.layers.mlp import gelu_tanh, silu
from engine.layers.norm import RmsNorm
from engine.layers.packed import Packed, Place, roundings
from engine.layers.rope import Rope
from engine.layers.span import Span

if TYPE_CHECKING:
    from engine.kernels.numba.operations import Norm
    from engine.kernels.numba.team import Frame

ACTIVATIONS = (silu, gelu_tanh)  # as the program numbers them
STORAGES = (F32, F16)


def can_fuse(blocks: Sequence[object]) -> bool:
    """Whether a program can be made of these."""
    return bool(blocks) and all(isinstance(block, Block) and _can_fuse(block) for block in blocks)


def _can_fuse(block: Block) -> bool:
    attention, mlp = block.attention, block.mlp
    matrices = [attention.qkv, attention.output, mlp.gate_up, mlp.down]
    if attention.gate is not None:
        matrices.append(attention.gate)
    return (
        all(isinstance(matrix, Packed) for matrix in matrices)
        and attention.heads.dim % HEAD_DIM == 0
        and mlp.activation in ACTIVATIONS
    )


class Fused:
    """The blocks and the norm after them. `can_fuse` has to say that this can be."""

    def __init__(self, blocks: Sequence[Block], norm: RmsNorm, width: int) -> None:
        self._held: list[Tensor] = []  # what the program knows by address only
        self._ropes: list[Rope] = []
        self._width, self._layers = width, len(blocks)
        self._team = _packed(blocks[0].mlp.down).team
        self._wide = self._most = self._found = 0
        self._mask, self._record = 0, 0
        self._program = self._assemble(blocks, norm)
        self._lanes = np.zeros((len(blocks), 4), np.int64)
        self._kept = np.zeros(len(blocks), np.int64)

    def takes(self, cache: Kv) -> bool:
        """Whether a cache keeps its numbers in a way that the kernels read."""
        return cache.storage in STORAGES

    def __call__(
        self, x: Tensor, span: Span, cache: Kv, layers: Sequence[int]
    ) -> tuple[Tensor, dict[int, Tensor]]:
        """(n, width) -> the same, normed; and the states as they leave these layers. `x` is used up."""
        from engine.kernels.numba import program as at

        rows, out = len(x), torch.empty(span.count, self._width)
        kept = {layer: torch.empty_like(out) for layer in layers}
        rotations = [span.rotation(rope) for rope in self._ropes]
        turns = np.array([[turn.cos.data_ptr(), turn.sin.data_ptr()] for turn in rotations], np.int64)
        self._kept[:] = 0
        for layer, state in kept.items():
            self._kept[layer] = state.data_ptr()
        cache.make_room(span.count, self._lanes)
        with self._team.asked() as frame:
            self._make_room(frame, rows, span)
            frame.put(at.START, span.start)
            frame.put(at.STORAGE, STORAGES.index(cache.storage))
            frame.put(at.X, x.data_ptr())
            frame.put(at.NORMED, out.data_ptr())
            frame.put(at.LANES, self._lanes.ctypes.data)
            frame.put(at.TURNS, turns.ctypes.data)
            frame.put(at.KEPT, self._kept.ctypes.data)
            self._team.run(self._program)
        return out, kept

    def _make_room(self, frame: Frame, rows: int, span: Span) -> None:
        from engine.kernels.numba import program as at
        from engine.kernels.numba.attention import CHUNK

        frame.round(self._mask, rows, self._most)
        frame.make_room(at.WIDE, rows * self._wide)
        frame.make_room(at.FOUND, 4 * rows * self._found)
        frame.make_room(at.PENDING, 4 * rows * self._width)
        if rows <= at.FEW:
            chunks = -(-span.end // CHUNK) + 1
            frame.make_room(at.RECORDS, min(at.RECORD_BYTES, rows * chunks * self._record))

    def _assemble(self, blocks: Sequence[Block], norm: RmsNorm) -> np.ndarray:
        from engine.kernels.numba import operations as make

        out: list[np.ndarray] = []
        end, after = None, None
        for layer, block in enumerate(blocks):
            qkv = self._wide_places(block.attention)
            mask = self._note(qkv, self._width)
            weight = self._norm(block.attention_norm, self._width)
            out.append(make.norm(self._width, mask, weight, end, after=after))
            out += self._attention(block.attention, layer, qkv)
            end = self._end(block.attention_end)
            out += self._mlp(block, end)
            end, after = self._end(block.mlp_end), layer
        out.append(make.norm(self._width, 0, self._norm(norm, self._width), end, after=after))
        return make.assembled(*out)

    def _attention(self, attention: Attention, layer: int, places: list[Place]) -> list[np.ndarray]:
        from engine.kernels.numba import operations as make
        from engine.kernels.numba import program as at

        heads, output = attention.heads, _packed(attention.output)
        found = heads.count * heads.dim
        side = (heads.count + 2 * heads.kv) * heads.dim  # what comes before the gate in a wide row
        stride = 4 * (side if attention.gate is None else side + found)
        self._wide, self._found = max(self._wide, stride), max(self._found, found)
        self._record = max(self._record, heads.count * 4 * (8 + heads.dim))
        mask = self._note(output.places, found)
        query, key = attention.query_norm, attention.key_norm
        has_norms = query is not None and key is not None
        looks = make.HeadsAt(
            heads.count,
            heads.kv,
            heads.dim,
            stride,
            layer,
            attention.window,
            heads.dim**-0.5 if attention.scale is None else attention.scale,
            self._norm(cast(RmsNorm, query), heads.dim) if has_norms else None,
            self._norm(cast(RmsNorm, key), heads.dim) if has_norms else None,
            *self._turn(attention.rope),
        )
        opening = -1 if attention.gate is None else 4 * side
        return [
            make.multiply(self._width, places, at.WIDE, stride),
            *make.attention(looks),
            make.round_rows(found, mask, at.FOUND, 4 * found, opening=opening, wide_stride=stride),
            make.multiply(found, output.places, at.PENDING, 4 * self._width),
        ]

    def _mlp(self, block: Block, end: Norm | None) -> list[np.ndarray]:
        from engine.kernels.numba import operations as make
        from engine.kernels.numba import program as at

        gate_up, down = _packed(block.mlp.gate_up), _packed(block.mlp.down)
        columns = down.shape[1]
        self._wide = max(self._wide, 8 * columns)
        into, inside = self._note(gate_up.places, self._width), self._note(down.places, columns)
        return [
            make.norm(self._width, into, self._norm(block.mlp_norm, self._width), end, after=-1),
            make.multiply(self._width, gate_up.places, at.WIDE, 8 * columns),
            make.gate(columns, inside, ACTIVATIONS.index(block.mlp.activation)),
            make.multiply(columns, down.places, at.PENDING, 4 * self._width),
        ]

    def _wide_places(self, attention: Attention) -> list[Place]:
        gate = () if attention.gate is None else _packed(attention.gate).places
        return [*_packed(attention.qkv).places, *gate]

    def _note(self, places: Sequence[Place], columns: int) -> int:
        """How rows of so many columns are rounded for these, for which there has to be room."""
        mask = roundings(places)
        self._mask, self._most = self._mask | mask, max(self._most, columns)
        return mask

    def _end(self, norm: RmsNorm | None) -> Norm | None:
        return None if norm is None else self._norm(norm, self._width)

    def _norm(self, norm: RmsNorm, width: int) -> Norm:
        weight = torch.ones(width) if norm.weight is None else norm.weight.contiguous()
        self._held.append(weight)
        return weight.data_ptr(), norm.eps

    def _turn(self, rope: Rope | None) -> tuple[int, int]:
        """Its number, and where its partners stand."""
        if rope is None:
            return -1, 0
        if rope not in self._ropes:
            self._ropes.append(rope)
            self._held.append(rope.partner)
        return self._ropes.index(rope), rope.partner.data_ptr()


def _packed(matrix: object) -> Packed:
    return cast(Packed, matrix)
