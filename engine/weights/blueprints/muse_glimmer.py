"""Muse Glimmer, its text decoder."""

from __future__ import annotations

import numpy as np

from engine.weights.blueprints._parts import (
    Part,
    attention,
    decoder_metadata,
    ends,
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

NAMES, MODEL_TYPES = ("muse-glimmer",), ("muse_glimmer", "muse_glimmer_text")
PERIOD = 4  # three local layers, then one that sees everything
QUERY_SCALE = 3.87  # no key states it: it is the query norm's weight
EPS_AFTER = 1e-8  # nor this, of the norms after each half


def metadata(config: JsonFacts) -> dict[str, Writable]:
    """The keys of the published files."""
    config = config.under("text_config")
    if config.has("post_norm_eps") and config.number("post_norm_eps") != EPS_AFTER:
        raise config.refuse(f"post_norm_eps is not {EPS_AFTER:g}, which a GGUF file can't state")
    keys = decoder_metadata(config, "muse-glimmer")
    own: dict[str, Writable] = {
        "vocab_size": config.integer("vocab_size"),
        "attention.sliding_window": config.integer("sliding_window"),
        "attention.sliding_window_pattern": _pattern(config),
        "rope.freq_base": rope_base(config),
        "logit_scale": config.number("output_multiplier"),
        "final_logit_softcapping": config.number("final_logit_softcapping"),
    }
    if config.has("qk_scale_factor") and config.number("qk_scale_factor") != QUERY_SCALE:
        own["synth.query_scale"] = config.number("qk_scale_factor")
    return keys | {f"muse-glimmer.{key}": value for key, value in own.items()}


def parts(keys: Keys) -> list[Part]:
    """Norms around every part, a gate over the attention, heads normed without weights but for a factor."""
    of = sizes(keys)
    query_scale = keys.positive("synth.query_scale", QUERY_SCALE)
    out = ends(keys, of.width, gain=2 / keys.positive("logit_scale"))  # else the logits come out flat
    for layer in range(of.layers):
        at = f"blk.{layer}."
        out += [norm(f"{at}attn_norm", of.width), *attention(at, of)]
        out += [matrix(f"{at}attn_gate", of.query, of.width)]
        out += [
            norm(f"{at}attn_q_norm", of.head_dim, query_scale, 0),
            norm(f"{at}attn_k_norm", of.head_dim, 1, 0),
        ]
        out += [norm(f"{at}post_attention_norm", of.width), norm(f"{at}ffn_norm", of.width)]
        out += [*gated_mlp(at, of), norm(f"{at}post_ffw_norm", of.width)]
    return out


def _pattern(config: JsonFacts) -> Writable:
    """The period, as published files have it; a list where the layers follow none."""
    layers = layer_count(config)
    usual = [layer % PERIOD < PERIOD - 1 for layer in range(layers)]
    local = local_layers(config)
    if local is None:
        local = [(layers - 1 - layer) % PERIOD != 0 for layer in range(layers)]
    return PERIOD if local == usual else np.array(local, np.bool_)
