"""Muse Glimmer's text half: files that are not as they should be are refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

from engine.api import BadModel
from engine.models import load
from engine.weights.gguf import GgufFile
from engine.weights.muse import configure
from engine.weights.safetensors import SafetensorsFolder
from tests.engine import muse

MADE = muse.model(muse.config({}, {"num_hidden_layers": 1}))
UP = "blk.1.ffn_up.weight"


def open_gguf(path: Path, **options: Any) -> None:
    with GgufFile(muse.write_text(path / "m.gguf", MADE, **options)) as file:
        load(file, threads=1)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({UP: None}, "the tensor blk.1.ffn_up.weight is missing"),
        ({UP: (63, 48)}, "blk.1.ffn_up.weight is 63 x 48 and should be 64 x 48"),
        ({"blk.2.attn_gate.weight": None}, "blk.2.attn_gate.weight is missing"),
        ({"blk.0.attn_gate.weight": (48, 48)}, "blk.0.attn_gate.weight is 48 x 48 and should be 64 x 48"),
        ({"blk.3.attn_q_norm.weight": None}, "blk.3.attn_q_norm.weight is missing"),
        ({"blk.3.attn_k_norm.weight": (8,)}, "blk.3.attn_k_norm.weight is 8 and should be 16"),
        ({"blk.3.post_ffw_norm.weight": None}, "blk.3.post_ffw_norm.weight is missing"),
        ({"output.weight": None}, "output.weight is missing"),
        ({"blk.1.attn_sinks.weight": (4,)}, "blk.1.attn_sinks.weight, which Sidelight doesn't know how to"),
    ],
)
def test_tensors_that_do_not_fit_are_named(
    change: dict[str, tuple[int, ...] | None], words: str, tmp_path: Path
) -> None:
    changed = {name: np.ones(size, np.float32) for name, size in change.items() if size is not None}
    kept = {name: tensor for name, tensor in muse.text_tensors(MADE).items() if name not in change}
    with pytest.raises(BadModel, match=words):
        open_gguf(tmp_path, tensors=kept | changed)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_scale_that_is_no_number_is_named_by_its_tensor(value: float, tmp_path: Path) -> None:
    raw = gguf.quants.quantize(np.ones((48, 64), np.float32), gguf.GGMLQuantizationType.Q8_0)
    raw[5, 0:2] = np.array([value], np.float16).view(np.uint8)
    path = muse.write_text(tmp_path / "m.gguf", MADE, storage=gguf.GGMLQuantizationType.Q8_0)
    data = bytearray(path.read_bytes())
    with GgufFile(path) as file:
        tensor = file.tensor("blk.2.ffn_down.weight")
        assert tensor.type == "Q8_0"
        data[tensor.offset : tensor.offset + tensor.size] = raw.tobytes()
    path.write_bytes(data)
    with (
        GgufFile(path) as file,
        pytest.raises(BadModel, match=r"blk\.2\.ffn_down\.weight holds values that are not numbers"),
    ):
        load(file, threads=1)


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ([True, False], "sliding_window_pattern does not say of each of 4 layers if it is local"),
        (0, "sliding_window_pattern can't be 0"),
    ],
)
def test_a_pattern_for_other_layers_is_refused(pattern: Any, words: str, tmp_path: Path) -> None:
    with pytest.raises(BadModel, match=words):
        open_gguf(tmp_path, pattern=pattern)


def test_the_period_of_the_published_files_makes_every_fourth_layer_global(tmp_path: Path) -> None:
    made = muse.model(muse.config({"num_hidden_layers": 8}, {"num_hidden_layers": 1}))
    with GgufFile(muse.write_text(tmp_path / "m.gguf", made, pattern=4)) as file:
        config = configure(file)
    assert config.local == (True, True, True, False) * 2
    assert config.window == 8
    assert config.end_norm_eps == 1e-8


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return muse.write_folder(tmp_path / "m", MADE)


def edit(folder: Path, **changes: Any) -> None:
    """Change config.json; a value of None takes the key away."""
    path = folder / "config.json"
    config = json.loads(path.read_text())
    for key, value in changes.items():
        at = config if key in config else config["text_config"]
        at[key] = value
        if value is None:
            del at[key]
    path.write_text(json.dumps(config))


def open_folder(folder: Path) -> None:
    with SafetensorsFolder(folder) as opened:
        load(opened, threads=1)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model_type": "gemma9"}, r"'gemma9', which Sidelight can't run yet \(it runs muse_glimmer\)"),
        ({"output_multiplier": None}, "text_config.output_multiplier is missing in config.json"),
        ({"qk_scale_factor": 0}, "text_config.qk_scale_factor can't be 0"),
        ({"final_logit_softcapping": "20"}, "text_config.final_logit_softcapping is not a number"),
        ({"layer_types": ["full_attention"]}, "layer_types does not say of each of 4 layers what it sees"),
        ({"layer_rope_theta": [1, 1, 1, 1]}, "layer_rope_theta gives layers other positions"),
        ({"num_key_value_heads": 3}, "num_key_value_heads can't be 3, which does not divide 4 heads"),
        ({"head_dim": 15}, "head_dim can't be 15, an odd number"),
        ({"hidden_activation": "gelu"}, "hidden_activation is gelu, which Sidelight can't run yet"),
        ({"attention_bias": True}, "it sets text_config.attention_bias"),
        ({"rope_parameters": {"rope_type": "yarn", "rope_theta": 1.0}}, "by the method yarn"),
        ({"hidden_size": 32}, r"embed_tokens.weight is 300 x 48 and should be 300 x 32"),
        ({"intermediate_size": 60}, r"layers.0.mlp.gate_proj.weight is 64 x 48 and should be 60 x 48"),
    ],
)
def test_a_folder_that_says_something_else_is_refused(
    changes: dict[str, Any], words: str, folder: Path
) -> None:
    edit(folder, **changes)
    with pytest.raises(BadModel, match=words):
        open_folder(folder)


def test_what_a_folder_may_leave_out_has_its_usual_value(folder: Path) -> None:
    with SafetensorsFolder(folder) as opened:
        stated = configure(opened)
    edit(folder, layer_types=None, layer_rope_theta=None, post_norm_eps=None)
    with SafetensorsFolder(folder) as opened:
        assert configure(opened) == stated


def test_the_halves_of_a_folder_do_not_trip_over_each_other(folder: Path) -> None:
    with SafetensorsFolder(folder) as opened:
        *_, held = load(opened, threads=1)
        text = [tensor for name, tensor in opened.tensors.items() if "vision" not in name]
        assert held == sum(4 * tensor.elements for tensor in text)
        assert len(text) < len(opened.tensors)
