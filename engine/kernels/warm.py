"""Compiles what the engine may run, once for each processor: made-up models of every kind run a little."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from engine.cache.storage import F16, F32
from engine.kernels import compiled
from engine.kernels.layouts import PACKED

NOTICE = "Preparing for this processor, once: about 25 seconds…"  # measured on two cores
THREADS = 2  # one alone needs no helpers, and so none of their code
ROWS = (40, 3, 2, 1)  # a chunk, proposed tokens, a token
CONTEXT = 512
SIZES = {
    "hidden_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "intermediate_size": 512,
    "vocab_size": 1_000,
    "rms_norm_eps": 1e-6,
    "max_position_embeddings": CONTEXT,
    "rope_theta": 10_000.0,
}
LLAMA: dict[str, Any] = {"model_type": "llama"} | SIZES
GEMMA: dict[str, Any] = {"model_type": "gemma3_text", "sliding_window": 32} | SIZES
# Every format, and every way in which a family differs that kernels see.
KINDS = (*((LLAMA, kind) for kind in PACKED), (GEMMA, "Q4_K+Q6_K"))


@dataclass(frozen=True, slots=True)
class Progress:
    """So many of so many steps are done; the next one is about this."""

    done: int
    total: int
    words: str


def warm(report: Callable[[Progress], None] = lambda _: None) -> None:
    """Compile what isn't yet, if anything. The first step takes longest: formats share most of the code."""
    if compiled.is_ready():
        return
    with TemporaryDirectory(prefix="sidelight-", ignore_cleanup_errors=True) as folder:
        for done, (config, quant) in enumerate(KINDS):
            report(Progress(done, len(KINDS), f"{config['model_type']} in {quant}"))
            _run(config, quant, Path(folder) / f"{done}.gguf")
    compiled.mark_ready()


@torch.inference_mode()
def _run(config: dict[str, Any], quant: str, path: Path) -> None:
    from engine import models
    from engine.runner import Runner
    from engine.weights.gguf import GgufFile
    from engine.weights.json_facts import JsonFacts
    from engine.weights.synth import synthesise

    synthesise(JsonFacts(config, "config.json"), quant, path)
    with GgufFile(path) as file:
        _, model, _ = models.load(file, THREADS, packs=True)
    for storage in (F32, F16):
        runner = Runner(model, CONTEXT, 10**6, storage)
        cache = runner.new_cache()
        for rows in ROWS:
            runner.check(list(range(rows)), cache)
