"""What a model is, from its file's metadata. What is missing, impossible or not built is refused by name.

A reader for each way that architectures state themselves; `engine.models` says which architecture uses which.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from engine.api import BadModel
from engine.weights.gguf import GgufFile
from engine.weights.header import shown
from engine.weights.source import Facts

LAYERS_LIMIT = 10_000
SIZE_LIMIT = 1 << 24
TINIEST = 1e-20  # beyond it and its inverse, sums in float32 come out as 0 or infinite
CONTEXT_LIMIT = 1 << 31
GEMMA3_LOCAL_PERIOD = 6  # five local layers, then one that sees everything
GEMMA3_LOCAL_ROPE_BASE = 10_000.0
GEMMA3_27B_LAYERS = 62


@dataclass(frozen=True, slots=True)
class Rope:
    """Rotary positions: pair i of a head turns by position * scale / base**(2 * i / dimensions).

    `factors` names a tensor (dimensions / 2,) that divides each pair's turn as well; None: there is none.
    """

    base: float
    dimensions: int
    scale: float = 1.0
    factors: str | None = None


@dataclass(frozen=True, slots=True)
class Config:
    """A decoder's sizes and constants.

    `local[i]`: layer i sees only the last `window` positions, its own included, and turns by `local_rope`.
    """

    architecture: str
    layers: int
    width: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn_width: int
    norm_eps: float
    attention_scale: float  # the scores' factor before softmax
    context_length: int  # tokens it was trained for
    vocab_size: int
    rope: Rope
    local_rope: Rope | None
    window: int | None
    local: tuple[bool, ...]
    attention_softcap: float | None
    final_softcap: float | None
    tied: bool  # the output matrix is the embedding's
    logit_scale: float = 1.0  # before the softcap
    end_norm_eps: float | None = None  # of the norms after each half; None: as the others
    query_scale: float | None = None  # of normed queries; None: their norm's weight has it


def llama(file: GgufFile) -> Config:
    """Llama and the many that are built like it: every layer sees everything."""
    keys = Keys(file, "llama")
    keys.refuse_if_set("attention.sliding_window")
    return decoder(file, keys)


def gemma3(file: GgufFile) -> Config:
    """Gemma 3: five layers of a short window to one that sees everything, each kind with its own rope."""
    keys = Keys(file, "gemma3")
    plain = decoder(file, keys)
    if plain.layers == GEMMA3_27B_LAYERS:  # this size alone scales by its width per head
        plain = replace(plain, attention_scale=(plain.width / plain.heads) ** -0.5)
    window = keys.file.integer(keys.name("attention.sliding_window"))
    if window == 0:
        return plain
    base = keys.positive("rope.freq_base_swa", GEMMA3_LOCAL_ROPE_BASE)
    period = keys.count("attention.sliding_window_pattern", GEMMA3_LOCAL_PERIOD, limit=LAYERS_LIMIT)
    return replace(
        plain,
        window=keys.count("attention.sliding_window", limit=CONTEXT_LIMIT),
        local=tuple((layer + 1) % period != 0 for layer in range(plain.layers)),
        local_rope=Rope(base, plain.rope.dimensions),
    )


def decoder(file: GgufFile, keys: Keys) -> Config:
    """What every decoder says of itself; no windows."""
    _refuse_what_is_not_built(keys)
    width, heads = keys.count("embedding_length"), keys.count("attention.head_count")
    layers = keys.count("block_count", limit=LAYERS_LIMIT)
    head_dim = _head_dim(keys, width, heads)
    config = Config(
        architecture=keys.architecture,
        layers=layers,
        width=width,
        heads=heads,
        kv_heads=keys.count("attention.head_count_kv", heads),
        head_dim=head_dim,
        ffn_width=keys.count("feed_forward_length"),
        norm_eps=keys.positive("attention.layer_norm_rms_epsilon"),
        attention_scale=head_dim**-0.5,
        context_length=keys.count("context_length", limit=CONTEXT_LIMIT),
        vocab_size=_vocab_size(file, width),
        rope=_rope(file, keys, head_dim),
        local_rope=None,
        window=None,
        local=(False,) * layers,
        attention_softcap=keys.positive_or_none("attn_logit_softcapping"),
        final_softcap=keys.positive_or_none("final_logit_softcapping"),
        tied="output.weight" not in file.tensors,
    )
    if config.heads % config.kv_heads:
        raise keys.wrong("attention.head_count_kv", f"{config.kv_heads}, which does not divide {heads} heads")
    _check_layers(file, layers)
    return config


class Keys:
    """An architecture's own keys: each stands in the file behind its name, as in `llama.block_count`."""

    def __init__(self, file: Facts, architecture: str) -> None:
        self.file, self.architecture = file, architecture

    def name(self, key: str) -> str:
        """The key as the file has it."""
        return f"{self.architecture}.{key}"

    def has(self, key: str) -> bool:
        """Whether the file says anything under `key`."""
        return self.file.has(self.name(key))

    def count(self, key: str, default: int | None = None, limit: int = SIZE_LIMIT) -> int:
        """A whole number from 1 to `limit`. A default is for keys that the format lets a file leave out."""
        if default is not None and not self.has(key):
            return default
        value = self.file.integer(self.name(key))
        if not 1 <= value <= limit:
            raise self.wrong(key, f"{value:,}")
        return value

    def positive(self, key: str, default: float | None = None) -> float:
        """A number above 0. A default is for keys that the format lets a file leave out."""
        if default is not None and not self.has(key):
            return default
        value = self.file.number(self.name(key))
        if not TINIEST <= value <= 1 / TINIEST:
            raise self.wrong(key, f"{value:g}")
        return value

    def positive_or_none(self, key: str) -> float | None:
        """A number above 0; None if it is 0 or not there, which both switch the matter off."""
        if not self.has(key) or self.file.number(self.name(key)) == 0:
            return None
        return self.positive(key)

    def refuse_if_set(self, key: str) -> None:
        """Refuse the model if it asks for something that is not built."""
        if self.has(key) and self.file.number(self.name(key)) != 0:
            raise self.file.refuse(f"it sets {self.name(key)}, which Sidelight can't run yet")

    def wrong(self, key: str, value: str) -> BadModel:
        """The error for a value that no model can have."""
        return self.file.refuse(f"{self.name(key)} can't be {value}")


