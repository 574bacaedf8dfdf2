"""What blueprints are made of, and what all decoders' have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Literal

from engine.weights.config import LAYERS_LIMIT, Keys
from engine.weights.gguf_writer import Writable
from engine.weights.json_facts import JsonFacts

# "fine" matrices suffer most from coarse storage, so mixtures give them more bits; "vector" is never coarse.
Kind = Literal["embedding", "output", "matrix", "fine", "vector"]
LOCAL, FULL = "sliding_attention", "full_attention"
OURS = ".synth."  # in the name of a key that no file has


@dataclass(frozen=True, slots=True)
class Part:
    """A tensor to be. Random values for it have this mean and spread; None: 1 / sqrt(columns)."""

    name: str
    shape: tuple[int, ...]  # in numpy's order: columns last
    kind: Kind = "matrix"
    mean: float = 0.0
    spread: float | None = None

    @property
    def elements(self) -> int:
        """Values."""
        return prod(self.shape)


@dataclass(frozen=True, slots=True)
class Blueprint:
    """A model file before it is written; the tokenizer's keys are not in it."""

    architecture: str
    keys: Mapping[str, Writable]
    parts: tuple[Part, ...]

    @property
    def metadata(self) -> dict[str, Writable]:
        """The keys that a file gets: all but our own, which tell what shapes and values do in a file."""
        return {key: value for key, value in self.keys.items() if OURS not in key}

    @property
    def parameters(self) -> int:
        """Values of all tensors."""
        return sum(part.elements for part in self.parts)

    @property
    def vocab_size(self) -> int | None:
        """Tokens; None for what has no embedding of its own."""
        return next((part.shape[0] for part in self.parts if part.kind == "embedding"), None)


def norm(name: str, width: int, mean: float = 1.0, spread: float = 0.1) -> Part:
    """The weight of a normalisation."""
    return Part(f"{name}.weight", (width,), "vector", mean, spread)


def bias(name: str, width: int) -> Part:
    """A bias."""
    return Part(f"{name}.bias", (width,), "vector", 0.0, 0.02)


def matrix(name: str, rows: int, columns: int, kind: Kind = "matrix", gain: float = 1.0) -> Part:
    """A matrix; `gain` is how much larger its outputs are than its inputs."""
    return Part(f"{name}.weight", (rows, columns), kind, spread=gain * columns**-0.5)


def layer_count(config: JsonFacts) -> int:
    """How many layers a `config.json` states; refused before anything is made for each of them."""
    layers = config.integer("num_hidden_layers")
    if not 1 <= layers <= LAYERS_LIMIT:
        raise config.refuse(f"{config.prefix}num_hidden_layers can't be {layers:,}")
    return layers


def local_layers(config: JsonFacts) -> list[bool] | None:
    """Of each layer whether it is local, if a `config.json` says it layer by layer."""
    if not config.has("layer_types"):
        return None
    kinds, layers = config.list("layer_types"), layer_count(config)
    if len(kinds) != layers or not all(kind in (LOCAL, FULL) for kind in kinds):
        raise config.refuse(
            f"{config.prefix}layer_types does not say of each of {layers} layers what it sees"
        )
    return [kind == LOCAL for kind in kinds]


def decoder_metadata(config: JsonFacts, arch: str) -> dict[str, Writable]:
    """The keys that every decoder has; `config` is what a `config.json` tells of its text model."""
    heads, width = config.integer("num_attention_heads"), config.integer("hidden_size")
    head_dim = config.integer("head_dim") if config.has("head_dim") else width // max(heads, 1)
    shared = config.integer("num_key_value_heads") if config.has("num_key_value_heads") else heads
    keys: dict[str, Writable] = {
        "block_count": layer_count(config),
        "context_length": config.integer("max_position_embeddings"),
        "embedding_length": width,
        "feed_forward_length": config.integer("intermediate_size"),
        "attention.head_count": heads,
        "attention.head_count_kv": shared,
        "attention.key_length": head_dim,
        "attention.value_length": head_dim,
        "attention.layer_norm_rms_epsilon": config.number("rms_norm_eps"),
    }
    return {f"{arch}.{key}": value for key, value in keys.items()}


def rope_base(config: JsonFacts, kind: str = "full_attention") -> float:
    """How fast positions turn, from any of the places where a `config.json` may say so."""
    for key in (f"rope_parameters.{kind}.rope_theta", "rope_parameters.rope_theta"):
        if config.has(key):
            return config.number(key)
    return config.number("rope_theta")


def is_tied(config: JsonFacts, default: bool) -> bool:
    """Whether the output matrix is the embedding's; a `config.json` may leave out its kind's default."""
    return config.flag("tie_word_embeddings") if config.has("tie_word_embeddings") else default


@dataclass(frozen=True, slots=True)
class Sizes:
    """A decoder's sizes, as its keys state them."""

    layers: int
    width: int
    ffn: int
    query: int  # all heads' queries together
    shared: int  # all heads' keys together
    head_dim: int


def sizes(keys: Keys) -> Sizes:
    """Sizes that every decoder has."""
    width, heads = keys.count("embedding_length"), keys.count("attention.head_count")
    head_dim = keys.count("attention.key_length", width // heads or 1)
    shared = keys.count("attention.head_count_kv", heads)
    return Sizes(
        layers=keys.count("block_count", limit=LAYERS_LIMIT),
        width=width,
        ffn=keys.count("feed_forward_length"),
        query=heads * head_dim,
        shared=shared * head_dim,
        head_dim=head_dim,
    )


def ends(keys: Keys, width: int, gain: float = 2.0) -> list[Part]:
    """Embedding, last norm and output matrix, if it isn't the embedding's."""
    vocab = keys.count("vocab_size")
    parts = [
        matrix("token_embd", vocab, width, "embedding", gain if is_tied_here(keys) else 1.0),
        norm("output_norm", width),
    ]
    if not is_tied_here(keys):
        parts.append(matrix("output", vocab, width, "output", gain))
    return parts


def is_tied_here(keys: Keys) -> bool:
    """Whether these keys say that there is no output matrix of its own."""
    return keys.has("synth.tied") and keys.file.flag(keys.name("synth.tied"))


def attention(at: str, of: Sizes) -> list[Part]:
    """Query, key, value and output."""
    return [
        matrix(f"{at}attn_q", of.query, of.width),
        matrix(f"{at}attn_k", of.shared, of.width),
        matrix(f"{at}attn_v", of.shared, of.width, "fine"),
        matrix(f"{at}attn_output", of.width, of.query),
    ]


def gated_mlp(at: str, of: Sizes) -> list[Part]:
    """Gate, up and down."""
    return [
        matrix(f"{at}ffn_gate", of.ffn, of.width),
        matrix(f"{at}ffn_up", of.ffn, of.width),
        matrix(f"{at}ffn_down", of.width, of.ffn, "fine"),
    ]
