"""A DFlash drafter: a few plain layers that read what the model made of a text and propose how it goes on.

They never see the text itself. Of every token, what the model holds of it after some of its layers becomes
one feature; each of the drafter's layers makes a key and a value of that, and they stay. A draft is a block:
the latest token, then masks. It looks at the features and at itself, in both directions, and is forgotten.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.cache.kv import Kv, KvShape
from engine.layers.attend import at_once
from engine.layers.attention import Heads
from engine.layers.decoder import Decoder
from engine.layers.linear import Linear, Lookup, Matrix
from engine.layers.mlp import GatedMlp, silu
from engine.layers.norm import RmsNorm
from engine.layers.rope import Rope, rope
from engine.layers.span import Span
from engine.weights.dflash import DraftConfig, configure
from engine.weights.gguf import GgufFile
from engine.weights.safetensors import SafetensorsFolder
from engine.weights.tensors import Tensors

__all__ = ["NAMES", "DraftModel", "load"]

NAMES = ()  # not a text model: none opens as one


@dataclass(frozen=True, slots=True, eq=False)
class DraftAttention:
    """A block's tokens look at the features before them and at each other, local ones only so far."""

    qkv: Linear
    output: Linear
    heads: Heads
    rope: Rope
    layer: int  # its number in the cache
    reach: int | None  # tokens to either side; None: all
    query_norm: RmsNorm
    key_norm: RmsNorm

    def note(self, features: Tensor, span: Span, cache: Kv) -> None:
        """Append the keys and values of (n, width) features to the cache."""
        sides = self.qkv.after(self.heads.count * self.heads.dim)(features)
        keys, values = sides.view(-1, 2, self.heads.kv, self.heads.dim).unbind(1)
        cache.append(self.layer, self.rope.turn(self.key_norm(keys), span.rotation(self.rope)), values)

    def __call__(self, x: Tensor, span: Span, cache: Kv) -> Tensor:
        """(n, width) -> (n, width); what is appended to the cache is not to be counted."""
        count, kv, dim = self.heads.count, self.heads.kv, self.heads.dim
        query, key, value = torch.split(self.qkv(x).view(-1, count + 2 * kv, dim), [count, kv, kv], dim=1)
        rotation = span.rotation(self.rope)
        query = self.rope.turn(self.query_norm(query), rotation)
        cache.append(self.layer, self.rope.turn(self.key_norm(key), rotation), value)
        query = query.view(len(x), kv, count // kv, dim).permute(1, 2, 0, 3)
        first = 0 if self.reach is None else max(0, cache.length - self.reach)
        seen = cache.read(self.layer, first, cache.length + len(x))
        found = at_once(query, *seen, self._mask(cache.length - first, len(x)), dim**-0.5)
        return self.output(found.permute(2, 0, 1, 3).reshape(len(x), -1))

    def _mask(self, before: int, count: int) -> Tensor | None:
        """(count, before + count): -inf where a token is too far away."""
        if self.reach is None or before + count <= self.reach + 1:
            return None
        tokens = torch.arange(before, before + count)[:, None]
        is_far = (tokens - torch.arange(before + count)).abs() > self.reach
        return torch.zeros(is_far.shape).masked_fill_(is_far, float("-inf"))


@dataclass(frozen=True, slots=True, eq=False)
class DraftBlock:
    """Normalise, mix, add; normalise, think, add."""

    attention_norm: RmsNorm
    attention: DraftAttention
    mlp_norm: RmsNorm
    mlp: GatedMlp

    def __call__(self, x: Tensor, span: Span, cache: Kv) -> Tensor:
        """(n, width) -> (n, width)."""
        x = x + self.attention(self.attention_norm(x), span, cache)
        return x + self.mlp(self.mlp_norm(x))


@dataclass(frozen=True, slots=True, eq=False)
class DraftModel:
    """A drafter, and what it borrows of its model: head, and table of embeddings without their norm."""

    config: DraftConfig
    encoder: Linear
    encoder_norm: RmsNorm
    blocks: Sequence[DraftBlock]
    norm: RmsNorm
    embedding: Lookup
    head: Matrix
    cache: KvShape

    def note(self, states: Sequence[Tensor], start: int, cache: Kv) -> None:
        """Take in tokens from position `start` on: the model's (n, width) states after each target layer."""
        features = self.encoder_norm(self.encoder(torch.cat(tuple(states), -1)))
        span = Span(start, len(features))
        for block in self.blocks:
            block.attention.note(features, span, cache)
        cache.advance(span.count)

    def propose(self, token: int, count: int, start: int, cache: Kv) -> list[int]:
        """The likeliest tokens after the latest, which is at position `start`; the cache is as before."""
        ids = torch.full((self.config.block,), self.config.mask)
        ids[0] = token
        x, span = self.embedding.rows(ids), Span(start, self.config.block)
        for block in self.blocks:
            x = block(x, span, cache)
        chosen: list[int] = self.head(self.norm(x[1 : count + 1])).argmax(-1).tolist()
        return chosen


@dataclass(frozen=True, slots=True)
class Names:
    """What the parts are called in a kind of file."""

    blocks: str
    encoder: str
    encoder_norm: str
    norm: str
    attention_norm: str
    query: str
    key: str
    value: str
    query_norm: str
    key_norm: str
    output: str
    mlp_norm: str
    mlp_gate: str
    mlp_up: str
    mlp_down: str


GGUF = Names(
    blocks="blk",
    encoder="fc",
    encoder_norm="enc.output_norm",
    norm="output_norm",
    attention_norm="attn_norm",
    query="attn_q",
    key="attn_k",
    value="attn_v",
    query_norm="attn_q_norm",
    key_norm="attn_k_norm",
    output="attn_output",
    mlp_norm="ffn_norm",
    mlp_gate="ffn_gate",
    mlp_up="ffn_up",
    mlp_down="ffn_down",
)
FOLDER = Names(
    blocks="layers",
    encoder="encoder.fc",
    encoder_norm="encoder.output_norm_enc",
    norm="norm",
    attention_norm="input_layernorm",
    query="self_attn.q_proj",
    key="self_attn.k_proj",
    value="self_attn.v_proj",
    query_norm="self_attn.q_norm",
    key_norm="self_attn.k_norm",
    output="self_attn.o_proj",
    mlp_norm="post_attention_layernorm",
    mlp_gate="mlp.gate_proj",
    mlp_up="mlp.up_proj",
    mlp_down="mlp.down_proj",
)


def load(file: GgufFile | SafetensorsFolder, threads: int, target: Decoder) -> tuple[DraftModel, int]:
    """The drafter in a file or a folder, for this model; also how many bytes its weights take.

    `BadModel` names what is missing, what doesn't fit, and how it shows that it is for another model.
    """
    config = configure(file)
    _check_vocabulary(file, config, target)
    if (last := max(config.targets)) >= len(target.blocks):
        raise file.refuse(
            f"it reads after the model's layer {last + 1}, and the model has {len(target.blocks)}; it is a"
            " drafter for another model"
        )
    tensors = Tensors(file, threads)
    model = build(config, tensors, target)
    tensors.finish()
    return model, tensors.bytes


def build(config: DraftConfig, tensors: Tensors, target: Decoder) -> DraftModel:
    """Names on disk -> parts. Its rows of queries and keys turn in halves, in either kind of file.

    All matrices are as wide as the model's states, so that a drafter for another model doesn't fit.
    """
    names = FOLDER if tensors.is_folder else GGUF
    width = target.embedding.shape[1]
    turn = rope(config.head_dim, config.rope, "halves")
    encoder = tensors.linear(width * len(config.targets), **{names.encoder: width}).loose()
    window = None if config.window is None else config.window + 1  # so much a block's first token sees
    return DraftModel(
        config=config,
        encoder=encoder,
        encoder_norm=tensors.norm(names.encoder_norm, width, config.norm_eps),
        blocks=[
            _block(config, tensors.under(f"{names.blocks}.{layer}"), names, turn, layer, width)
            for layer in range(config.layers)
        ],
        norm=tensors.norm(names.norm, width, config.norm_eps),
        embedding=target.embedding,
        head=target.head.loose(),
        cache=KvShape(config.layers, config.kv_heads, config.head_dim, window, config.local),
    )


def _block(config: DraftConfig, at: Tensors, names: Names, turn: Rope, layer: int, width: int) -> DraftBlock:
    """Layer `layer` of the diagram."""
    heads, eps, ffn = Heads(config.heads, config.kv_heads, config.head_dim), config.norm_eps, config.ffn_width
    query, shared = heads.count * heads.dim, heads.kv * heads.dim
    return DraftBlock(
        at.norm(names.attention_norm, width, eps),
        DraftAttention(
            at.linear(width, **{names.query: query, names.key: shared, names.value: shared}).loose(),
            at.linear(query, **{names.output: width}).loose(),
            heads,
            turn,
            layer,
            config.window if config.local[layer] else None,
            at.norm(names.query_norm, heads.dim, eps),
            at.norm(names.key_norm, heads.dim, eps),
        ),
        at.norm(names.mlp_norm, width, eps),
        GatedMlp(
            at.linear(width, **{names.mlp_gate: ffn, names.mlp_up: ffn}).loose(),
            at.linear(ffn, **{names.mlp_down: width}).loose(),
            silu,
        ),
    )


def _check_vocabulary(file: GgufFile | SafetensorsFolder, config: DraftConfig, target: Decoder) -> None:
    """The drafter borrows the model's table of tokens, so it has to mean the same by their numbers."""
    tokens = target.embedding.shape[0]
    if config.vocab_size not in (None, tokens):
        raise file.refuse(
            f"it knows {config.vocab_size:,} tokens, and the tensor token_embd.weight of the model has"
            f" {tokens:,} rows; it is a drafter for another model"
        )
    if config.mask >= tokens:
        raise file.refuse(
            f"its mask is token {config.mask:,}, and the tensor token_embd.weight of the model has"
            f" {tokens:,} rows; it is a drafter for another model"
        )
