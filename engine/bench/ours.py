"""Our engine as it is measured: what the product does for a token, without the thread around it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from torch import Tensor

from engine.bench.measures import Opened, Plan, Steppers
from engine.layers.decoder import Decoder
from engine.layers.packed import Packed
from engine.loaded import load
from engine.runner import Runner

KV = "F16"  # how keys and values are kept: as llama.cpp does


class OurStepper:
    """One sequence of a loaded model. To be used on the thread that has loaded it."""

    def __init__(self, runner: Runner, tokens: int, marks: Sequence[int] = ()) -> None:
        self._runner, self._cache = runner, runner.new_cache()
        self._cache.reserve(tokens)
        self._cache.mark(marks)

    def take(self, ids: Sequence[int], *, every: bool = False) -> int:
        """Take tokens in, in chunks like a prompt; `every`: in one step, like a token and proposed ones."""
        if every:
            return int(self._runner.check(ids, self._cache).rows.argmax(-1)[-1])
        for start in range(0, len(ids), chunk := self._runner.chunk):
            is_last = start + chunk >= len(ids)
            logits = self._runner.forward(ids[start : start + chunk], self._cache, rate=is_last)
        assert logits is not None
        return int(logits.argmax())

    def cut(self, length: int) -> int:
        """Forget the tokens from there on, or from the nearest place before it that can be gone back to."""
        kept = self._cache.reach(min(length, self._cache.length))
        self._cache.truncate(kept)
        return kept

    def rate(self, ids: Sequence[int]) -> Tensor:
        """(n, vocabulary) logits after each of the tokens."""
        return self._runner.check(ids, self._cache).rows


def opened(path: Path, threads: int, plan: Plan) -> Opened:
    """A model file in our engine, on this thread."""
    started = perf_counter()
    runner = load(path, plan.context, threads, KV, packs=True).runner
    return of_runner(runner, plan, perf_counter() - started)


def of_runner(runner: Runner, plan: Plan, seconds: float) -> Opened:
    """What has been loaded already."""
    near = OurStepper(runner, plan.context, [plan.start])
    far = near if plan.far is None else OurStepper(runner, plan.context, [plan.far - 1])
    return Opened(
        steppers=Steppers(near, far),
        begin=lambda tokens: OurStepper(runner, tokens),
        seconds=seconds,
        version=version("sidelight"),
        features="kernels" if runner.model.fused is not None else "torch",
        bytes_per_token=bytes_per_token(runner.model),
    )


def bytes_per_token(model: Decoder) -> int:
    """Bytes of weights that a decoded token reads: all but the embedding, of which it reads a row."""
    held: dict[int, int] = {}
    _note([model.blocks, model.norm, model.head], held)
    return sum(held.values())


def _note(part: Any, held: dict[int, int]) -> None:
    """Every array below `part`, once."""
    if isinstance(part, np.ndarray):
        held[part.ctypes.data] = part.nbytes
    elif isinstance(part, Tensor):
        held[part.data_ptr()] = part.nbytes
    elif isinstance(part, list | tuple):
        for each in part:
            _note(each, held)
    elif isinstance(part, Packed):
        _note(part.parts, held)
    elif is_dataclass(part):
        for field in fields(part):
            _note(getattr(part, field.name), held)
