"""Gemma 3, its text half."""

from __future__ import annotations

from engine.weights.blueprints._parts import (
    LOCAL,
    Part,
    attention,
    decoder_metadata,
    ends,
    gated_mlp,
    is_tied,
    norm,
    rope_base,
    sizes,
)
from engine.weights.config import GEMMA3_27B_LAYERS, GEMMA3_LOCAL_PERIOD, Keys
from engine.weights.gguf_writer import Writable
from engine.weights.json_facts import JsonFacts

NAMES, MODEL_TYPES = ("gemma3",), ("gemma3_text", "gemma3")


def metadata(config: JsonFacts) -> dict[str, Writable]:
    """The keys that a converter would write."""
    config = config.under("text_config")
    keys = decoder_metadata(config, "gemma3")
    _check_scale(config)
    keys |= {
        "gemma3.vocab_size": config.integer("vocab_size"),
        "gemma3.synth.tied": is_tied(config, default=True),
        "gemma3.rope.freq_base": rope_base(config),
        "gemma3.attention.sliding_window": config.integer("sliding_window"),
    }
    factor = _factor(config)
    if factor is not None:
        keys |= {"gemma3.rope.scaling.type": "linear", "gemma3.rope.scaling.factor": factor}
    if (period := _period(config)) != GEMMA3_LOCAL_PERIOD:
        keys["gemma3.attention.sliding_window_pattern"] = period
    if config.has("final_logit_softcapping"):
        keys["gemma3.final_logit_softcapping"] = config.number("final_logit_softcapping")
    return keys


def parts(keys: Keys) -> list[Part]:
    """Like Llama's, with norms around every part and over each head."""
    of = sizes(keys)
    out = ends(keys, of.width)
    for layer in range(of.layers):
        at = f"blk.{layer}."
        out += [norm(f"{at}attn_norm", of.width), *attention(at, of)]
        out += [norm(f"{at}attn_q_norm", of.head_dim), norm(f"{at}attn_k_norm", of.head_dim)]
        out += [norm(f"{at}post_attention_norm", of.width), norm(f"{at}ffn_norm", of.width)]
        out += [*gated_mlp(at, of), norm(f"{at}post_ffw_norm", of.width)]
    return out


def _check_scale(config: JsonFacts) -> None:
    """A GGUF file has no key for the scores' factor: it follows from the sizes."""
    width, heads = config.integer("hidden_size"), config.integer("num_attention_heads")
    is_largest = config.integer("num_hidden_layers") == GEMMA3_27B_LAYERS
    expected = width / heads if is_largest else config.integer("head_dim")
    if config.has("query_pre_attn_scalar") and config.number("query_pre_attn_scalar") != expected:
        raise config.refuse(f"query_pre_attn_scalar is not {expected:g}, which a GGUF file can't state")


def _factor(config: JsonFacts) -> float | None:
    """How much positions are stretched in layers that see everything."""
    for at in ("rope_parameters.full_attention", "rope_scaling"):
        if config.has(f"{at}.factor"):
            return config.number(f"{at}.factor")
    return None


def _period(config: JsonFacts) -> int:
    """Every how many layers one sees everything."""
    if config.has("layer_types"):
        local = [kind == LOCAL for kind in config.list("layer_types")]
        first = local.index(False) + 1 if False in local else max(len(local) + 1, GEMMA3_LOCAL_PERIOD)
        if local != [(layer + 1) % first != 0 for layer in range(len(local))]:
            raise config.refuse("its layer_types do not repeat, which a GGUF file can't state")
        return first
    if config.has("sliding_window_pattern"):
        return config.integer("sliding_window_pattern")
    return GEMMA3_LOCAL_PERIOD
