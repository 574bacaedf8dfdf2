"""Tiny Muse Glimmer models of random weights: by transformers, in a folder of safetensors, and in GGUF."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from transformers import MuseGlimmerConfig, MuseGlimmerForConditionalGeneration
from transformers.utils import logging

MATRIX, NORM = 0.08, 0.1  # deviations of the weights: with the usual 0.02 every output is almost the same

TEXT: dict[str, Any] = {
    "vocab_size": 300,
    "hidden_size": 48,
    "intermediate_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "sliding_window": 8,
    "rope_parameters": {"rope_type": "default", "rope_theta": 500_000.0},
    "bos_token_id": 0,
    "eos_token_id": 1,
}
VISION: dict[str, Any] = {
    "patch_size": 14,
    "pos_emb_height": 8,
    "pos_emb_width": 8,
    "max_position_embeddings": 64,
    "num_attention_heads": 4,
    "num_hidden_layers": 6,
    "hidden_size": 64,
    "intermediate_size": 96,
}
ADAPTER = 40


def config(text: dict[str, Any] | None = None, vision: dict[str, Any] | None = None) -> MuseGlimmerConfig:
    """A tiny configuration, with changes."""
    of_vision = VISION | (vision or {})
    return MuseGlimmerConfig(
        text_config=TEXT | (text or {}),
        vision_config=of_vision,
        out_hidden_size=of_vision["hidden_size"] * of_vision.get("merge_size", 2) ** 2,
        projector_hidden_size=ADAPTER,
    )


def model(config: MuseGlimmerConfig, seed: int = 0) -> MuseGlimmerForConditionalGeneration:
    """A model in float32 whose weights are spread enough to tell right from wrong."""
    torch.manual_seed(seed)
    made = MuseGlimmerForConditionalGeneration(config).float().eval()
    with torch.no_grad():
        for name, weight in made.named_parameters():
            plain = name.endswith(
                ("norm.weight", "ln_pre.weight", "ln_post.weight", "norm1.weight", "norm2.weight")
            )
            centred = weight.ndim == 1 and plain and not _is_one_off(name)
            weight.normal_(float(centred), NORM if weight.ndim == 1 else MATRIX)
    return made


def _is_one_off(name: str) -> bool:
    """Whether a norm's weight is stored less one: those of the text model's layers."""
    return "language_model.layers." in name


def write_folder(folder: Path, made: MuseGlimmerForConditionalGeneration, **options: Any) -> Path:
    """The model as a folder of safetensors; options are `save_pretrained`'s."""
    logging.disable_progress_bar()
    made.save_pretrained(folder, **options)
    return folder


def vision_tensors(made: MuseGlimmerForConditionalGeneration) -> dict[str, np.ndarray]:
    """The vision half's tensors, float32, as an mmproj file names and arranges them."""
    tower, of = made.model.vision_tower, made.config.vision_config
    patch, frames = of.patch_size, of.patch_temporal
    stem = tower.patch_embedder
    films = stem.patch_embedding.weight.view(of.hidden_size, frames, 3, patch, patch)
    parts = {
        "v.patch_embd.weight": films.sum(1),
        "v.position_embd.weight": stem.position_embedding_table.weight,
        "mm.0.weight": made.model.vision_adapter.fc1.weight,
        "mm.1.weight": made.model.vision_adapter.fc2.weight,
        "mm.2.weight": made.model.vision_projection.weight,
    }
    modules = {"v.pre_ln": tower.ln_pre, "v.post_ln": tower.ln_post}
    for index, layer in enumerate(tower.layers):
        at = f"v.blk.{index}."
        modules |= {f"{at}ln1": layer.norm1, f"{at}ln2": layer.norm2, f"{at}attn_q": layer.attn.q_proj}
        modules |= {f"{at}attn_k": layer.attn.k_proj, f"{at}attn_v": layer.attn.v_proj}
        modules |= {
            f"{at}attn_out": layer.attn.proj,
            f"{at}ffn_up": layer.mlp.fc1,
            f"{at}ffn_down": layer.mlp.fc2,
        }
    for name, module in modules.items():
        for kind in ("weight", "bias"):
            tensor = getattr(module, kind)
            turns = name.endswith(("attn_q", "attn_k"))
            parts[f"{name}.{kind}"] = interleaved(tensor, of.num_attention_heads) if turns else tensor
    return {name: tensor.detach().numpy().copy() for name, tensor in parts.items()}


def interleaved(rows: torch.Tensor, heads: int) -> torch.Tensor:
    """Rows of query or key weights in pairs of neighbours, from pairs that lie half a head apart."""
    return rows.reshape(heads, 2, -1, *rows.shape[1:]).transpose(1, 2).reshape(rows.shape)


