"""Configurations, as `config.json` files have them, small and at full size."""

from __future__ import annotations

from typing import Any

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 256,
    "num_hidden_layers": 3,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "intermediate_size": 512,
    "vocab_size": 1_000,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10_000.0,
    "max_position_embeddings": 1_024,
    "tie_word_embeddings": False,
}
GEMMA3: dict[str, Any] = {
    "model_type": "gemma3_text",
    "hidden_size": 256,
    "num_hidden_layers": 7,
    "num_attention_heads": 4,
    "num_key_value_heads": 1,
    "head_dim": 64,
    "intermediate_size": 512,
    "vocab_size": 1_000,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1_000_000.0,
    "rope_local_base_freq": 10_000.0,
    "max_position_embeddings": 1_024,
    "sliding_window": 32,
    "sliding_window_pattern": 6,
    "query_pre_attn_scalar": 64,
}
MUSE_TEXT: dict[str, Any] = {
    "hidden_size": 256,
    "num_hidden_layers": 8,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "intermediate_size": 768,
    "vocab_size": 6_000,
    "rms_norm_eps": 1e-5,
    "rope_parameters": {"rope_type": "default", "rope_theta": 500_000.0},
    "max_position_embeddings": 4_096,
    "sliding_window": 64,
    "output_multiplier": 1.0,
    "final_logit_softcapping": 20.0,
    "qk_scale_factor": 3.87,
    "post_norm_eps": 1e-8,
    "tie_word_embeddings": False,
}
MUSE_VISION: dict[str, Any] = {
    "hidden_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "patch_size": 14,
    "merge_size": 2,
    "pos_emb_height": 32,
    "pos_emb_width": 32,
    "layer_norm_eps": 1e-5,
}
MUSE: dict[str, Any] = {
    "model_type": "muse_glimmer",
    "text_config": MUSE_TEXT,
    "vision_config": MUSE_VISION,
    "projector_hidden_size": 96,
}
DRAFTER: dict[str, Any] = {
    "model_type": "muse_glimmer_assistant",
    "hidden_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 32,
    "intermediate_size": 768,
    "rms_norm_eps": 1e-5,
    "rope_parameters": {"rope_type": "default", "rope_theta": 500_000.0},
    "max_position_embeddings": 4_096,
    "sliding_window": 64,
    "block_size": 16,
    "mask_token_id": 5_000,
    "target_layer_ids": [1, 3, 6],
}

# The published sizes.
FULL_MUSE: dict[str, Any] = {
    "model_type": "muse_glimmer",
    "projector_hidden_size": 4_096,
    "text_config": MUSE_TEXT
    | {
        "hidden_size": 6_656,
        "num_hidden_layers": 52,
        "num_attention_heads": 32,
        "head_dim": 128,
        "intermediate_size": 19_968,
        "vocab_size": 202_048,
        "max_position_embeddings": 131_072,
        "sliding_window": 2_048,
        "output_multiplier": 0.19611613513818404,
    },
    "vision_config": MUSE_VISION
    | {
        "hidden_size": 1_536,
        "num_hidden_layers": 50,
        "num_attention_heads": 16,
        "intermediate_size": 8_960,
    },
}
FULL_DRAFTER: dict[str, Any] = DRAFTER | {
    "hidden_size": 6_656,
    "num_hidden_layers": 5,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "intermediate_size": 19_968,
    "max_position_embeddings": 131_072,
    "sliding_window": 2_048,
    "mask_token_id": 201_818,
    "target_layer_ids": [1, 13, 25, 37, 49],
}
