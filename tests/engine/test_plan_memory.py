"""The planner's figures against the peak memory of a process that runs the engine."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from engine.cache.kv import Kv, KvShape
from engine.cache.storage import BF16
from engine.models import configure
from engine.plan import plan_memory
from engine.planning.footprint import Kind, attention_activations
from engine.weights.blueprints import draw
from engine.weights.config import Config
from engine.weights.gguf import GgufFile
from engine.weights.json_facts import JsonFacts
from engine.weights.sketch import Sketch
from engine.weights.synth import Mixture, synthesise
from tests.engine.weights import configs

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux keeps a process's peak"),
]

PEAK = """
import sys
from pathlib import Path
import torch, engine.engine
from engine import kernels
kernels.can_run()
from engine import Done, Request, Sampling
if len(sys.argv) > 1:
    path, context = Path(sys.argv[1]), int(sys.argv[2])
    model = engine.engine.Engine(path, context=context, threads=2)
    text = "the " * context
    while (extra := model.measure(Request(prompt=text)) - (context - 2)) > 0:
        text = text[: -4 * max(1, extra // 4)]
    *_, last = model.generate(Request(prompt=text, sampling=Sampling(temperature=0)))
    assert isinstance(last, Done) and last.usage.prompt_tokens > context - 20, last
    model.close()
print(int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) * 1024)
"""
ATTENTION = """
import sys
from pathlib import Path
import torch
from engine.cache.kv import Kv, KvShape
from engine.cache.storage import STORAGES
from engine.layers.attend import attend
from engine.layers.span import Span

context, count, kind = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]

def held(key):
    return int(Path("/proc/self/status").read_text().partition(key)[2].split()[0]) * 1024

def cache(limit):
    kv = Kv(KvShape(1, 2, 64), limit, STORAGES[kind.upper()])
    kv.reserve(limit)
    while kv.length < limit - count:
        x = torch.randn(min(1_024, limit - count - kv.length), 2, 64)
        kv.append(0, x, x)
        kv.advance(len(x))
    x = torch.randn(count, 2, 64)
    kv.append(0, x, x)
    return kv

def pay(kv):
    attend(torch.randn(count, 16, 64), kv, 0, Span(kv.length, count), None, None)

with torch.inference_mode():
    pay(cache(512))  # what the first product ever takes is not the cache's doing
    kv = cache(context)
    before = held("VmRSS:")
    Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here
    pay(kv)
    print(held("VmHWM:") - before)
"""
BLAS = 24_000_000  # room of the BLAS, measured: 4 MB with AVX2, up to 21 MB with AVX-512
NARROW = configs.LLAMA | {"hidden_size": 512, "num_attention_heads": 8, "intermediate_size": 1_536}
GEMMA = configs.GEMMA3 | {"hidden_size": 512, "head_dim": 128, "query_pre_attn_scalar": 128}
MODELS: dict[str, tuple[dict[str, Any], str, int]] = {
    # Keys and values make up a third.
    "cache": (
        NARROW | {"num_hidden_layers": 16, "num_key_value_heads": 8, "max_position_embeddings": 2_048},
        "Q8_0",
        2_048,
    ),
    # Most layers keep a window only.
    "local": (
        GEMMA | {"num_hidden_layers": 18, "intermediate_size": 3_072, "vocab_size": 20_000}
        | {"num_key_value_heads": 4, "sliding_window": 256, "max_position_embeddings": 2_048},
        "Q4_K_M",
        1_536,
    ),
    # A large vocabulary.
    "words": (NARROW | {"vocab_size": 100_000, "tie_word_embeddings": True}, "F16", 512),
    # Gates, two kinds of layers, fewer heads for keys.
    "muse": (
        {"model_type": "muse_glimmer"}
        | configs.MUSE_TEXT
        | {"hidden_size": 768, "num_attention_heads": 12, "head_dim": 64, "intermediate_size": 2_304}
        | {"num_hidden_layers": 12, "vocab_size": 16_000, "sliding_window": 256},
        "Q4_K_M",
        1_024,
    ),
    # Stored in float32: the file is as large as the weights.
    "plain": (NARROW | {"num_hidden_layers": 24, "vocab_size": 8_000}, "F32", 512),
}  # fmt: skip


def run(*arguments: object) -> int:
    command = [sys.executable, "-c", *map(str, arguments)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.fixture(scope="module")
def bare() -> int:
    """The peak of a process that has only imported what it needs."""
    return run(PEAK)


def check(path: Path, context: int, bare: int) -> None:
    plan = plan_memory(path, budget=64 << 30, place="memory", context=context, reserve=0, turns=0)
    program = next(part.bytes for part in plan.asked.parts if part.name == "program")
    planned = max(plan.asked.needed, plan.loading) - program
    measured = run(PEAK, path, context) - bare
    rows = [f"{part.name} {part.bytes / 1e6:.1f}" for part in plan.asked.parts if part.bytes]
    print(", ".join(rows), f"loading {plan.loading / 1e6:.1f}")
    print(f"{path.name}: planned {planned / 1e6:.1f} MB, measured {measured / 1e6:.1f} MB")
    assert planned == pytest.approx(measured, rel=0.04)


@pytest.mark.parametrize("name", MODELS)
def test_the_peak_of_made_up_models_is_as_planned(tmp_path: Path, name: str, bare: int):
    config, quant, context = MODELS[name]
    path = tmp_path / f"{name}.gguf"
    synthesise(JsonFacts(config, "config.json"), quant, path)
    check(path, context, bare)


def test_the_peak_of_a_real_model_is_as_planned(smollm2: Path, bare: int):
    check(smollm2, 512, bare)


@pytest.mark.parametrize(
    ("context", "tokens", "kind"),
    [
        (8_192, 256, "f32"),
        (32_768, 256, "f32"),
        (32_768, 256, "bf16"),
        (32_768, 256, "q8"),
        (65_536, 64, "f32"),
    ],
)
def test_attention_over_a_long_cache_takes_what_is_planned(context: int, tokens: int, kind: Kind):
    config = replace(read_config(), heads=16, kv_heads=2, head_dim=64)
    planned = attention_activations(config, kind, tokens, context)
    measured = run(ATTENTION, context, tokens, kind)
    print(f"{context} {tokens} {kind}: planned {planned / 1e6:.1f} MB, measured {measured / 1e6:.1f} MB")
    own = 4 * 4 * tokens * 16 * 64  # queries and what they find, which are counted elsewhere
    assert planned * 0.95 <= measured <= planned * 1.1 + own + BLAS


def read_config() -> Config:
    """A decoder in which every layer sees everything."""
    sketch = Sketch(Path("c"), draw(JsonFacts(configs.LLAMA, "c")), Mixture.parse("F32"))
    return configure(cast(GgufFile, sketch))


def test_a_context_of_128k_tokens_is_held_in_what_is_planned(tmp_path: Path):
    path = tmp_path / "muse.json"
    path.write_text(json.dumps(configs.FULL_MUSE))
    plan = plan_memory(path, budget=64 << 30, place="memory", kv="bf16", quant="Q4_K_M")
    planned = sum(part.bytes for part in plan.asked.parts if part.name in ("kv_global", "kv_local"))
    local = tuple(layer % 4 < 3 for layer in range(52))
    cache = Kv(KvShape(52, 2, 128, 2_048, local), 131_072, BF16)
    cache.reserve(131_072)
    for lane in cache._lanes:  # untouched, memory is only promised
        for part in lane._parts:
            part.zero_()
    assert cache.bytes == pytest.approx(planned, rel=0.01)
    assert cache.bytes / (1 << 30) == pytest.approx(1.7, abs=0.03)
