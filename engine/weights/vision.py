"""What a vision model is, from its file's metadata: an mmproj GGUF, or the config.json of a folder."""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt
from typing import cast

import numpy as np

from engine.layers.rope import Order
from engine.vision.patches import Cutting
from engine.weights.config import LAYERS_LIMIT, Keys
from engine.weights.gguf import GgufFile
from engine.weights.header import shown
from engine.weights.safetensors import SafetensorsFolder
from engine.weights.source import Facts, WeightFile

PROJECTOR = "muse-glimmer"
MODEL_TYPE = "muse_glimmer"
MOST_CELLS = 4_096
ROPE_BASE = 10_000.0
FULL_PERIOD = 4  # three layers that see a window to one that sees everything
BLOCK_EPS = 1e-5
FEATURE_EPS = 1e-5
HALF = (0.5, 0.5, 0.5)
SIZE_LIMIT = 1 << 12  # of a patch, a merge and the position table's side
MOST_TEMPORAL = 16


@dataclass(frozen=True, slots=True)
class VisionConfig:
    """A vision model's sizes and constants. `full[i]`: layer i sees the whole picture, not a window."""

    layers: int
    width: int
    heads: int
    ffn_width: int
    eps: float  # of the norms around the blocks
    block_eps: float
    feature_eps: float
    side: int  # of the position table, in patches; windows are as wide
    frames: int  # a patch's weights are for so many pictures, one after another; a still one counts for all
    adapter_width: int
    width_out: int  # the text model's
    rope_base: float
    order: Order  # of the pairs that turn, in a head
    full: tuple[bool, ...]
    cutting: Cutting

    @property
    def head_dim(self) -> int:
        """Values of a head."""
        return self.width // self.heads


def from_gguf(file: GgufFile) -> VisionConfig:
    """An mmproj file. What it doesn't state is the same in all of its kind."""
    _refuse_other_projectors(file)
    keys = Keys(file, "clip.vision")
    layers = keys.count("block_count", limit=LAYERS_LIMIT)
    eps = keys.positive("attention.layer_norm_epsilon")
    return VisionConfig(
        layers=layers,
        width=keys.count("embedding_length"),
        heads=_heads(file, keys.count("attention.head_count"), keys.count("embedding_length")),
        ffn_width=keys.count("feed_forward_length"),
        eps=eps,
        block_eps=eps,
        feature_eps=FEATURE_EPS,
        side=_side(file, "v.position_embd.weight"),
        frames=1,
        adapter_width=_rows(file, "mm.0.weight"),
        width_out=_rows(file, "mm.2.weight"),
        rope_base=ROPE_BASE,
        order="interleaved",
        full=_full(layers),
        cutting=Cutting(
            keys.count("patch_size", limit=SIZE_LIMIT),
            keys.count("spatial_merge_size", limit=SIZE_LIMIT),
            MOST_CELLS,
            _colours(file, "clip.vision.image_mean"),
            _colours(file, "clip.vision.image_std"),
        ),
    )


def from_folder(folder: SafetensorsFolder) -> VisionConfig:
    """The vision half of a folder."""
    if folder.text("model_type") != MODEL_TYPE:
        kind = shown(folder.text("model_type"))
        raise folder.refuse(f"it is of the type {kind}, and Sidelight reads pictures with {MODEL_TYPE} only")
    keys = Keys(folder, "vision_config")
    layers = keys.count("num_hidden_layers", limit=LAYERS_LIMIT)
    side = keys.count("pos_emb_height", limit=SIZE_LIMIT)
    if keys.count("pos_emb_width") != side:
        raise keys.wrong("pos_emb_width", f"{keys.count('pos_emb_width')}; the position table is not square")
    _refuse_other_activations(folder)
    return VisionConfig(
        layers=layers,
        width=keys.count("hidden_size"),
        heads=_heads(folder, keys.count("num_attention_heads"), keys.count("hidden_size")),
        ffn_width=keys.count("intermediate_size"),
        eps=keys.positive("layer_norm_eps", BLOCK_EPS),
        block_eps=BLOCK_EPS,
        feature_eps=Keys(folder, "text_config").positive("rms_norm_eps", FEATURE_EPS),
        side=side,
        frames=keys.count("patch_temporal", limit=MOST_TEMPORAL),
        adapter_width=_rows(folder, "model.vision_adapter.fc1.weight"),
        width_out=_rows(folder, "model.vision_projection.weight"),
        rope_base=keys.positive("rope_parameters.rope_theta", ROPE_BASE),
        order="halves",
        full=_layer_types(folder, layers),
        cutting=Cutting(
            keys.count("patch_size", limit=SIZE_LIMIT),
            keys.count("merge_size", limit=SIZE_LIMIT),
            MOST_CELLS,
            HALF,
            HALF,
        ),
    )


def _refuse_other_projectors(file: GgufFile) -> None:
    if file.text("general.architecture") != "clip" or not file.has("clip.projector_type"):
        raise file.refuse("it is not the vision part (mmproj) of a model")
    kind = file.text("clip.projector_type")
    if kind != PROJECTOR:
        raise file.refuse(
            f"it is a vision part for {shown(kind)}; Sidelight reads pictures with {PROJECTOR} only"
        )


def _refuse_other_activations(folder: SafetensorsFolder) -> None:
    for key in ("vision_config.hidden_act", "projector_hidden_act"):
        if folder.has(key) and folder.text(key) != "gelu":
            raise folder.refuse(f"{key} is {shown(folder.text(key))}, which Sidelight can't run yet")


def _heads(file: Facts, heads: int, width: int) -> int:
    if width % heads or width // heads % 4:
        raise file.refuse(f"its {heads} vision heads don't divide a width of {width:,} into fours")
    return heads


def _full(layers: int) -> tuple[bool, ...]:
    return tuple((layer + 1) % FULL_PERIOD == 0 or layer == layers - 1 for layer in range(layers))


def _layer_types(folder: SafetensorsFolder, layers: int) -> tuple[bool, ...]:
    key = "vision_config.layer_types"
    if not folder.has(key):
        return _full(layers)
    types = folder.list(key)
    if len(types) != layers or not all(kind in ("full_attention", "window_attention") for kind in types):
        raise folder.refuse(f"{key} does not say what each of the {layers} layers sees")
    return tuple(kind == "full_attention" for kind in types)


def _side(file: WeightFile, name: str) -> int:
    side = isqrt(rows := _rows(file, name))
    if side * side != rows:
        raise file.refuse(f"the tensor {name} holds {rows:,} positions, which are not a square")
    return side


def _rows(file: WeightFile, name: str) -> int:
    return file.tensor(name).shape[0]


def _colours(file: GgufFile, key: str) -> tuple[float, float, float]:
    values = file.numbers(key).astype(np.float64)
    if values.shape != (3,) or not np.isfinite(values).all() or (key.endswith("std") and values.min() <= 0):
        raise file.refuse(f"{key} does not hold a number for each colour")
    return cast(tuple[float, float, float], tuple(values.tolist()))
