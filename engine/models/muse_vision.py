"""Muse Glimmer's vision half: a transformer over patches, most layers seeing a window, and an adapter."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from engine.layers.axial import AxialRope, axial_rope
from engine.layers.linear import Linear
from engine.layers.norm import LayerNorm
from engine.layers.patch_order import Lookup, PatchOrder, PositionTable, patch_order
from engine.layers.vit import View, VisionBlock, parts
from engine.vision.patches import Grid
from engine.weights.gguf import GgufFile
from engine.weights.safetensors import SafetensorsFolder
from engine.weights.tensors import Tensors
from engine.weights.vision import VisionConfig, from_folder, from_gguf

__all__ = ["NAMES", "VisionModel", "load"]

NAMES = ()  # not a text model: none opens as one


@dataclass(frozen=True, slots=True, eq=False)
class VisionModel:
    """A picture's patches -> a feature for each cell, to stand among the text model's normed embeddings."""

    config: VisionConfig
    patch: Linear
    positions: PositionTable
    rope: AxialRope
    norm: LayerNorm
    blocks: Sequence[VisionBlock]
    norm_end: LayerNorm
    adapter: tuple[Linear, Linear]
    projection: Linear

    def steps(self, patches: Tensor, grid: Grid) -> Generator[None, None, Tensor]:
        """(patches, 3 * patch * patch), row by row -> (cells, width of the text model)."""
        order = patch_order(*grid, self.config.cutting.merge, self.config.side)
        x = torch.empty(len(patches), self.config.width)
        for part in parts(len(x), 2 * self.patch.weight.numel()):
            x[part] = self.norm(self.patch(patches[order.raster[part]]) + self.positions.at(order, part))
            yield
        shape = (len(x), self.config.heads, self.config.head_dim)
        room = (torch.empty(shape), torch.empty(shape), torch.empty(shape))
        view = View(order, self.rope.at(order.rows, order.columns), room)
        for block in self.blocks:
            yield from block.steps(x, view)
        return (yield from self._project(x, order))

    def _project(self, x: Tensor, order: PatchOrder) -> Generator[None, None, Tensor]:
        out = torch.empty(len(order.cells), self.config.width_out)
        weights = (*self.adapter, self.projection)
        for part in parts(len(out), 2 * sum(linear.weight.numel() for linear in weights)):
            merged = self.norm_end(x[order.cells[part]])  # (cells, patches of a cell, width)
            merged = merged.transpose(1, 2).flatten(1)  # a channel's patches lie together
            for linear in self.adapter:
                merged = F.gelu(linear(merged))
            features = self.projection(merged)
            out[part] = F.rms_norm(features, features.shape[-1:], eps=self.config.feature_eps)
            yield
        return out


@dataclass(frozen=True, slots=True)
class Names:
    """What the parts are called in a kind of file."""

    patch: str
    positions: str
    norm: str
    blocks: str
    block: dict[str, str]
    norm_end: str
    adapter: tuple[str, str]
    projection: str


GGUF = Names(
    patch="v.patch_embd.weight",
    positions="v.position_embd.weight",
    norm="v.pre_ln",
    blocks="v.blk",
    block={
        "norm1": "ln1",
        "query": "attn_q",
        "key": "attn_k",
        "value": "attn_v",
        "output": "attn_out",
        "norm2": "ln2",
        "up": "ffn_up",
        "down": "ffn_down",
    },
    norm_end="v.post_ln",
    adapter=("mm.0", "mm.1"),
    projection="mm.2",
)
FOLDER = Names(
    patch="model.vision_tower.patch_embedder.patch_embedding.weight",
    positions="model.vision_tower.patch_embedder.position_embedding_table.weight",
    norm="model.vision_tower.ln_pre",
    blocks="model.vision_tower.layers",
    block={
        "norm1": "norm1",
        "query": "attn.q_proj",
        "key": "attn.k_proj",
        "value": "attn.v_proj",
        "output": "attn.proj",
        "norm2": "norm2",
        "up": "mlp.fc1",
        "down": "mlp.fc2",
    },
    norm_end="model.vision_tower.ln_post",
    adapter=("model.vision_adapter.fc1", "model.vision_adapter.fc2"),
    projection="model.vision_projection",
)


def load(
    file: GgufFile | SafetensorsFolder, width: int, threads: int, lookup: Lookup
) -> tuple[VisionModel, int]:
    """The vision half for a text model of this width; also how many bytes its weights take."""
    config, names, ours = _understand(file)
    if config.width_out != width:
        raise file.refuse(
            f"the tensor {names.projection}.weight makes features {config.width_out:,} wide, and should make"
            f" them {width:,} wide; this vision part is for another model"
        )
    tensors = Tensors(file, threads)
    model = build(config, tensors, names, lookup)
    tensors.finish(*ours)
    return model, tensors.bytes


def _understand(file: GgufFile | SafetensorsFolder) -> tuple[VisionConfig, Names, tuple[str, ...]]:
    """Sizes, names, and how the names of the vision half's tensors begin, if there are others too."""
    if isinstance(file, SafetensorsFolder):
        return from_folder(file), FOLDER, ("model.vision_",)
    return from_gguf(file), GGUF, ()


def build(config: VisionConfig, tensors: Tensors, names: Names, lookup: Lookup) -> VisionModel:
    """Names on disk -> parts."""
    turn = axial_rope(config.head_dim, config.rope_base, config.order)
    merged, adapter = config.width * config.cutting.merge**2, config.adapter_width
    table = tensors.tensor(names.positions, config.side**2, config.width)
    at = [tensors.under(f"{names.blocks}.{layer}") for layer in range(config.layers)]
    return VisionModel(
        config=config,
        patch=_patch(config, tensors, names.patch),
        positions=PositionTable(table, config.side, lookup),
        rope=turn,
        norm=tensors.layer_norm(names.norm, config.width, config.eps),
        blocks=[block(config, at[i], names.block, turn, full) for i, full in enumerate(config.full)],
        norm_end=tensors.layer_norm(names.norm_end, config.width, config.eps),
        adapter=(
            tensors.linear(merged, **{names.adapter[0]: adapter}),
            tensors.linear(adapter, **{names.adapter[1]: adapter}),
        ),
        projection=tensors.linear(adapter, **{names.projection: config.width_out}),
    )


def block(
    config: VisionConfig, at: Tensors, names: dict[str, str], turn: AxialRope, is_full: bool
) -> VisionBlock:
    """One layer of the diagram."""
    width, ffn = config.width, config.ffn_width
    return VisionBlock(
        at.layer_norm(names["norm1"], width, config.block_eps),
        at.linear(width, **{names[part]: width for part in ("query", "key", "value")}),
        at.linear(width, **{names["output"]: width}),
        at.layer_norm(names["norm2"], width, config.block_eps),
        at.linear(width, **{names["up"]: ffn}),
        at.linear(ffn, **{names["down"]: width}),
        config.heads,
        turn,
        is_full,
    )


def _patch(config: VisionConfig, tensors: Tensors, name: str) -> Linear:
    """A still picture is every frame of its own film: their weights add up."""
    side = config.cutting.patch
    if config.order == "interleaved":
        return Linear(tensors.tensor(name, config.width, 3, side, side).flatten(1))
    stored = tensors.tensor(name, config.width, config.frames * 3 * side**2)
    return Linear(stored.view(config.width, config.frames, -1).sum(1))
