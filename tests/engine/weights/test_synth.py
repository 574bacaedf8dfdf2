"""Made-up models: valid, repeatable, of sane values, small in memory; run by the engine and by llama.cpp."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

from engine import BadModel, BadRequest, Done, Engine, Message, Request, Sampling
from engine.quant import dequantise
from engine.text.tokenizer import Tokenizer
from engine.weights.blueprints import draw
from engine.weights.gguf import GgufFile
from engine.weights.json_facts import JsonFacts
from engine.weights.synth import TYPES, Mixture, synthesise
from tests.engine.weights import configs

CONFIGS = {"llama": configs.LLAMA, "gemma3": configs.GEMMA3, "muse": configs.MUSE}


def make(folder: Path, config: dict[str, Any], quant: str = "Q4_K+Q6_K", **options: Any) -> Path:
    path = folder / "made.gguf"
    synthesise(JsonFacts(config, "config.json"), quant, path, **options)
    return path


@pytest.mark.parametrize("quant", TYPES)
def test_values_of_every_type_have_the_wanted_spread(tmp_path: Path, quant: str):
    path = make(tmp_path, configs.LLAMA, quant)
    with GgufFile(path) as file:
        assert file.tensors["blk.0.ffn_up.weight"].type == quant
        for name in ("blk.0.ffn_up", "blk.1.attn_q", "blk.2.ffn_down"):
            values = dequantise(file, f"{name}.weight")
            assert np.isfinite(values).all()
            assert values.std() * values.shape[1] ** 0.5 == pytest.approx(1, rel=0.05)
            assert abs(values.mean()) < 0.03 * values.std()
        gains = dequantise(file, "output_norm.weight")
        assert gains.mean() == pytest.approx(1, abs=0.03)
        assert gains.std() == pytest.approx(0.1, rel=0.2)


@pytest.mark.parametrize("quant", TYPES)
def test_gguf_py_decodes_the_same(tmp_path: Path, quant: str):
    path = make(tmp_path, configs.LLAMA, quant)
    theirs = {tensor.name: tensor for tensor in gguf.GGUFReader(path).tensors}
    with GgufFile(path) as file:
        assert theirs.keys() == file.tensors.keys()
        tensor = theirs["blk.0.attn_v.weight"]
        expected = gguf.dequantize(tensor.data, tensor.tensor_type)
        np.testing.assert_allclose(dequantise(file, tensor.name), expected, rtol=1e-6, atol=1e-7)


def test_a_mixture_gives_more_bits_where_published_files_do(tmp_path: Path):
    with GgufFile(make(tmp_path, configs.MUSE, "Q4_K_M")) as file:
        types = {name: tensor.type for name, tensor in file.tensors.items()}
    assert types["output.weight"] == types["blk.3.attn_v.weight"] == types["blk.3.ffn_down.weight"] == "Q6_K"
    assert types["token_embd.weight"] == types["blk.3.attn_gate.weight"] == "Q4_K"
    assert types["blk.3.attn_norm.weight"] == "F32"
    assert types["blk.2.ffn_down.weight"] == "Q4_K"  # only half of the layers are favoured


def test_rows_that_blocks_do_not_divide_get_another_type(tmp_path: Path):
    narrow = configs.LLAMA | {"hidden_size": 288, "num_attention_heads": 9, "num_key_value_heads": 3}
    with GgufFile(make(tmp_path, narrow)) as file:
        assert file.tensors["blk.0.attn_q.weight"].type == "Q5_0"
        assert file.tensors["blk.2.attn_v.weight"].type == "Q8_0"
        assert file.tensors["blk.2.ffn_down.weight"].type == "Q6_K"


def test_the_seed_decides(tmp_path: Path):
    first = make(tmp_path, configs.LLAMA, seed=1).read_bytes()
    assert make(tmp_path, configs.LLAMA, seed=1).read_bytes() == first
    assert make(tmp_path, configs.LLAMA, seed=2).read_bytes() != first


@pytest.mark.parametrize("name", ["llama", "gemma3", "muse"])
def test_the_engine_runs_it(tmp_path: Path, name: str):
    engine = Engine(make(tmp_path, CONFIGS[name]), threads=1)
    try:
        request = Request(
            messages=(Message("user", "Hello there"),), max_tokens=6, sampling=Sampling(temperature=0)
        )
        *_, last = engine.generate(request)
    finally:
        engine.close()
    assert isinstance(last, Done)
    assert last.usage.generated_tokens >= 1


def test_its_tokenizer_takes_any_text(tmp_path: Path):
    with GgufFile(make(tmp_path, configs.MUSE)) as file:
        tokenizer = Tokenizer.from_gguf(file)
    text = "of the people \0 über 日本 🙂\r\n<|eot|>"
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert tokenizer.find(" the".replace(" ", "Ġ")) in ids  # words are merged, not only bytes
    assert tokenizer.encode("<|eot|>", special=True) == [tokenizer.find("<|eot|>")]


def test_at_full_size_control_tokens_have_their_published_ids():
    from engine.weights.toy_tokenizer import toy_tokenizer

    keys = toy_tokenizer("muse-glimmer", 202_048)
    texts, kinds = keys["tokenizer.ggml.tokens"], keys["tokenizer.ggml.token_type"]
    assert isinstance(texts, list)
    assert isinstance(kinds, np.ndarray)
    assert len(texts) == len(set(texts)) == len(kinds) == 202_048
    known = {200_000: "<|begin_of_text|>", 200_008: "<|eot|>", 200_023: "<|message|>", 200_092: "<|patch|>"}
    assert {token: texts[token] for token in known} == known
    assert keys["tokenizer.ggml.eot_token_id"] == 200_008


def test_the_published_sizes_come_out():
    text = draw(JsonFacts(configs.FULL_MUSE, "c"))
    assert len(text.parts) == 731
    drafter = draw(JsonFacts(configs.FULL_DRAFTER, "c"))
    assert len(drafter.parts) == 58
    shapes = {part.name: part.shape for part in drafter.parts}
    assert shapes["fc.weight"] == (6_656, 33_280)
    assert shapes["blk.4.attn_k.weight"] == (1_024, 6_656)
    assert drafter.metadata["dflash.target_layers"].tolist() == [2, 14, 26, 38, 50]
    vision = draw(JsonFacts(configs.FULL_MUSE, "c"), "clip")
    shapes = {part.name: part.shape for part in vision.parts}
    assert shapes["mm.0.weight"] == (4_096, 6_144)
    assert shapes["v.position_embd.weight"] == (1_024, 1_536)
    assert vision.metadata["clip.vision.image_size"] == 896
    # 29.78 billion parameters are published for all of it
    assert (text.parameters + vision.parameters) / 29.78e9 == pytest.approx(1, abs=0.003)


def test_a_period_is_written_as_published_files_have_it():
    keys = draw(JsonFacts(configs.FULL_MUSE, "c")).metadata
    assert keys["muse-glimmer.attention.sliding_window_pattern"] == 4
    odd = configs.MUSE | {"text_config": configs.MUSE_TEXT | {"num_hidden_layers": 6}}
    pattern = draw(JsonFacts(odd, "c")).metadata["muse-glimmer.attention.sliding_window_pattern"]
    assert pattern.tolist() == [True, False, True, True, True, False]  # counted from the last layer


def test_keys_of_a_gguf_file_are_a_configuration_too(tmp_path: Path):
    blueprint = draw(JsonFacts(configs.MUSE, "c"))
    again = draw(JsonFacts(dict(blueprint.metadata), "c"))
    assert again.parts == blueprint.parts
    assert not any("synth" in key for key in again.metadata)


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        ({"model_type": "bert"}, "a model of the kind 'bert'"),
        (
            {key: value for key, value in configs.LLAMA.items() if key != "hidden_size"},
            "hidden_size is missing",
        ),
        (configs.LLAMA | {"num_hidden_layers": "3"}, "num_hidden_layers is not a whole number"),
        (configs.LLAMA | {"rope_scaling": {"rope_type": "yarn"}}, "by the method yarn"),
        (configs.GEMMA3 | {"query_pre_attn_scalar": 99}, "query_pre_attn_scalar is not 64"),
        (configs.MUSE | {"text_config": configs.MUSE_TEXT | {"post_norm_eps": 1e-5}}, "post_norm_eps is not"),
        (configs.LLAMA | {"num_hidden_layers": 0}, "num_hidden_layers can't be 0"),
    ],
)
def test_what_cannot_be_made_is_refused_by_name(tmp_path: Path, config: dict[str, Any], sentence: str):
    with pytest.raises(BadModel, match=sentence):
        make(tmp_path, config)


def test_an_unknown_type_is_refused_by_name(tmp_path: Path):
    with pytest.raises(BadRequest, match="IQ2_XXS isn't a storage type"):
        Mixture.parse("Q4_K+IQ2_XXS")


def test_a_vocabulary_without_room_for_bytes_is_refused(tmp_path: Path):
    with pytest.raises(BadRequest, match="A vocabulary of 200 tokens is too small"):
        make(tmp_path, configs.LLAMA | {"vocab_size": 200})


PEAK = """
import json, sys
from pathlib import Path
from engine.weights.json_facts import JsonFacts
from engine.weights.synth import synthesise
synthesise(JsonFacts(json.loads(sys.argv[1]), "c"), "Q8_0", Path(sys.argv[2]))
status = Path("/proc/self/status").read_text()
print(int(status.partition("VmHWM:")[2].split()[0]) * 1024)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux keeps this figure")
def test_a_large_file_takes_little_memory(tmp_path: Path):
    large = configs.LLAMA | {"hidden_size": 2_048, "vocab_size": 32_000, "intermediate_size": 8_192}
    path = tmp_path / "large.gguf"
    run = [sys.executable, "-c", PEAK, json.dumps(large | {"num_hidden_layers": 6}), str(path)]
    peak = int(subprocess.run(run, check=True, capture_output=True, text=True).stdout)
    assert path.stat().st_size > 500e6
    assert peak < 300e6


@pytest.mark.peer
@pytest.mark.parametrize("name", ["llama", "gemma3", "muse"])
def test_llama_cpp_loads_it(tmp_path: Path, name: str):
    from llama_cpp import Llama

    path = make(tmp_path, CONFIGS[name])
    model = Llama(str(path), logits_all=True, verbose=False, n_ctx=256, n_threads=1)
    ids = model.tokenize(b"Hello the people", special=True)
    with GgufFile(path) as file:
        assert ids == Tokenizer.from_gguf(file).encode("Hello the people", bos=True)
    model.eval(ids)
    logits = np.array(model.scores[: len(ids)])
    assert np.isfinite(logits).all()
    assert logits.std(-1).min() > 0.5  # spread, or comparing them proves little
