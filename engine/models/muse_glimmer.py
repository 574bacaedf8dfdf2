"""Muse Glimmer, its text half: norms around every part, gated heads; most layers look a short way back.

Those turn heads by position; the few layers that see everything know no positions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from engine.api import Sampling
from engine.cache.kv import KvShape
from engine.layers.attention import Attention, Heads
from engine.layers.block import Block
from engine.layers.decoder import Decoder
from engine.layers.linear import Matrix
from engine.layers.mlp import GatedMlp, silu
from engine.layers.norm import RmsNorm
from engine.layers.rope import Order, Rope, rope
from engine.weights.config import Config
from engine.weights.muse import configure
from engine.weights.tensors import Tensors

__all__ = ["FOLDERS", "NAMES", "build", "configure"]

NAMES = ("muse-glimmer",)
FOLDERS: Mapping[str, tuple[str, ...]] = {"muse_glimmer": ("model.language_model.", "lm_head.")}
# As its makers advise; and they advise against always taking the likeliest.
SAMPLING = Sampling(temperature=1.0, top_k=64, top_p=0.95, min_p=0.0)


@dataclass(frozen=True, slots=True)
class Names:
    """What the parts are called in a kind of file, and how it stores them."""

    embedding: str
    blocks: str
    attention_norm: str
    query: str
    key: str
    value: str
    gate: str
    output: str
    attention_end: str
    mlp_norm: str
    mlp_gate: str
    mlp_up: str
    mlp_down: str
    mlp_end: str
    norm: str
    head: str
    order: Order  # of the pairs that turn, in the rows of queries and keys
    less: float  # so much is missing from the weights of the norms in blocks


GGUF = Names(
    embedding="token_embd",
    blocks="blk",
    attention_norm="attn_norm",
    query="attn_q",
    key="attn_k",
    value="attn_v",
    gate="attn_gate",
    output="attn_output",
    attention_end="post_attention_norm",
    mlp_norm="ffn_norm",
    mlp_gate="ffn_gate",
    mlp_up="ffn_up",
    mlp_down="ffn_down",
    mlp_end="post_ffw_norm",
    norm="output_norm",
    head="output",
    order="interleaved",
    less=0,
)
FOLDER = Names(
    embedding="model.language_model.embed_tokens",
    blocks="model.language_model.layers",
    attention_norm="input_layernorm",
    query="self_attn.q_proj",
    key="self_attn.k_proj",
    value="self_attn.v_proj",
    gate="self_attn.gate_proj",
    output="self_attn.o_proj",
    attention_end="post_attention_layernorm",
    mlp_norm="pre_feedforward_layernorm",
    mlp_gate="mlp.gate_proj",
    mlp_up="mlp.up_proj",
    mlp_down="mlp.down_proj",
    mlp_end="post_feedforward_layernorm",
    norm="model.language_model.norm",
    head="lm_head",
    order="halves",
    less=1,
)
FUSED = "attn_qkv"  # what GGUF files call the three in one


def build(config: Config, tensors: Tensors) -> Decoder:
    """Names on disk -> parts."""
    names = FOLDER if tensors.is_folder else GGUF
    turn = rope(config.head_dim, config.local_rope or config.rope, names.order)
    embedding, head = tensors.ends(config.width, config.vocab_size, names.embedding, names.head)
    return Decoder(
        embedding=embedding,
        blocks=[
            block(config, tensors.under(f"{names.blocks}.{layer}"), names, turn if local else None, layer)
            for layer, local in enumerate(config.local)
        ],
        norm=tensors.norm(names.norm, config.width, config.norm_eps),
        head=head,
        cache=KvShape(config.layers, config.kv_heads, config.head_dim, config.window, config.local),
        embedding_norm=RmsNorm(None, config.norm_eps),
        logit_scale=config.logit_scale,
        softcap=config.final_softcap,
    )


def block(config: Config, at: Tensors, names: Names, turn: Rope | None, layer: int) -> Block:
    """Layer `layer` of the diagram."""
    width, query, ffn = config.width, config.heads * config.head_dim, config.ffn_width
    end_eps = config.norm_eps if config.end_norm_eps is None else config.end_norm_eps

    def norm(name: str, eps: float) -> RmsNorm:
        return RmsNorm(at.tensor(f"{name}.weight", width) + names.less, eps)

    query_norm, key_norm = _head_norms(config, at)
    return Block(
        norm(names.attention_norm, config.norm_eps),
        Attention(
            _qkv(config, at, names),
            at.matrix(query, **{names.output: width}),
            Heads(config.heads, config.kv_heads, config.head_dim),
            turn,
            layer,
            window=config.window if config.local[layer] else None,
            query_norm=query_norm,
            key_norm=key_norm,
            scale=config.attention_scale,
            gate=at.matrix(width, **{names.gate: query}),
        ),
        norm(names.mlp_norm, config.norm_eps),
        GatedMlp(
            at.matrix(width, **{names.mlp_gate: ffn, names.mlp_up: ffn}),
            at.matrix(ffn, **{names.mlp_down: width}),
            silu,
        ),
        attention_end=norm(names.attention_end, end_eps),
        mlp_end=norm(names.mlp_end, end_eps),
    )


def _qkv(config: Config, at: Tensors, names: Names) -> Matrix:
    query, shared = config.heads * config.head_dim, config.kv_heads * config.head_dim
    if at.has(f"{FUSED}.weight"):
        return at.matrix(config.width, **{FUSED: query + 2 * shared})
    return at.matrix(config.width, **{names.query: query, names.key: shared, names.value: shared})


def _head_norms(config: Config, at: Tensors) -> tuple[RmsNorm, RmsNorm]:
    """Of queries and keys. A folder has a factor of the queries; in a GGUF file it is their norm's weight."""
    if config.query_scale is None:
        query = at.norm("attn_q_norm", config.head_dim, config.norm_eps)
        return query, at.norm("attn_k_norm", config.head_dim, config.norm_eps)
    factor = torch.full((config.head_dim,), config.query_scale)
    return RmsNorm(factor, config.norm_eps), RmsNorm(None, config.norm_eps)
