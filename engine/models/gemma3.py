"""Gemma 3, its text half: norms around every part, and most layers look only a short way back."""

from __future__ import annotations

from engine.cache.kv import KvShape
from engine.layers.attention import Attention, Heads
from engine.layers.block import Block
from engine.layers.decoder import Decoder
from engine.layers.mlp import GatedMlp, gelu_tanh
from engine.layers.rope import Rope, rope
from engine.weights.config import Config
from engine.weights.config import gemma3 as configure
from engine.weights.tensors import Tensors

__all__ = ["NAMES", "build", "configure"]

NAMES = ("gemma3",)


def build(config: Config, tensors: Tensors) -> Decoder:
    """Names on disk -> parts. Norm weights are stored with their one added, so they are plain norms here."""
    last = None if config.tied else "output"
    embedding, head = tensors.ends(config.width, config.vocab_size, "token_embd", last)
    factors = (
        tensors.tensor(config.rope.factors, config.rope.dimensions // 2) if config.rope.factors else None
    )
    far = rope(config.head_dim, config.rope, "halves", factors)
    near = rope(config.head_dim, config.local_rope, "halves") if config.local_rope else far
    turns = [near if local else far for local in config.local]
    return Decoder(
        embedding=embedding,
        blocks=[block(config, tensors.under(f"blk.{i}"), turn, i) for i, turn in enumerate(turns)],
        norm=tensors.norm("output_norm", config.width, config.norm_eps),
        head=head,
        cache=KvShape(config.layers, config.kv_heads, config.head_dim, config.window, config.local),
        embedding_scale=config.width**0.5,
        softcap=config.final_softcap,
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
            window=config.window if config.local[layer] else None,
            query_norm=at.norm("attn_q_norm", heads.dim, config.norm_eps),
            key_norm=at.norm("attn_k_norm", heads.dim, config.norm_eps),
            scale=config.attention_scale,
        ),
        at.norm("ffn_norm", width, config.norm_eps),
        GatedMlp(at.matrix(width, ffn_gate=ffn, ffn_up=ffn), at.matrix(ffn, ffn_down=width), gelu_tanh),
        attention_end=at.norm("post_attention_norm", width, config.norm_eps),
        mlp_end=at.norm("post_ffw_norm", width, config.norm_eps),
    )
