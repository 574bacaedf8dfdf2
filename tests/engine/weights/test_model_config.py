"""Configurations: those of the real files, and every key missing or made impossible in a written one."""

import numpy as np
import pytest
from gguf import GGUFWriter

from engine import BadModel
from engine.weights.config import Rope, llama
from engine.weights.config import gemma3 as configure_gemma3
from engine.weights.gguf import GgufFile

LLAMA = {
    "block_count": 2,
    "context_length": 128,
    "embedding_length": 64,
    "feed_forward_length": 96,
    "attention.head_count": 4,
    "attention.head_count_kv": 2,
    "attention.layer_norm_rms_epsilon": 1e-5,
    "rope.freq_base": 50_000.0,
}
GEMMA3 = LLAMA | {
    "block_count": 8,
    "attention.key_length": 32,
    "attention.value_length": 32,
    "attention.sliding_window": 16,
}
LACKING = object()


@pytest.fixture
def config_of(tmp_path):
    """Writes a model with these keys changed, and reads its configuration."""

    def read(architecture="llama", tensors=None, tokens=10, **changed):
        path = tmp_path / "model.gguf"
        writer = GGUFWriter(path, architecture)
        keys = (GEMMA3 if architecture == "gemma3" else LLAMA) | {
            name.replace("__", "."): value for name, value in changed.items()
        }
        for name, value in keys.items():
            add(writer, f"{architecture}.{name}", value)
        if tokens:
            writer.add_token_list([f"t{number}" for number in range(tokens)])
        layers = {f"blk.{layer}.attn_norm.weight": (64,) for layer in range(keys["block_count"])}
        for name, shape in ({"token_embd.weight": (10, 64)} | layers | (tensors or {})).items():
            if shape:
                writer.add_tensor(name, np.zeros(shape, np.float32))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        with GgufFile(path) as file:
            return (configure_gemma3 if architecture == "gemma3" else llama)(file)

    return read


def add(writer, name, value):
    match value:
        case bool():
            writer.add_bool(name, value)
        case int():
            writer.add_uint32(name, value)
        case float():
            writer.add_float32(name, value)
        case str():
            writer.add_string(name, value)
        case list():
            writer.add_array(name, value)


def test_smollm2(smollm2):
    with GgufFile(smollm2) as file:
        config = llama(file)
    assert (config.architecture, config.layers, config.width, config.ffn_width) == ("llama", 30, 576, 1_536)
    assert (config.heads, config.kv_heads, config.head_dim, config.attention_scale) == (9, 3, 64, 0.125)
    assert config.rope == Rope(100_000.0, 64) and config.local_rope is None
    assert config.window is None and config.local == (False,) * 30
    assert config.norm_eps == pytest.approx(1e-5) and config.tied
    assert (config.context_length, config.vocab_size) == (8_192, 49_152)


def test_gemma3(gemma3):
    with GgufFile(gemma3) as file:
        config = configure_gemma3(file)
    assert (config.architecture, config.layers, config.width, config.ffn_width) == ("gemma3", 18, 640, 2_048)
    assert (config.heads, config.kv_heads, config.head_dim, config.attention_scale) == (4, 1, 256, 1 / 16)
    assert config.rope == Rope(1_000_000.0, 256) and config.local_rope == Rope(10_000.0, 256)
    assert config.window == 512
    assert [layer for layer, local in enumerate(config.local) if not local] == [5, 11, 17]
    assert (config.attention_softcap, config.final_softcap, config.tied) == (None, None, True)
    assert (config.context_length, config.vocab_size) == (32_768, 262_144)


def test_what_a_file_may_leave_out(config_of):
    config = config_of(attention__head_count_kv=LACKING)
    assert config.kv_heads == 4 and config.head_dim == 16 and config.rope.dimensions == 16


def test_head_width_may_differ_from_width_over_heads(config_of):
    config = config_of(
        attention__key_length=24,
        attention__value_length=24,
        attention__head_count=3,
        attention__head_count_kv=1,
    )
    assert config.head_dim == 24 and config.attention_scale == 24**-0.5


def test_an_output_matrix_of_its_own(config_of):
    assert not config_of(tensors={"output.weight": (10, 64)}).tied


def test_linear_scaling(config_of):
    assert config_of(rope__scaling__type="linear", rope__scaling__factor=4.0).rope.scale == 0.25
    assert config_of(rope__scaling__factor=4.0).rope.scale == 0.25
    assert config_of(rope__scale_linear=8.0).rope.scale == 0.125
    assert config_of(rope__scaling__type="linear", rope__scaling__factor=0.0).rope.scale == 1.0
    assert config_of(rope__scaling__type="none", rope__scaling__factor=4.0).rope.scale == 1.0


def test_scaling_leaves_local_layers_alone(config_of):
    config = config_of("gemma3", rope__scaling__type="linear", rope__scaling__factor=8.0)
    assert config.rope == Rope(50_000.0, 32, 0.125) and config.local_rope == Rope(10_000.0, 32, 1.0)


def test_frequency_factors(config_of):
    assert config_of(tensors={"rope_freqs.weight": (8,)}).rope.factors == "rope_freqs.weight"
    with pytest.raises(BadModel, match=r"rope_freqs\.weight does not hold 8 values"):
        config_of(tensors={"rope_freqs.weight": (16,)})


