"""A packed model takes little more memory than its file, also while it is opened."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from engine import kernels
from engine.weights.json_facts import JsonFacts
from engine.weights.synth import synthesise
from tests.engine.weights import configs

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux keeps a process's peak"),
    pytest.mark.skipif(not kernels.can_run(), reason="needs a processor with AVX2"),
]
PROGRAM = 400_000_000  # torch, numba, the vocabulary, scratch space
SHARE = 1.15  # of the file
PEAK = """
import sys
from pathlib import Path
from engine import Done, Engine, Request, Sampling
engine = Engine(Path(sys.argv[1]), context=1_024, threads=2)
*_, last = engine.generate(Request(prompt="the " * 600, sampling=Sampling(temperature=0), max_tokens=8))
assert isinstance(last, Done), last
peak = int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) * 1024
print(peak, engine.memory().kv_cache)
engine.close()
"""
LARGE = configs.LLAMA | {
    "hidden_size": 1_024,
    "num_hidden_layers": 32,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "intermediate_size": 3_584,
    "vocab_size": 32_000,
}


def check(path: Path) -> None:
    command = [sys.executable, "-c", PEAK, str(path)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    peak, kv = map(int, done.stdout.split())
    size = path.stat().st_size
    print(
        f"\n{path.name}: a file of {size / 1e6:.0f} MB, a cache of {kv / 1e6:.0f}, a peak of {peak / 1e6:.0f}"
    )
    assert peak <= SHARE * size + kv + PROGRAM


def test_a_real_model(smollm2: Path) -> None:
    check(smollm2)


def test_a_larger_one(tmp_path: Path) -> None:
    path = tmp_path / "large.gguf"
    assert synthesise(JsonFacts(LARGE, "config.json"), "Q4_K_M", path) > 250_000_000
    check(path)
