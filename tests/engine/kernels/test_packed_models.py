"""Whole models whose matrices stay as they are stored: nearly what decoded weights say, in less memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from engine import kernels
from engine.api import BadModel
from engine.cache.storage import F16
from engine.models import load
from engine.runner import Runner
from engine.text.tokenizer import Tokenizer
from engine.weights.gguf import GgufFile
from engine.weights.json_facts import JsonFacts
from engine.weights.synth import synthesise
from tests.engine.peer_texts import texts
from tests.engine.weights import configs

pytestmark = pytest.mark.skipif(not kernels.can_run(), reason="needs a processor with AVX2")
TOKENS = 200
CLEAR = 1.0  # the lead of a first choice that no rounding turns


@torch.inference_mode()
def check(path: Path, ids: list[int], most: float) -> tuple[torch.Tensor, torch.Tensor]:
    with GgufFile(path) as file:
        _, decoded, plain_bytes = load(file, 2, packs=False)
        _, packed, packed_bytes = load(file, 2)
    assert packed_bytes < 0.45 * plain_bytes
    wanted = Runner(decoded, 1_024, 10**8).logits(ids).log_softmax(-1)
    found = Runner(packed, 1_024, 10**8, F16).logits(ids).log_softmax(-1)
    divergence = (wanted.exp() * (wanted - found)).sum(-1).mean()
    print(f"\n{path.name}: KL {divergence:.1e}")
    assert 0 < divergence < most
    return wanted, found


@pytest.mark.parametrize("name", ["smollm2", "gemma3"])
def test_a_real_model_says_nearly_the_same(name: str, request: pytest.FixtureRequest) -> None:
    path = request.getfixturevalue(name)
    with GgufFile(path) as file:
        ids = Tokenizer.from_gguf(file).encode(next(iter(texts().values())), bos=True)[:TOKENS]
    wanted, found = check(path, ids, 0.02)
    first, second = wanted.topk(2).values.T
    is_clear = first - second > CLEAR
    assert torch.equal(wanted.argmax(-1)[is_clear], found.argmax(-1)[is_clear])


@pytest.mark.parametrize(
    ("name", "quant", "most"),
    [
        ("llama", "Q4_K_M", 0.02),
        ("gemma3", "Q5_K+Q6_K", 0.02),
        ("muse", "Q8_0", 0.1),
        ("muse", "Q4_K_M", 0.3),
    ],
)
def test_made_up_models_too(name: str, quant: str, most: float, tmp_path: Path) -> None:
    """Gated layers of random weights amplify every rounding: their first tokens agree as the others' do."""
    config = {"llama": configs.LLAMA, "gemma3": configs.GEMMA3, "muse": configs.MUSE}[name]
    path = tmp_path / "m.gguf"
    synthesise(JsonFacts(config, "config.json"), quant, path)
    check(path, np.random.default_rng(1).integers(10, 900, TOKENS).tolist(), most)


@torch.inference_mode()
def test_a_token_is_the_same_to_the_bit_whatever_others_are_checked_with_it(smollm2: Path) -> None:
    with GgufFile(smollm2) as file:
        runner = Runner(load(file, 2, packs=True)[1], 512, 10**8)
    ids = list(range(1_000, 1_040))
    together, alone = runner.new_cache(), runner.new_cache()
    runner.forward(ids[:30], together)
    runner.forward(ids[:30], alone)
    rows = runner.check(ids[30:], together).rows
    for row, token in zip(rows, ids[30:], strict=True):
        one = runner.forward([token], alone)
        assert one is not None and torch.equal(row, one)


def test_a_scale_that_is_no_number_is_refused_by_its_tensor(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    synthesise(JsonFacts(configs.LLAMA, "config.json"), "Q8_0", path)
    with GgufFile(path) as file:
        at = file.tensor("blk.1.ffn_down.weight").offset
    with path.open("r+b") as file:
        file.seek(at)
        file.write(np.float16("nan").tobytes())
    with GgufFile(path) as file, pytest.raises(BadModel, match=r"blk\.1\.ffn_down\.weight holds values that"):
        load(file, 1, packs=True)
