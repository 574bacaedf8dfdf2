"""The planner's figures against the peak memory of a process that runs the engine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from engine.plan import plan_memory
from engine.weights.json_facts import JsonFacts
from engine.weights.synth import synthesise
from tests.engine.weights import configs

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux keeps a process's peak"),
]

PEAK = """
import sys
from pathlib import Path
import torch, engine.engine
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
    # Stored in float32: the file is as large as the weights.
    "plain": (NARROW | {"num_hidden_layers": 24, "vocab_size": 8_000}, "F32", 512),
}  # fmt: skip


def run(*arguments: object) -> int:
    command = [sys.executable, "-c", PEAK, *map(str, arguments)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.fixture(scope="module")
def bare() -> int:
    """The peak of a process that has only imported what it needs."""
    return run()


def check(path: Path, context: int, bare: int) -> None:
    plan = plan_memory(path, budget=64 << 30, place="memory", context=context, reserve=0, turns=0)
    program = next(part.bytes for part in plan.asked.parts if part.name == "program")
    planned = max(plan.asked.needed, plan.loading) - program
    measured = run(path, context) - bare
    print(f"{path.name}: planned {planned / 1e6:.1f} MB, measured {measured / 1e6:.1f} MB")
    assert planned == pytest.approx(measured, rel=0.03)


@pytest.mark.parametrize("name", MODELS)
def test_the_peak_of_made_up_models_is_as_planned(tmp_path: Path, name: str, bare: int):
    config, quant, context = MODELS[name]
    path = tmp_path / f"{name}.gguf"
    synthesise(JsonFacts(config, "config.json"), quant, path)
    check(path, context, bare)


def test_the_peak_of_a_real_model_is_as_planned(smollm2: Path, bare: int):
    check(smollm2, 512, bare)
