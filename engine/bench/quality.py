"""How well an engine predicts a text: perplexity, and how far it is from floats all the way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from engine.bench.measures import Plan
from engine.bench.worker import NAMES, Side, Worker

TOKENS = 4_096  # that are predicted
STEP = 64  # tokens rated at a time
REFERENCE = "float32"


def quality(
    file: Path, tokens: Sequence[int], context: int, threads: int, sides: Sequence[Side]
) -> dict[str, Any]:
    """Perplexities over the text's first tokens, and Kullback-Leibler divergences from our float path.

    Each token is predicted from all before it; a text longer than the model's context is cut to it.
    """
    import torch

    from engine.bench.ours import OurStepper
    from engine.loaded import load

    ids = list(tokens[: min(TOKENS, context)])
    plan = Plan.fitting(ids, context)
    reference = OurStepper(load(file, context, threads, "F32", packs=False, lookup=False).runner, len(ids))
    workers = {side: Worker(side, file, threads, plan) for side in sides}
    sums = {side: np.zeros(3) for side in sides}  # minus the logarithm, the divergence, the same best token
    base, count = 0.0, len(ids) - 1
    with TemporaryDirectory(prefix="sidelight-bench-") as folder:
        try:
            for start in range(0, count, STEP):
                step = ids[start : min(start + STEP, count)]
                after = np.array(ids[start + 1 : start + 1 + len(step)])
                with torch.inference_mode():
                    true = _logarithms(reference.rate(step).numpy())
                base -= true[np.arange(len(step)), after].sum()
                for side, worker in workers.items():
                    rows = _logarithms(worker.rate(step, Path(folder) / side, len(ids)))
                    sums[side] += (
                        -rows[np.arange(len(step)), after].sum(),
                        (np.exp(true) * (true - rows)).sum(),
                        (true.argmax(-1) == rows.argmax(-1)).sum(),
                    )
        finally:
            for worker in workers.values():
                worker.close()
    out: dict[str, Any] = {"tokens": count, REFERENCE: {"perplexity": float(np.exp(base / count))}}
    for side, (surprise, divergence, same) in sums.items():
        out[NAMES[side]] = {
            "perplexity": float(np.exp(surprise / count)),
            "divergence": float(divergence / count),
            "same_best_token": float(same / count),
        }
    return out


def table(found: dict[str, Any], say: Callable[[float], str] = "{:.4f}".format) -> str:
    """The same for people."""
    lines = [f"over {found['tokens']:,} tokens: perplexity, divergence from float32, same best token"]
    for name, values in found.items():
        if name != "tokens":
            lines.append(f"{name:>12}  " + "  ".join(say(value) for value in values.values()))
    return "\n".join(lines)


def _logarithms(logits: np.ndarray) -> np.ndarray:
    """Of the tokens' chances."""
    rows = logits.astype(np.float64)
    rows -= rows.max(-1, keepdims=True)
    return rows - np.log(np.exp(rows).sum(-1, keepdims=True))
