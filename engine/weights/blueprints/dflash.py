"""A DFlash drafter: a few layers that read the target model's hidden states."""

from __future__ import annotations

import numpy as np

from engine.weights.blueprints._parts import (
    Part,
    attention,
    decoder_metadata,
    gated_mlp,
    layer_count,
    local_layers,
    matrix,
    norm,
    rope_base,
    sizes,
)
from engine.weights.config import Keys
from engine.weights.gguf_writer import Writable
from engine.weights.json_facts import JsonFacts

NAMES, MODEL_TYPES = ("dflash",), ("muse_glimmer_assistant",)
TARGETS = "dflash.target_layers"


def metadata(config: JsonFacts) -> dict[str, Writable]:
    """The keys of the published file, which counts target layers by their inputs: one more."""
    local = local_layers(config) or [True] * layer_count(config)
    return decoder_metadata(config, "dflash") | {
        "dflash.attention.sliding_window": config.integer("sliding_window"),
        "dflash.attention.sliding_window_pattern": np.array(local, np.bool_),
        "dflash.rope.freq_base": rope_base(config),
        "dflash.block_size": config.integer("block_size"),
        TARGETS: np.array(config.list("target_layer_ids"), np.int32) + np.int32(1),
        "tokenizer.ggml.mask_token_id": config.integer("mask_token_id"),
    }


def parts(keys: Keys) -> list[Part]:
    """Several target layers' features become one, then plain blocks; embedding and head are the target's."""
    of, features = sizes(keys), _target_layers(keys)
    out = [
        matrix("fc", of.width, features * of.width),
        norm("enc.output_norm", of.width),
        norm("output_norm", of.width),
    ]
    for layer in range(of.layers):
        at = f"blk.{layer}."
        out += [norm(f"{at}attn_norm", of.width), *attention(at, of)]
        out += [norm(f"{at}attn_q_norm", of.head_dim), norm(f"{at}attn_k_norm", of.head_dim)]
        out += [norm(f"{at}ffn_norm", of.width), *gated_mlp(at, of)]
    return out


def _target_layers(keys: Keys) -> int:
    value = keys.file._value(TARGETS)
    if not isinstance(value, np.ndarray) or not value.size:
        raise keys.file.refuse(f"{TARGETS} is not a list of layers")
    return int(value.size)
