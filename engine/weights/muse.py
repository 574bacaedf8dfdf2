"""What a Muse Glimmer text model is: from a GGUF file, or the config.json of a folder."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from engine.weights.config import CONTEXT_LIMIT, LAYERS_LIMIT, Config, Keys, Rope, decoder
from engine.weights.gguf import GgufFile
from engine.weights.header import shown
from engine.weights.safetensors import SafetensorsFolder

PATTERN = "attention.sliding_window_pattern"
PERIOD = 4  # three local layers to one that sees everything
END_EPS = 1e-8  # of the norms after each half; no key of a GGUF file states it
LOCAL, FULL = "sliding_attention", "full_attention"
TEXT = "text_config"


def configure(file: GgufFile | SafetensorsFolder) -> Config:
    """The sizes and constants that a file or a folder states."""
    return from_folder(file) if isinstance(file, SafetensorsFolder) else from_gguf(file)


def from_gguf(file: GgufFile) -> Config:
    """A GGUF file. What its queries are scaled by, its query norms hold."""
    keys = Keys(file, "muse-glimmer")
    plain = decoder(file, keys)
    if plain.tied:
        file.tensor("output.weight")
    base = keys.positive("rope.freq_base_swa", plain.rope.base)
    return replace(
        plain,
        window=keys.count("attention.sliding_window", limit=CONTEXT_LIMIT),
        local=_pattern(file, keys, plain.layers),
        local_rope=replace(plain.rope, base=base),
        logit_scale=keys.positive("logit_scale"),
        final_softcap=keys.positive("final_logit_softcapping"),
        end_norm_eps=END_EPS,
    )


def from_folder(folder: SafetensorsFolder) -> Config:
    """The text half of a folder."""
    keys = Keys(folder, TEXT)
    _refuse_what_is_not_built(folder)
    layers, head_dim = keys.count("num_hidden_layers", limit=LAYERS_LIMIT), keys.count("head_dim")
    heads, kv_heads = keys.count("num_attention_heads"), keys.count("num_key_value_heads")
    if heads % kv_heads:
        raise keys.wrong("num_key_value_heads", f"{kv_heads}, which does not divide {heads} heads")
    if head_dim % 2:
        raise keys.wrong("head_dim", f"{head_dim}, an odd number")
    rope, local = Rope(_rope_base(keys), head_dim), _layer_types(folder, layers)
    _check_rope_of_layers(folder, rope, local)
    return Config(
        architecture="muse-glimmer",
        layers=layers,
        width=keys.count("hidden_size"),
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        ffn_width=keys.count("intermediate_size"),
        norm_eps=keys.positive("rms_norm_eps"),
        attention_scale=head_dim**-0.5,
        context_length=keys.count("max_position_embeddings", limit=CONTEXT_LIMIT),
        vocab_size=keys.count("vocab_size"),
        rope=rope,
        local_rope=rope,
        window=keys.count("sliding_window", limit=CONTEXT_LIMIT),
        local=local,
        attention_softcap=None,
        final_softcap=keys.positive("final_logit_softcapping"),
        tied=False,
        logit_scale=keys.positive("output_multiplier"),
        end_norm_eps=keys.positive("post_norm_eps", END_EPS),
        query_scale=keys.positive("qk_scale_factor"),
    )


def _pattern(file: GgufFile, keys: Keys, layers: int) -> tuple[bool, ...]:
    """A period, as published files have it, or for each layer whether it is local."""
    value = file.metadata.get(keys.name(PATTERN))
    if not isinstance(value, np.ndarray):
        period = keys.count(PATTERN, limit=LAYERS_LIMIT)
        return tuple(layer % period < period - 1 for layer in range(layers))
    if value.shape != (layers,) or not np.isin(value, (0, 1)).all():
        raise file.refuse(f"{keys.name(PATTERN)} does not say of each of {layers} layers if it is local")
    return tuple(map(bool, value.tolist()))


def _layer_types(folder: SafetensorsFolder, layers: int) -> tuple[bool, ...]:
    key = f"{TEXT}.layer_types"
    if not folder.has(key):
        return tuple((layers - 1 - layer) % PERIOD != 0 for layer in range(layers))
    types = folder.list(key)
    if len(types) != layers or not all(kind in (LOCAL, FULL) for kind in types):
        raise folder.refuse(f"{key} does not say of each of {layers} layers what it sees")
    return tuple(kind == LOCAL for kind in types)


def _rope_base(keys: Keys) -> float:
    kind = keys.name("rope_parameters.rope_type")
    if keys.file.has(kind) and keys.file.text(kind) != "default":
        method = shown(keys.file.text(kind))
        raise keys.file.refuse(
            f"it stretches positions by the method {method}, which Sidelight can't run yet"
        )
    return keys.positive("rope_parameters.rope_theta")


def _check_rope_of_layers(folder: SafetensorsFolder, rope: Rope, local: tuple[bool, ...]) -> None:
    """A folder may state the rope of each layer; 0 is none. Only the layers that see everything have none."""
    key = f"{TEXT}.layer_rope_theta"
    if not folder.has(key):
        return
    if list(folder.list(key)) != [rope.base if is_local else 0 for is_local in local]:
        raise folder.refuse(f"{key} gives layers other positions than Sidelight can run yet")


def _refuse_what_is_not_built(folder: SafetensorsFolder) -> None:
    for key, usual in (("hidden_activation", "silu"), ("hidden_act", "silu")):
        if folder.has(f"{TEXT}.{key}") and folder.text(f"{TEXT}.{key}") != usual:
            value = shown(folder.text(f"{TEXT}.{key}"))
            raise folder.refuse(f"{TEXT}.{key} is {value}, which Sidelight can't run yet")
    for key in (f"{TEXT}.attention_bias", "tie_word_embeddings", f"{TEXT}.tie_word_embeddings"):
        if folder.has(key) and folder.flag(key):
            raise folder.refuse(f"it sets {key}, which Sidelight can't run yet")