def _refuse_what_is_not_built(keys: Keys) -> None:
    for key in (
        "expert_count",
        "attention.clamp_kqv",
        "attention.max_alibi_bias",
        "attention.layer_norm_epsilon",
    ):
        keys.refuse_if_set(key)
    if keys.has("attention.causal") and not keys.file.flag(keys.name("attention.causal")):
        raise keys.file.refuse("it reads texts in both directions, which Sidelight can't run yet")


def _head_dim(keys: Keys, width: int, heads: int) -> int:
    if not keys.has("attention.key_length") and width % heads:
        raise keys.wrong("attention.head_count", f"{heads}, which does not divide a width of {width:,}")
    head_dim = keys.count("attention.key_length", width // heads)
    if head_dim % 2:
        raise keys.file.refuse(f"its heads are {head_dim} wide, an odd number")
    values = keys.count("attention.value_length", head_dim)
    if values != head_dim:
        raise keys.file.refuse(
            f"its keys ({head_dim}) and values ({values}) differ in width, which Sidelight can't run yet"
        )
    return head_dim


def _rope(file: GgufFile, keys: Keys, head_dim: int) -> Rope:
    dimensions = keys.count("rope.dimension_count", head_dim)
    if dimensions != head_dim:
        raise file.refuse(
            f"it turns {dimensions} of {head_dim} dimensions of a head, which Sidelight can't run yet"
        )
    factors = "rope_freqs.weight" if "rope_freqs.weight" in file.tensors else None
    if factors and file.tensors[factors].shape != (dimensions // 2,):
        raise file.refuse(f"the tensor {factors} does not hold {dimensions // 2} values")
    return Rope(keys.positive("rope.freq_base"), dimensions, _rope_scale(keys), factors)


def _rope_scale(keys: Keys) -> float:
    """Older files give a linear factor without a kind."""
    kind = keys.file.text(keys.name("rope.scaling.type")) if keys.has("rope.scaling.type") else "linear"
    if kind == "none":
        return 1.0
    if kind != "linear":
        raise keys.file.refuse(
            f"it stretches positions by the method {shown(kind)}, which Sidelight can't run yet"
        )
    key = "rope.scaling.factor" if keys.has("rope.scaling.factor") else "rope.scale_linear"
    return 1.0 / (keys.positive_or_none(key) or 1.0)


def _vocab_size(file: GgufFile, width: int) -> int:
    embedding = file.tensor("token_embd.weight")
    if len(embedding.shape) != 2 or embedding.shape[1] != width:
        raise file.refuse(
            f"the tensor token_embd.weight has the shape {embedding.shape}, not rows of {width:,}"
        )
    size = embedding.shape[0]
    if len(file.strings("tokenizer.ggml.tokens")) != size:
        raise file.refuse(f"tokenizer.ggml.tokens does not hold {size:,} tokens, as token_embd.weight does")
    return size


def _check_layers(file: GgufFile, layers: int) -> None:
    file.tensor(f"blk.{layers - 1}.attn_norm.weight")
    if f"blk.{layers}.attn_norm.weight" in file.tensors:
        raise file.refuse(f"it holds more layers than the {layers} it says it has")
