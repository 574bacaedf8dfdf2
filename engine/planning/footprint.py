"""How many bytes each part of a model takes, from its sizes alone. Pure: nothing is read or allocated."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from engine.weights.config import Config
from engine.weights.vision import VisionConfig

Kind = Literal["bf16", "q8", "f32"]  # how keys and values are held
EMBEDDING, HEAD = "token_embd.weight", "output.weight"
Q8_SCALE = 4  # bytes: each head of each token has a float32 factor of its own
SCORES = 4  # bytes of a mask's or a logit's value: always float32


@dataclass(frozen=True, slots=True)
class Cached:
    """What keys and values depend on. `local[i]`: layer i keeps a ring of the last `window` tokens only."""

    heads: int
    head_dim: int
    local: tuple[bool, ...]
    window: int


@dataclass(frozen=True, slots=True)
class Drafter:
    """What a drafter's memory depends on, beside its tensors."""

    cached: Cached
    block: int  # tokens it proposes at once, the known first one included


def cached(config: Config) -> Cached:
    """A decoder's."""
    return Cached(config.kv_heads, config.head_dim, config.local, config.window or 0)


def row_bytes(of: Cached, kind: Kind) -> int:
    """Keys and values of one token in one layer."""
    per_head = {"f32": 4 * of.head_dim, "bf16": 2 * of.head_dim, "q8": of.head_dim + Q8_SCALE}[kind]
    return 2 * of.heads * per_head


def kept_tokens(of: Cached, layer: int, context: int, spare: int) -> int:
    """Tokens a layer has room for: `spare` are those that a ring must not overwrite yet."""
    return min(context, of.window + spare) if of.local[layer] else context


def kv_bytes(of: Cached, kind: Kind, context: int, spare: int, layers: Iterable[int] | None = None) -> int:
    """Keys and values of all layers, or of these."""
    chosen = range(len(of.local)) if layers is None else layers
    return row_bytes(of, kind) * sum(kept_tokens(of, layer, context, spare) for layer in chosen)


def text_activations(config: Config, tokens: int, context: int, size: int, logits: int) -> int:
    """What a pass over `tokens` needs at its widest; `size` is bytes of a value, `logits` rows of them."""
    query = config.heads * config.head_dim
    stream = 2 * config.width  # what layers add to, and its normalised copy
    mlp = stream + 3 * config.ffn_width  # gate, up, and their product
    attention = stream + 4 * query + 4 * config.kv_heads * config.head_dim
    masks = sum({config.window or 0 if local else context for local in config.local})
    rated = logits * config.vocab_size * SCORES
    return tokens * (size * max(mlp, attention) + SCORES * masks) + 2 * rated


def vision_activations(config: VisionConfig, size: int) -> int:
    """What the largest picture needs: its patches, queries, keys, values, and the features that result."""
    cells, patches = config.cutting.most, config.cutting.most * config.cutting.merge**2
    pixels = 3 * config.cutting.patch**2
    widths = 4 * config.width + pixels + 2 * config.head_dim
    return size * (patches * widths + cells * config.width_out)


def layer_of(name: str) -> int | None:
    """Which layer a tensor such as `blk.3.attn_q.weight` belongs to."""
    first, _, rest = name.partition(".")
    number = rest.partition(".")[0]
    return int(number) if first == "blk" and number.isdecimal() else None
