"""Llama, and what is built like it."""

from __future__ import annotations

from engine.weights.blueprints._parts import (
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
from engine.weights.config import Keys
from engine.weights.gguf_writer import Writable
from engine.weights.json_facts import JsonFacts

NAMES, MODEL_TYPES = ("llama",), ("llama",)
ROPES = ("default", "linear", "llama3")


def metadata(config: JsonFacts) -> dict[str, Writable]:
    """The keys that a converter would write."""
    keys = decoder_metadata(config, "llama")
    keys |= {
        "llama.vocab_size": config.integer("vocab_size"),
        "llama.synth.tied": is_tied(config, default=False),
        "llama.rope.freq_base": rope_base(config),
        "llama.rope.dimension_count": keys["llama.attention.key_length"],
    }
    return keys | _scaling(config)


def parts(keys: Keys) -> list[Part]:
    """Normalise, mix; normalise, think."""
    of = sizes(keys)
    out = ends(keys, of.width)
    if keys.has("synth.rope_factors") and keys.file.flag(keys.name("synth.rope_factors")):
        out.append(Part("rope_freqs.weight", (of.head_dim // 2,), "vector", mean=4.0, spread=1.0))
    for layer in range(of.layers):
        at = f"blk.{layer}."
        out += [norm(f"{at}attn_norm", of.width), *attention(at, of)]
        out += [norm(f"{at}ffn_norm", of.width), *gated_mlp(at, of)]
    return out


def _scaling(config: JsonFacts) -> dict[str, Writable]:
    """How positions are stretched, under the old name or the new."""
    at = "rope_parameters" if config.has("rope_parameters") else "rope_scaling"
    kind = config.text(f"{at}.rope_type") if config.has(f"{at}.rope_type") else "default"
    if kind not in ROPES:
        raise config.refuse(f"it stretches positions by the method {kind}, which Sidelight can't run yet")
    if kind == "llama3":
        return {"llama.synth.rope_factors": True}
    if kind == "linear":
        factor = config.number(f"{at}.factor")
        return {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": factor}
    return {}
