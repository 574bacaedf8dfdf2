"""Llama, and what is built like it: SmolLM2, Mistral, TinyLlama and many more."""

from __future__ import annotations

from engine.cache.kv import KvShape
from engine.layers.attention import Attention, Heads
from engine.layers.block import Block
from engine.layers.decoder import Decoder
from engine.layers.mlp import GatedMlp, silu
from engine.layers.rope import Rope, rope
from engine.weights.config import Config
from engine.weights.config import llama as configure
from engine.weights.tensors import Tensors

__all__ = ["NAMES", "build", "configure"]

NAMES = ("llama",)


def build(config: Config, tensors: Tensors) -> Decoder:
    """Names on disk -> parts."""
    last = None if config.tied else "output"
    embedding, head = tensors.ends(config.width, config.vocab_size, "token_embd", last)
    factors = (
        tensors.tensor(config.rope.factors, config.rope.dimensions // 2) if config.rope.factors else None
    )
    turn = rope(config.head_dim, config.rope, "interleaved", factors)  # converters reorder the rows for this
    return Decoder(
        embedding=embedding,
        blocks=[block(config, tensors.under(f"blk.{layer}"), turn, layer) for layer in range(config.layers)],
        norm=tensors.norm("output_norm", config.width, config.norm_eps),
        head=head,
        cache=KvShape(config.layers, config.kv_heads, config.head_dim),
    )


def block(config: Config, at: Tensors, turn: Rope, layer: int) -> Block:
    """Layer `layer` of the diagram."""
    heads = Heads(config.heads, config.kv_heads, config.head_dim)
    width, query, shared, ffn = config.width, heads.count * heads.dim, heads.kv * heads.dim, config.ffn_width
    return Block(
        at.norm("attn_norm", width, config.norm_eps),
        Attention(
            at.matrix(width, attn_q=query, attn_k=shared, attn_v=shared),
            at.matrix(query, attn_output=width),
            heads,
            turn,
            layer,
        ),
        at.norm("ffn_norm", width, config.norm_eps),
        GatedMlp(at.matrix(width, ffn_gate=ffn, ffn_up=ffn), at.matrix(ffn, ffn_down=width), silu),
    )
