"""Tiny models with random weights: written by gguf-py, and run by a plain float64 forward."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import gguf
import numpy as np

LETTERS = [chr(code) for code in range(33, 127)]


@dataclass(frozen=True)
class Shape:
    """A tiny model's sizes."""

    architecture: str = "llama"
    layers: int = 2
    width: int = 72
    heads: int = 9
    kv_heads: int = 3
    head_dim: int = 16
    ffn: int = 96
    eps: float = 1e-5
    base: float = 10_000.0
    window: int = 0
    context: int = 512
    tied: bool = True
    bias: bool = False
    factors: bool = False
    rope_scale: float = 1.0  # positions are divided by it
    extra: dict[str, tuple[int, ...]] = field(default_factory=dict)


LLAMA = Shape()
GEMMA3 = Shape("gemma3", layers=7, heads=4, kv_heads=1, head_dim=32, base=1_000_000.0, window=8, eps=1e-6)


def vocabulary(architecture: str) -> list[str]:
    """Control tokens, one for each byte, and a piece or more."""
    if architecture == "llama":
        return ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *byte_letters(), "ĠĠ"]
    pieces = ["▁", *LETTERS]
    return ["<pad>", "<eos>", "<bos>", "<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), *pieces]


def byte_letters() -> list[str]:
    """The letters that stand for the 256 bytes in byte-level vocabularies, in order of the bytes."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    spare = iter(range(256, 512))
    return [chr(byte) if byte in plain else chr(next(spare)) for byte in range(256)]


def weights(shape: Shape, seed: int = 0) -> dict[str, np.ndarray]:
    """Random float32 tensors under their GGUF names."""
    rng = np.random.default_rng(seed)
    vocab = len(vocabulary(shape.architecture))
    query, shared = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim

    def matrix(rows: int, columns: int) -> np.ndarray:
        return (rng.standard_normal((rows, columns)) / np.sqrt(columns)).astype(np.float32)

    def norm(width: int) -> np.ndarray:
        return (1 + 0.2 * rng.standard_normal(width)).astype(np.float32)

    out = {"token_embd.weight": matrix(vocab, shape.width), "output_norm.weight": norm(shape.width)}
    if not shape.tied:
        out["output.weight"] = matrix(vocab, shape.width)
    if shape.factors:
        out["rope_freqs.weight"] = rng.uniform(1, 8, shape.head_dim // 2).astype(np.float32)
    rows = {"attn_q": query, "attn_k": shared, "attn_v": shared, "ffn_gate": shape.ffn, "ffn_up": shape.ffn}
    for layer in range(shape.layers):
        at = f"blk.{layer}."
        for name, count in rows.items():
            out[f"{at}{name}.weight"] = matrix(count, shape.width)
            if shape.bias and name.startswith("attn"):
                out[f"{at}{name}.bias"] = matrix(count, 1)[:, 0]
        out[f"{at}attn_output.weight"] = matrix(shape.width, query)
        out[f"{at}ffn_down.weight"] = matrix(shape.width, shape.ffn)
        norms = {"attn_norm": shape.width, "ffn_norm": shape.width}
        if shape.architecture == "gemma3":
            norms |= {"post_attention_norm": shape.width, "post_ffw_norm": shape.width}
            norms |= {"attn_q_norm": shape.head_dim, "attn_k_norm": shape.head_dim}
        for name, width in norms.items():
            out[f"{at}{name}.weight"] = norm(width)
    for name, size in shape.extra.items():
        out[name] = rng.standard_normal(size).astype(np.float32)
    return out


def write(path: Path, shape: Shape, tensors: dict[str, np.ndarray] | None = None) -> Path:
    """The model as a GGUF file, with a tokenizer."""
    writer = gguf.GGUFWriter(path, shape.architecture)
    writer.add_name("Tiny")
    writer.add_block_count(shape.layers)
    writer.add_context_length(shape.context)
    writer.add_embedding_length(shape.width)
    writer.add_feed_forward_length(shape.ffn)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_key_length(shape.head_dim)
    writer.add_value_length(shape.head_dim)
    writer.add_layer_norm_rms_eps(shape.eps)
    writer.add_rope_freq_base(shape.base)
    writer.add_rope_dimension_count(shape.head_dim)
    if shape.rope_scale != 1:
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(shape.rope_scale)
    if shape.window:
        writer.add_sliding_window(shape.window)
    _write_tokenizer(writer, shape.architecture)
    for name, tensor in (weights(shape) if tensors is None else tensors).items():
        writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _write_tokenizer(writer: gguf.GGUFWriter, architecture: str) -> None:
    tokens = vocabulary(architecture)
    control, normal, byte = (
        int(kind) for kind in (gguf.TokenType.CONTROL, gguf.TokenType.NORMAL, gguf.TokenType.BYTE)
    )
    writer.add_token_list(tokens)
    if architecture == "llama":
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre("smollm")
        writer.add_token_types([control] * 3 + [normal] * 257)
        writer.add_token_merges(["Ġ Ġ"])
        writer.add_bos_token_id(1)
        writer.add_eos_token_id(2)
        writer.add_add_bos_token(False)
        writer.add_chat_template(
            "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
            "{% endfor %}"
            "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
        )
    else:
        writer.add_tokenizer_model("llama")
        writer.add_token_scores([0.0] * 260 + [-float(index) for index in range(len(tokens) - 260)])
        writer.add_token_types([control] * 4 + [byte] * 256 + [normal] * (len(tokens) - 260))
        writer.add_bos_token_id(2)
        writer.add_eos_token_id(1)
        writer.add_unk_token_id(3)
        writer.add_add_bos_token(True)
        writer.add_add_space_prefix(False)


def forward(shape: Shape, tensors: dict[str, np.ndarray], ids: list[int]) -> np.ndarray:
    """(n,) tokens -> (n, vocabulary) logits, in float64 and loops: nothing shared with the engine."""
    w = {name: tensor.astype(np.float64) for name, tensor in tensors.items()}
    gemma = shape.architecture == "gemma3"
    x = w["token_embd.weight"][ids] * (np.sqrt(shape.width) if gemma else 1)
    for layer in range(shape.layers):
        at = f"blk.{layer}."
        local = gemma and (layer + 1) % 6 != 0
        mixed = _attention(shape, w, at, _norm(x, w[f"{at}attn_norm.weight"], shape.eps), local)
        x = x + (_norm(mixed, w[f"{at}post_attention_norm.weight"], shape.eps) if gemma else mixed)
        inner = _norm(x, w[f"{at}ffn_norm.weight"], shape.eps)
        gate, up = inner @ w[f"{at}ffn_gate.weight"].T, inner @ w[f"{at}ffn_up.weight"].T
        thought = (_gelu(gate) if gemma else gate / (1 + np.exp(-gate))) * up @ w[f"{at}ffn_down.weight"].T
        x = x + (_norm(thought, w[f"{at}post_ffw_norm.weight"], shape.eps) if gemma else thought)
    return _norm(x, w["output_norm.weight"], shape.eps) @ w.get("output.weight", w["token_embd.weight"]).T


def _norm(x: np.ndarray, weight: np.ndarray, eps: float) -> np.ndarray:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * weight


def _gelu(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def _attention(shape: Shape, w: dict[str, np.ndarray], at: str, x: np.ndarray, local: bool) -> np.ndarray:
    heads = [f"{at}attn_{part}" for part in "qkv"]
    q, k, v = (
        (x @ w[f"{name}.weight"].T + w.get(f"{name}.bias", 0)).reshape(len(x), -1, shape.head_dim)
        for name in heads
    )
    if shape.architecture == "gemma3":
        q = _norm(q, w[f"{at}attn_q_norm.weight"], shape.eps)
        k = _norm(k, w[f"{at}attn_k_norm.weight"], shape.eps)
    factors = w.get("rope_freqs.weight", np.ones(shape.head_dim // 2))
    q, k = (_turn(shape, part, factors, local) for part in (q, k))
    out = np.zeros((len(x), shape.heads, shape.head_dim))
    for position in range(len(x)):
        first = max(0, position - shape.window + 1) if local else 0
        for head in range(shape.heads):
            shared = head // (shape.heads // shape.kv_heads)
            scores = k[first : position + 1, shared] @ q[position, head] / np.sqrt(shape.head_dim)
            chances = np.exp(scores - scores.max())
            out[position, head] = chances / chances.sum() @ v[first : position + 1, shared]
    return out.reshape(len(x), -1) @ w[f"{at}attn_output.weight"].T


def _turn(shape: Shape, x: np.ndarray, factors: np.ndarray, local: bool) -> np.ndarray:
    out, half = np.empty_like(x), shape.head_dim // 2
    for position in range(len(x)):
        for pair in range(half):
            first, second = (
                (pair, pair + half) if shape.architecture == "gemma3" else (2 * pair, 2 * pair + 1)
            )
            base = 10_000.0 if local else shape.base
            angle = position * base ** (-2 * pair / shape.head_dim)
            angle = angle if local else angle / factors[pair] / shape.rope_scale
            a, b = x[position, :, first], x[position, :, second]
            out[position, :, first] = a * np.cos(angle) - b * np.sin(angle)
            out[position, :, second] = a * np.sin(angle) + b * np.cos(angle)
    return out


__all__ = ["GEMMA3", "LLAMA", "Shape", "forward", "replace", "vocabulary", "weights", "write"]
