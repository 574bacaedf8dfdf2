"""The vision half of Muse Glimmer (an "mmproj" file): encoder and projector."""

from __future__ import annotations

import numpy as np

from engine.weights.blueprints._parts import Part, bias, matrix, norm
from engine.weights.config import LAYERS_LIMIT, Keys
from engine.weights.gguf_writer import Writable
from engine.weights.json_facts import JsonFacts

NAMES, MODEL_TYPES = ("clip",), ("muse_glimmer_vision",)
PROJECTOR = "muse-glimmer"
COLOURS = 3


def metadata(config: JsonFacts) -> dict[str, Writable]:
    """The keys of the published file. `config` is the whole model's: the projector spans both halves."""
    seen = config.under("vision_config")
    patch, merge, grid = (seen.integer(key) for key in ("patch_size", "merge_size", "pos_emb_height"))
    half = np.full(COLOURS, 0.5, np.float32)
    return {
        "clip.has_vision_encoder": True,
        "clip.projector_type": PROJECTOR,
        "clip.vision.block_count": seen.integer("num_hidden_layers"),
        "clip.vision.embedding_length": seen.integer("hidden_size"),
        "clip.vision.feed_forward_length": seen.integer("intermediate_size"),
        "clip.vision.attention.head_count": seen.integer("num_attention_heads"),
        "clip.vision.attention.layer_norm_epsilon": seen.number("layer_norm_eps"),
        "clip.vision.patch_size": patch,
        "clip.vision.image_size": grid * patch * merge,
        "clip.vision.spatial_merge_size": merge,
        "clip.vision.projection_dim": config.integer("text_config.hidden_size"),
        "clip.vision.image_mean": half,
        "clip.vision.image_std": half,
        "clip.vision.synth.projector_width": config.integer("projector_hidden_size"),
        "clip.vision.synth.position_count": grid * seen.integer("pos_emb_width"),
    }


def parts(keys: Keys) -> list[Part]:
    """Patches, blocks, pixel shuffle, projector."""
    at = Keys(keys.file, "clip.vision")
    width, ffn, patch = (at.count(key) for key in ("embedding_length", "feed_forward_length", "patch_size"))
    side = at.count("image_size") // (patch * at.count("spatial_merge_size"))
    out = [
        Part(
            "v.patch_embd.weight",
            (width, COLOURS, patch, patch),
            "vector",
            spread=(COLOURS * patch**2) ** -0.5,
        ),
        Part(
            "v.position_embd.weight", (at.count("synth.position_count", side**2), width), "vector", spread=0.1
        ),
    ]
    out += _layer_norm("v.pre_ln", width)
    for layer in range(at.count("block_count", limit=LAYERS_LIMIT)):
        out += _block(f"v.blk.{layer}.", width, ffn)
    out += _layer_norm("v.post_ln", width)
    return out + _projector(at, width)


def _block(at: str, width: int, ffn: int) -> list[Part]:
    out = [*_layer_norm(f"{at}ln1", width), *_layer_norm(f"{at}ln2", width)]
    for name in ("attn_q", "attn_k", "attn_v", "attn_out"):
        out += [matrix(f"{at}{name}", width, width, "fine" if name == "attn_v" else "matrix")]
        out += [bias(f"{at}{name}", width)]
    out += [matrix(f"{at}ffn_up", ffn, width), bias(f"{at}ffn_up", ffn)]
    return [*out, matrix(f"{at}ffn_down", width, ffn, "fine"), bias(f"{at}ffn_down", width)]


def _projector(at: Keys, width: int) -> list[Part]:
    merged, text = width * at.count("spatial_merge_size") ** 2, at.count("projection_dim")
    middle = at.count("synth.projector_width", 4096)
    return [matrix("mm.0", middle, merged), matrix("mm.1", middle, middle), matrix("mm.2", text, middle)]


def _layer_norm(name: str, width: int) -> list[Part]:
    return [norm(name, width), bias(name, width)]
