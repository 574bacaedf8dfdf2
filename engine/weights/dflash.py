"""What a DFlash drafter is: from a GGUF file, or the config.json of a folder."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.weights.config import CONTEXT_LIMIT, LAYERS_LIMIT, Keys, Rope
from engine.weights.gguf import GgufFile
from engine.weights.header import shown
from engine.weights.safetensors import SafetensorsFolder

NAME, KIND = "dflash", "muse_glimmer_assistant"  # what a file, and a folder, says that it is
BLOCK_LIMIT = 1_024
TARGETS, PATTERN = "target_layers", "attention.sliding_window_pattern"
MASK, TOKENS = "tokenizer.ggml.mask_token_id", "tokenizer.ggml.tokens"
LOCAL, FULL = "sliding_attention", "full_attention"
SECOND = ("conv_kernel_size", "selector_rank")  # keys of DFlash2, which has parts that this one lacks


@dataclass(frozen=True, slots=True)
class DraftConfig:
    """A drafter's sizes and constants. `targets`: after which of the model's layers it reads, from 0."""

    layers: int
    width: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn_width: int
    norm_eps: float
    rope: Rope
    window: int | None  # how far local layers look to either side, in tokens
    local: tuple[bool, ...]
    block: int  # tokens of a draft: the latest one, and masks in place of those to propose
    mask: int  # the token that stands there
    targets: tuple[int, ...]
    vocab_size: int | None  # of its tokenizer, if it has one


def configure(file: GgufFile | SafetensorsFolder) -> DraftConfig:
    """The sizes and constants that a file or a folder states."""
    return from_folder(file) if isinstance(file, SafetensorsFolder) else from_gguf(file)


def from_gguf(file: GgufFile) -> DraftConfig:
    """A GGUF file. It counts the model's layers by what goes into them, so by one more than we do."""
    if (name := file.text("general.architecture")) != NAME:
        raise file.refuse(f"it has the architecture {shown(name)!r} and is not a drafter ({NAME})")
    keys = Keys(file, NAME)
    if any(keys.has(key) for key in SECOND):
        raise file.refuse("it is a DFlash2 drafter, which Sidelight can't run yet")
    if keys.has("attention.causal") and keys.file.flag(keys.name("attention.causal")):
        raise file.refuse("its layers look only back, which no drafter's do")
    layers, heads = keys.count("block_count", limit=LAYERS_LIMIT), keys.count("attention.head_count")
    head_dim = keys.count("attention.key_length")
    window = keys.count("attention.sliding_window", limit=CONTEXT_LIMIT) if _has_window(keys) else None
    return _checked(
        keys,
        DraftConfig(
            layers=layers,
            width=keys.count("embedding_length"),
            heads=heads,
            kv_heads=keys.count("attention.head_count_kv", heads),
            head_dim=keys.count("attention.value_length", head_dim, limit=head_dim),
            ffn_width=keys.count("feed_forward_length"),
            norm_eps=keys.positive("attention.layer_norm_rms_epsilon"),
            rope=Rope(keys.positive("rope.freq_base"), head_dim),
            window=window,
            local=_pattern(file, keys, layers) if window else (False,) * layers,
            block=keys.count("block_size", limit=BLOCK_LIMIT),
            mask=file.integer(MASK),
            targets=_targets(keys, file.metadata.get(keys.name(TARGETS)), TARGETS, less=1),
            vocab_size=len(file.strings(TOKENS)) if file.has(TOKENS) else None,
        ),
    )


def from_folder(folder: SafetensorsFolder) -> DraftConfig:
    """A folder."""
    if (kind := folder.text("model_type")) != KIND:
        raise folder.refuse(f"it has the architecture {shown(kind)!r} and is not a drafter ({KIND})")
    if folder.has("hidden_act") and (act := folder.text("hidden_act")) != "silu":
        raise folder.refuse(f"hidden_act is {shown(act)}, which Sidelight can't run yet")
    if folder.has("rope_parameters.rope_type") and folder.text("rope_parameters.rope_type") != "default":
        raise folder.refuse("it stretches positions, which Sidelight can't run yet")
    keys = _Plain(folder)
    layers, head_dim = keys.count("num_hidden_layers", limit=LAYERS_LIMIT), keys.count("head_dim")
    local = _layer_types(folder, layers)
    return _checked(
        keys,
        DraftConfig(
            layers=layers,
            width=keys.count("hidden_size"),
            heads=keys.count("num_attention_heads"),
            kv_heads=keys.count("num_key_value_heads"),
            head_dim=head_dim,
            ffn_width=keys.count("intermediate_size"),
            norm_eps=keys.positive("rms_norm_eps"),
            rope=Rope(keys.positive("rope_parameters.rope_theta"), head_dim),
            window=keys.count("sliding_window", limit=CONTEXT_LIMIT) if any(local) else None,
            local=local,
            block=keys.count("block_size", limit=BLOCK_LIMIT),
            mask=folder.integer("mask_token_id"),
            targets=_targets(keys, folder.list("target_layer_ids"), "target_layer_ids", less=0),
            vocab_size=None,
        ),
    )


class _Plain(Keys):
    """Keys that stand in the file as they are."""

    def __init__(self, folder: SafetensorsFolder) -> None:
        super().__init__(folder, KIND)

    def name(self, key: str) -> str:
        """The key itself."""
        return key


def _checked(keys: Keys, config: DraftConfig) -> DraftConfig:
    if config.heads % config.kv_heads:
        raise keys.file.refuse(f"{config.kv_heads} heads of keys don't divide {config.heads} heads")
    if config.head_dim % 2 or config.head_dim != config.rope.dimensions:
        raise keys.file.refuse(f"its heads are {config.head_dim} wide, which Sidelight can't run yet")
    if config.block < 2:
        raise keys.wrong("block_size", f"{config.block}: it would propose nothing")
    if config.mask < 0:
        raise keys.file.refuse(f"the mask token can't be {config.mask}")
    return config


def _has_window(keys: Keys) -> bool:
    key = "attention.sliding_window"
    return keys.has(key) and keys.file.integer(keys.name(key)) != 0


def _pattern(file: GgufFile, keys: Keys, layers: int) -> tuple[bool, ...]:
    """Of each layer whether it is local; all are if nothing is said."""
    value = file.metadata.get(keys.name(PATTERN))
    if value is None:
        return (True,) * layers
    if not isinstance(value, np.ndarray) or value.shape != (layers,) or not np.isin(value, (0, 1)).all():
        raise file.refuse(f"{keys.name(PATTERN)} does not say of each of {layers} layers if it is local")
    return tuple(map(bool, value.tolist()))


def _layer_types(folder: SafetensorsFolder, layers: int) -> tuple[bool, ...]:
    types = folder.list("layer_types") if folder.has("layer_types") else (LOCAL,) * layers
    if len(types) != layers or not all(kind in (LOCAL, FULL) for kind in types):
        raise folder.refuse(f"layer_types does not say of each of {layers} layers what it sees")
    return tuple(kind == LOCAL for kind in types)


def _targets(keys: Keys, value: Any, key: str, less: int) -> tuple[int, ...]:
    """The model's layers after which the drafter reads, in the order in which it wants them."""
    layers: Sequence[Any] = value.tolist() if isinstance(value, np.ndarray) else value or ()
    if not layers or not _are_layers(layers, less):
        raise keys.file.refuse(f"{keys.name(key)} is not a list of layers, counted from {less}")
    return tuple(layer - less for layer in layers)


def _are_layers(layers: Iterable[Any], least: int) -> bool:
    return all(type(layer) is int and least <= layer < LAYERS_LIMIT for layer in layers)