def write_mmproj(
    path: Path,
    made: MuseGlimmerForConditionalGeneration,
    *,
    tensors: dict[str, np.ndarray] | None = None,
    storage: gguf.GGMLQuantizationType = gguf.GGMLQuantizationType.F32,
    projector: str = "muse-glimmer",
) -> Path:
    """The vision half as an mmproj file; `storage` is that of the matrices, where their rows allow it."""
    of = made.config.vision_config
    writer = gguf.GGUFWriter(path, "clip")
    writer.add_bool("clip.has_vision_encoder", True)
    writer.add_string("clip.projector_type", projector)
    sizes = {
        "block_count": of.num_hidden_layers,
        "embedding_length": of.hidden_size,
        "feed_forward_length": of.intermediate_size,
        "attention.head_count": of.num_attention_heads,
        "patch_size": of.patch_size,
        "image_size": of.pos_emb_height * of.patch_size * of.merge_size,
        "spatial_merge_size": of.merge_size,
        "projection_dim": made.config.text_config.hidden_size,
    }
    for key, value in sizes.items():
        writer.add_uint32(f"clip.vision.{key}", value)
    writer.add_float32("clip.vision.attention.layer_norm_epsilon", of.layer_norm_eps)
    writer.add_array("clip.vision.image_mean", [0.5, 0.5, 0.5])
    writer.add_array("clip.vision.image_std", [0.5, 0.5, 0.5])
    for name, tensor in (vision_tensors(made) if tensors is None else tensors).items():
        add(writer, name, tensor, storage)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def text_tensors(made: MuseGlimmerForConditionalGeneration, fused: bool = False) -> dict[str, np.ndarray]:
    """The text half's tensors, float32, as a GGUF file names and arranges them."""
    text, of = made.model.language_model, made.config.text_config
    parts = {
        "token_embd": text.embed_tokens.weight,
        "output_norm": text.norm.weight,
        "output": made.lm_head.weight,
    }
    for index, layer in enumerate(text.layers):
        at, heads = f"blk.{index}.", layer.self_attn
        parts |= {
            f"{at}attn_norm": 1 + layer.input_layernorm.weight,
            f"{at}attn_q": interleaved(heads.q_proj.weight, of.num_attention_heads),
            f"{at}attn_k": interleaved(heads.k_proj.weight, of.num_key_value_heads),
            f"{at}attn_v": heads.v_proj.weight,
            f"{at}attn_gate": heads.gate_proj.weight,
            f"{at}attn_q_norm": torch.full((of.head_dim,), of.qk_scale_factor),
            f"{at}attn_k_norm": torch.ones(of.head_dim),
            f"{at}attn_output": heads.o_proj.weight,
            f"{at}post_attention_norm": 1 + layer.post_attention_layernorm.weight,
            f"{at}ffn_norm": 1 + layer.pre_feedforward_layernorm.weight,
            f"{at}ffn_gate": layer.mlp.gate_proj.weight,
            f"{at}ffn_up": layer.mlp.up_proj.weight,
            f"{at}ffn_down": layer.mlp.down_proj.weight,
            f"{at}post_ffw_norm": 1 + layer.post_feedforward_layernorm.weight,
        }
        if fused:
            parts[f"{at}attn_qkv"] = torch.cat([parts.pop(f"{at}attn_{part}") for part in "qkv"])
    return {f"{name}.weight": tensor.detach().numpy().copy() for name, tensor in parts.items()}


def write_text(
    path: Path,
    made: MuseGlimmerForConditionalGeneration,
    *,
    tensors: dict[str, np.ndarray] | None = None,
    storage: gguf.GGMLQuantizationType = gguf.GGMLQuantizationType.F32,
    pattern: int | list[bool] | None = None,
    fused: bool = False,
    local_base: float | None = None,
) -> Path:
    """The text half as a GGUF file, its tokens without texts; `storage` as in `write_mmproj`.

    `pattern`: which layers are local, as the file states it; by default a list of what is true.
    """
    of, key = made.config.text_config, "muse-glimmer."
    writer = gguf.GGUFWriter(path, "muse-glimmer")
    sizes = {
        "block_count": of.num_hidden_layers,
        "context_length": of.max_position_embeddings,
        "embedding_length": of.hidden_size,
        "feed_forward_length": of.intermediate_size,
        "attention.head_count": of.num_attention_heads,
        "attention.head_count_kv": of.num_key_value_heads,
        "attention.key_length": of.head_dim,
        "attention.value_length": of.head_dim,
        "attention.sliding_window": of.sliding_window,
        "vocab_size": of.vocab_size,
    }
    for name, size in sizes.items():
        writer.add_uint32(key + name, size)
    constants = {
        "attention.layer_norm_rms_epsilon": of.rms_norm_eps,
        "rope.freq_base": of.rope_parameters["rope_theta"],
        "rope.freq_base_swa": local_base,
        "logit_scale": of.output_multiplier,
        "final_logit_softcapping": of.final_logit_softcapping,
    }
    for name, constant in constants.items():
        if constant is not None:
            writer.add_float32(key + name, constant)
    if isinstance(pattern, int):
        writer.add_uint32(f"{key}attention.sliding_window_pattern", pattern)
    else:
        true = [kind == "sliding_attention" for kind in of.layer_types]
        writer.add_array(f"{key}attention.sliding_window_pattern", true if pattern is None else pattern)
    writer.add_string("tokenizer.ggml.model", "none")
    writer.add_token_list([f"<{token}>" for token in range(of.vocab_size)])
    for name, tensor in (text_tensors(made, fused) if tensors is None else tensors).items():
        add(writer, name, tensor, storage)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def add(writer: gguf.GGUFWriter, name: str, tensor: np.ndarray, storage: gguf.GGMLQuantizationType) -> None:
    """One tensor, stored as told if it is a matrix whose rows fill whole blocks; else as it is."""
    block = gguf.GGML_QUANT_SIZES[storage][0]
    if tensor.dtype != np.float32 or tensor.ndim != 2 or tensor.shape[-1] % block:
        writer.add_tensor(name, tensor)
    else:
        writer.add_tensor(name, gguf.quants.quantize(tensor, storage), raw_dtype=storage)
