"""What keys and values in fewer bits cost a real model (pytest -s shows the figures)."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine import BadRequest, Done, Engine, Request, Sampling
from engine.cache.storage import BF16, F32, Q8
from engine.models import load
from engine.runner import Runner
from engine.text.tokenizer import Tokenizer
from engine.weights.gguf import GgufFile
from tests.engine import tiny
from tests.engine.peer_texts import texts

TOKENS = 620  # more than a window


def test_a_real_model_hardly_notices(gemma3: Path) -> None:
    with GgufFile(gemma3) as file:
        ids = Tokenizer.from_gguf(file).encode(next(iter(texts().values())), bos=True)[:TOKENS]
        _, model, _ = load(file, threads=2, packs=False)
    assert len(ids) == TOKENS
    wanted = Runner(model, 1_024, 10**8, F32).logits(ids).log_softmax(-1)
    for storage, most in ((BF16, 1e-3), (Q8, 2e-3)):
        found = Runner(model, 1_024, 10**8, storage).logits(ids).log_softmax(-1)
        divergence = (wanted.exp() * (wanted - found)).sum(-1)
        print(f"\n{storage.name}: KL mean {divergence.mean():.1e}, worst {divergence.max():.1e}")
        assert 0 < divergence.mean() < most


@pytest.mark.parametrize(("kv", "part"), [("f32", 1.0), ("bf16", 1 / 2), ("q8", 18 / 64)])
def test_the_engine_keeps_them_as_it_is_told(kv: str, part: float, tmp_path: Path) -> None:
    path = tiny.write(tmp_path / "m.gguf", tiny.LLAMA)
    engine = Engine(path, threads=1, kv=kv)
    events = list(engine.generate(Request(prompt="abc", max_tokens=20, sampling=Sampling(temperature=0))))
    assert isinstance(events[-1], Done)
    assert engine.memory().kv_cache == part * tiny.LLAMA.layers * 2 * 3 * 16 * 4 * 256
    engine.close()


def test_another_way_to_keep_them_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="can't be kept as q2; it can be one of f32, f16, bf16, q8"):
        Engine(tiny.write(tmp_path / "m.gguf", tiny.LLAMA), kv="q2")
