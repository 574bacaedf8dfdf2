"""How many bytes each part of a model takes, from its sizes alone. Pure: nothing is read or allocated."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from engine.cache.kv import PAST_BYTES, KvShape
from engine.cache.storage import F32, STORAGES
from engine.layers.attend import step_of
from engine.weights.config import Config
from engine.weights.vision import VisionConfig

Kind = Literal["f16", "bf16", "q8", "f32"]  # how keys and values are held
EMBEDDING, HEAD = "token_embd.weight", "output.weight"
TOKEN, MERGE = 330, 290  # bytes, measured
FUSED_ROWS = 5  # as they are looked up, scaled, pending, added up and normed
SEEN, RECORDS = 128, 32 << 20  # positions looked at by one thread; bytes of what it finds, of all
SCORES = 4  # bytes of a mask's or a logit's value: always float32


@dataclass(frozen=True, slots=True)
class Drafter:
    """What a drafter's memory depends on, beside its tensors."""

    shape: KvShape
    block: int  # tokens it proposes at once, the known first one included


def cache_shape(config: Config) -> KvShape:
    """A decoder's cache."""
    return KvShape(config.layers, config.kv_heads, config.head_dim, config.window, config.local)


def kv_bytes(shape: KvShape, kind: Kind, context: int, spare: int, layers: Iterable[int]) -> int:
    """Keys and values of these layers; `spare` are tokens that a ring has room for beyond its window."""
    row = shape.row_bytes(STORAGES[kind.upper()])
    return row * sum(shape.rows(layer, context, spare) for layer in layers)


def turn_bytes(shape: KvShape, kind: Kind, turns: int) -> int:
    """What local layers keep of the beginnings of turns, so that a conversation can go on from there."""
    local = sum(map(shape.is_local, range(shape.layers)))
    kept = turns * local * max(0, (shape.window or 1) - 1) * shape.row_bytes(STORAGES[kind.upper()])
    return min(kept, PAST_BYTES)


def text_activations(config: Config, tokens: int, size: int, logits: int) -> int:
    """What a pass over `tokens` needs at its widest; `size` is bytes of a value, `logits` rows of them."""
    query, shared = config.heads * config.head_dim, config.kv_heads * config.head_dim
    mlp = 3 * config.ffn_width  # gate, up, and their product
    attention = 4 * query + 4 * shared  # as they come, and turned
    stream = 2 * config.width  # what layers add to, and its normalised copy
    return tokens * size * (stream + max(mlp, attention)) + 2 * logits * config.vocab_size * SCORES


def attention_activations(config: Config, kind: Kind, tokens: int, context: int) -> int:
    """What the processor's attention makes of a long cache: a mask, converted values, a part's scores."""
    shape, storage = cache_shape(config), STORAGES[kind.upper()]
    seen = max(shape.rows(layer, context) for layer in range(shape.layers))
    step = step_of(tokens, context, storage.is_plain)
    mask = tokens * min(step, seen) * SCORES
    converted = 0 if storage.is_plain else min(step, seen) * shape.row_bytes(F32)
    scores = config.heads * tokens * step * SCORES if seen > step else 0
    return mask + converted + scores


def kernel_activations(config: Config, tokens: int, context: int, logits: int) -> int:
    """What a pass over `tokens` needs where kernels run all layers; they need neither masks nor copies."""
    query, shared = config.heads * config.head_dim, config.kv_heads * config.head_dim
    wide = max(4 * 2 * (query + shared), 8 * config.ffn_width)  # a gate as wide as the queries among them
    rounded = 2 * max(config.width, query, config.ffn_width)  # in two ways, and scales
    rows = tokens * (FUSED_ROWS * 4 * config.width + 4 * query + wide + rounded)
    records = -(-context // SEEN) * config.heads * 4 * (config.head_dim + 8)
    return rows + min(RECORDS, records) + 2 * logits * config.vocab_size * SCORES


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


def tokenizer_bytes(tokens: int, merges: int) -> int:
    """What a vocabulary takes, as texts, numbers and tables."""
    return TOKEN * tokens + MERGE * merges
