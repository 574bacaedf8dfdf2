"""Tiny DFlash drafters of random weights: by transformers, in a folder of safetensors, and in GGUF.

And drafters for tests that need to know what is proposed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from torch import Tensor
from transformers import (
    MuseGlimmerAssistantConfig,
    MuseGlimmerAssistantModel,
    MuseGlimmerForConditionalGeneration,
)
from transformers.generation.candidate_generator import DFlashTokenCandidateGenerator

from tests.engine import muse

DRAFT: dict[str, Any] = {
    "hidden_size": muse.TEXT["hidden_size"],
    "intermediate_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "sliding_window": 40,
    "rope_parameters": {"rope_type": "default", "rope_theta": 500_000.0},
    "block_size": 16,
    "mask_token_id": 7,
    "target_layer_ids": [0, 2, 3],
}


def drafter(seed: int = 0, gain: float = 2.0, **changes: Any) -> MuseGlimmerAssistantModel:
    """A drafter in float32 whose weights are spread enough to tell right from wrong.

    What it proposes depends more on what it was told, the higher `gain` is.
    """
    torch.manual_seed(seed)
    made = MuseGlimmerAssistantModel(MuseGlimmerAssistantConfig(**(DRAFT | changes))).float().eval()
    with torch.no_grad():
        for weight in made.parameters():
            if weight.ndim == 1:
                weight.normal_(1, muse.NORM)
            else:
                weight.normal_(0, muse.MATRIX * gain)
    return made


def tensors(made: MuseGlimmerAssistantModel) -> dict[str, np.ndarray]:
    """Its tensors, float32, as a GGUF file names them; nothing is rearranged."""
    parts = {
        "fc": made.encoder.fc,
        "enc.output_norm": made.encoder.output_norm_enc,
        "output_norm": made.norm,
    }
    for index, layer in enumerate(made.layers):
        at, heads = f"blk.{index}.", layer.self_attn
        parts |= {
            f"{at}attn_norm": layer.input_layernorm,
            f"{at}attn_q": heads.q_proj,
            f"{at}attn_k": heads.k_proj,
            f"{at}attn_v": heads.v_proj,
            f"{at}attn_q_norm": heads.q_norm,
            f"{at}attn_k_norm": heads.k_norm,
            f"{at}attn_output": heads.o_proj,
            f"{at}ffn_norm": layer.post_attention_layernorm,
            f"{at}ffn_gate": layer.mlp.gate_proj,
            f"{at}ffn_up": layer.mlp.up_proj,
            f"{at}ffn_down": layer.mlp.down_proj,
        }
    return {f"{name}.weight": module.weight.detach().numpy().copy() for name, module in parts.items()}


def write(
    path: Path,
    made: MuseGlimmerAssistantModel,
    *,
    add_to_targets: int = 1,
    vocab: int | None = muse.TEXT["vocab_size"],
    extra: dict[str, int] | None = None,
    without: Sequence[str] = (),
    architecture: str = "dflash",
) -> Path:
    """A GGUF file. It counts layers by their inputs: `add_to_targets` is 1 in files that are right."""
    of, key = made.config, f"{architecture}."
    writer = gguf.GGUFWriter(path, architecture)
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
        "block_size": of.block_size,
        **(extra or {}),
    }
    for name, size in sizes.items():
        if name not in without:
            writer.add_uint32(key + name, size)
    writer.add_float32(f"{key}attention.layer_norm_rms_epsilon", of.rms_norm_eps)
    writer.add_float32(f"{key}rope.freq_base", of.rope_parameters["rope_theta"])
    local = [kind == "sliding_attention" for kind in of.layer_types]
    writer.add_array(f"{key}attention.sliding_window_pattern", local)
    writer.add_array(f"{key}target_layers", [layer + add_to_targets for layer in of.target_layer_ids])
    writer.add_uint32("tokenizer.ggml.mask_token_id", of.mask_token_id)
    if vocab is not None:
        writer.add_string("tokenizer.ggml.model", "none")
        writer.add_token_list([f"<{token}>" for token in range(vocab)])
    for name, tensor in tensors(made).items():
        writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@dataclass
class Told:
    """A text, and what was proposed on the way: after how many tokens, and which."""

    text: list[int] = field(default_factory=list)
    proposals: list[tuple[int, list[int]]] = field(default_factory=list)


def told_by_transformers(
    made: MuseGlimmerForConditionalGeneration, by: MuseGlimmerAssistantModel, prompt: list[int], count: int
) -> Told:
    """How transformers goes on, greedily, with a drafter."""
    told = Told()

    class Watched(DFlashTokenCandidateGenerator):
        def get_candidates(self, input_ids: Tensor, *args: Any, **kwargs: Any) -> Any:
            found = super().get_candidates(input_ids, *args, **kwargs)
            at = input_ids.shape[1]
            if found[0].shape[1] > at:
                told.proposals.append((at, found[0][0, at:].tolist()))
            return found

    from transformers.generation import utils

    before, utils.DFlashTokenCandidateGenerator = utils.DFlashTokenCandidateGenerator, Watched
    try:
        with torch.no_grad():
            ids = made.generate(
                torch.tensor([prompt]),
                assistant_model=by,
                speculation_type="dflash",
                do_sample=False,
                max_new_tokens=count,
                eos_token_id=None,
                pad_token_id=0,
            )
    finally:
        utils.DFlashTokenCandidateGenerator = before
    told.text = ids[0].tolist()
    return told


class Knowing:
    """A drafter that knows how the text goes on, and is right with a chance of `skill` at each token.

    It reads the model's states only to count tokens.
    """

    layers: tuple[int, ...] = (0,)
    most = 15

    def __init__(self, text: Sequence[int], skill: float = 1.0, seed: int = 0) -> None:
        self.text, self.skill, self.chance = list(text), skill, np.random.default_rng(seed)

    def begin(self, at: int) -> KnowingProposer:
        return KnowingProposer(self, at)


class KnowingProposer:
    """Its proposals for one sequence."""

    bytes = 0

    def __init__(self, of: Knowing, length: int) -> None:
        self.of, self.length = of, length

    def note(self, states: Sequence[Tensor]) -> None:
        self.length += len(states[0])

    def propose(self, token: int, count: int) -> list[int]:
        known = self.of.text[self.length + 1 :][:count]
        known += [0] * (count - len(known))
        is_right = self.of.chance.random(count) < self.of.skill
        return [token if right else token ^ 1 for token, right in zip(known, is_right.tolist(), strict=True)]

    def truncate(self, length: int) -> None:
        self.length = min(self.length, length)

    def copy(self, length: int) -> KnowingProposer:
        return KnowingProposer(self.of, min(self.length, length))