def test_soft_caps(config_of):
    config = config_of("gemma3", attn_logit_softcapping=50.0, final_logit_softcapping=30.0)
    assert (config.attention_softcap, config.final_softcap) == (50.0, 30.0)
    assert config_of("gemma3", final_logit_softcapping=0.0).final_softcap is None


def test_gemma3_windows(config_of):
    assert config_of("gemma3").local == (True, True, True, True, True, False, True, True)
    assert config_of("gemma3", attention__sliding_window_pattern=2).local == (True, False) * 4
    assert config_of("gemma3", rope__freq_base_swa=5_000.0).local_rope.base == 5_000.0
    plain = config_of("gemma3", attention__sliding_window=0)
    assert plain.window is None and plain.local == (False,) * 8 and plain.local_rope is None


def test_gemma3_27b_alone_scales_by_width_per_head(config_of):
    assert config_of("gemma3", block_count=62).attention_scale == 16**-0.5
    assert config_of("gemma3", block_count=48).attention_scale == 32**-0.5


@pytest.mark.parametrize(
    "key", [key for key in LLAMA if key not in ("block_count", "attention.head_count_kv")]
)
def test_a_missing_key_is_named(config_of, key):
    with pytest.raises(BadModel, match=f"^model.gguf: llama.{key} is missing.$"):
        config_of(**{key: LACKING})


def test_gemma3_must_say_its_window(config_of):
    with pytest.raises(BadModel, match=r"gemma3\.attention\.sliding_window is missing"):
        config_of("gemma3", attention__sliding_window=LACKING)


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"block_count": 0}, "llama.block_count can't be 0"),
        ({"context_length": 0}, "llama.context_length can't be 0"),
        ({"embedding_length": 2**32 - 1}, "llama.embedding_length can't be 4,294,967,295"),
        ({"embedding_length": 128}, "token_embd.weight has the shape .10, 64., not rows of 128"),
        ({"embedding_length": "64"}, "llama.embedding_length is not a whole number"),
        ({"embedding_length": 64.0}, "llama.embedding_length is not a whole number"),
        ({"feed_forward_length": [96, 96]}, "llama.feed_forward_length is not a whole number"),
        ({"attention.head_count": 0}, "llama.attention.head_count can't be 0"),
        (
            {"attention.head_count": 5},
            "llama.attention.head_count can't be 5, which does not divide a width of 64",
        ),
        (
            {"attention.head_count_kv": 3},
            "llama.attention.head_count_kv can't be 3, which does not divide 4 heads",
        ),
        (
            {"attention.head_count_kv": 8},
            "llama.attention.head_count_kv can't be 8, which does not divide 4 heads",
        ),
        ({"attention.key_length": 17}, "its heads are 17 wide, an odd number"),
        ({"attention.key_length": 0}, "llama.attention.key_length can't be 0"),
        ({"attention.value_length": 8}, "its keys .16. and values .8. differ in width"),
        ({"attention.layer_norm_rms_epsilon": 0.0}, "llama.attention.layer_norm_rms_epsilon can't be 0"),
        ({"attention.layer_norm_rms_epsilon": float("nan")}, "layer_norm_rms_epsilon is not a number"),
        ({"rope.freq_base": -1.0}, "llama.rope.freq_base can't be -1"),
        ({"rope.freq_base": float("inf")}, "llama.rope.freq_base is not a number"),
        ({"rope.freq_base": True}, "llama.rope.freq_base is not a number"),
        ({"rope.dimension_count": 8}, "it turns 8 of 16 dimensions of a head"),
        (
            {"rope.scaling.type": "yarn"},
            "it stretches positions by the method yarn, which Sidelight can't run yet",
        ),
        ({"rope.scaling.type": "longrope"}, "it stretches positions by the method longrope"),
        ({"rope.scaling.factor": -2.0}, "llama.rope.scaling.factor can't be -2"),
        ({"rope.scaling.factor": 1e-38}, "llama.rope.scaling.factor can't be 1e-38"),
        ({"expert_count": 8}, "it sets llama.expert_count, which Sidelight can't run yet"),
        (
            {"attention.sliding_window": 4_096},
            "it sets llama.attention.sliding_window, which Sidelight can't run yet",
        ),
        ({"attention.clamp_kqv": 8.0}, "it sets llama.attention.clamp_kqv, which Sidelight can't run yet"),
        ({"attention.causal": False}, "it reads texts in both directions, which Sidelight can't run yet"),
        ({"tokens": 11}, "tokenizer.ggml.tokens does not hold 10 tokens, as token_embd.weight does"),
        ({"tokens": 0}, "tokenizer.ggml.tokens is missing"),
        ({"tensors": {"token_embd.weight": None}}, "the tensor token_embd.weight is missing"),
        ({"tensors": {"token_embd.weight": (640,)}}, "token_embd.weight has the shape .640,."),
        ({"tensors": {"blk.1.attn_norm.weight": None}}, "the tensor blk.1.attn_norm.weight is missing"),
        ({"tensors": {"blk.2.attn_norm.weight": (64,)}}, "it holds more layers than the 2 it says it has"),
    ],
)
def test_nonsense_and_what_is_not_built_is_named(config_of, changed, problem):
    with pytest.raises(BadModel, match=f"^model.gguf: .*{problem}") as caught:
        config_of(**changed)
    assert str(caught.value).endswith(".")


def test_what_is_set_to_nothing_is_not_refused(config_of):
    assert config_of(expert_count=0, attention__clamp_kqv=0.0, attention__causal=True).layers == 2
