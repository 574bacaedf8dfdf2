"""llama.cpp as it is measured, by its own low-level interface; only its process imports this."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import llama_cpp
import numpy as np

from engine.api import EngineError
from engine.bench.measures import Opened, Plan, Steppers

BATCH = 512
ROUND = 256  # tokens: what it rounds contexts to
ERROR = 4  # of its log's levels, and more is worse but for the one that goes on with a line


class TheirError(EngineError):
    """What llama.cpp can't do, in its own words where it has any."""


def opened(path: Path, threads: int, plan: Plan) -> Opened:
    """A model file in llama.cpp."""
    started = perf_counter()
    model = Model(path, threads)
    steppers = model.steppers(plan)
    return Opened(
        steppers=steppers,
        begin=lambda tokens: TheirStepper(model, tokens),
        seconds=perf_counter() - started,
        version=llama_cpp.__version__,
        features=llama_cpp.llama_print_system_info().decode(),
    )


class Model:
    """A model file, opened; it stays open until the process ends."""

    def __init__(self, path: Path, threads: int) -> None:
        self._threads, self._problems = threads, list[str]()
        self._note = llama_cpp.llama_log_callback(self._hear)  # it must live as long as the library
        llama_cpp.llama_log_set(self._note, ctypes.c_void_p())
        llama_cpp.llama_backend_init()
        parameters = llama_cpp.llama_model_default_params()
        self.handle: Any = llama_cpp.llama_model_load_from_file(bytes(path), parameters)
        if not self.handle:
            raise TheirError(self._problems[0] if self._problems else "it can't load the file.")
        vocabulary = llama_cpp.llama_model_get_vocab(self.handle)
        assert vocabulary is not None
        self.tokens = int(llama_cpp.llama_vocab_n_tokens(vocabulary))
        self.context = int(llama_cpp.llama_model_n_ctx_train(self.handle))

    def context_of(self, tokens: int) -> Any:
        """Room for a sequence; keys and values in F16 and flash attention as it sees fit are its defaults."""
        parameters = llama_cpp.llama_context_default_params()
        parameters.n_ctx = -(-tokens // ROUND) * ROUND
        parameters.n_batch = parameters.n_ubatch = BATCH
        parameters.n_threads = parameters.n_threads_batch = self._threads
        parameters.swa_full = False  # as its programs have it: local layers keep their window only
        made = llama_cpp.llama_init_from_model(self.handle, parameters)
        if not made:
            raise TheirError(self._problems[-1] if self._problems else "it can't make a context.")
        return made

    def steppers(self, plan: Plan) -> Steppers:
        """The two sequences of the measures."""
        near = TheirStepper(self, plan.context)
        return Steppers(near, near if plan.far is None else TheirStepper(self, plan.context))

    def _hear(self, level: int, text: bytes, _: Any) -> None:
        if level == ERROR:
            self._problems.append(text.decode(errors="replace").strip())


class TheirStepper:
    """One sequence."""

    def __init__(self, model: Model, tokens: int) -> None:
        self._vocabulary, self._context, self._length = model.tokens, model.context_of(tokens), 0
        self._memory: Any = llama_cpp.llama_get_memory(self._context)
        self._batch = llama_cpp.llama_batch_init(BATCH, 0, 1)
        self._ids, self._positions, self._rated = (
            np.ctypeslib.as_array(each, (BATCH,))
            for each in (self._batch.token, self._batch.pos, self._batch.logits)
        )
        for place in range(BATCH):
            self._batch.n_seq_id[place], self._batch.seq_id[place][0] = 1, 0

    def take(self, ids: Sequence[int], *, every: bool = False) -> int:
        """Take tokens in, in its batches."""
        for start in range(0, len(ids), BATCH):
            rows = self._step(ids[start : start + BATCH], every=every, last=start + BATCH >= len(ids))
        return int(rows.argmax(-1)[-1])

    def cut(self, length: int) -> int:
        """Forget the tokens from there on; if it can't, all of them."""
        if length < self._length:
            removed = length and llama_cpp.llama_memory_seq_rm(self._memory, 0, length, -1)
            if not removed:
                llama_cpp.llama_memory_clear(self._memory, False)
            self._length = length if removed else 0
        return self._length

    def rate(self, ids: Sequence[int]) -> np.ndarray:
        """(n, vocabulary) logits after each of the tokens, at most a batch."""
        return self._step(ids, every=True, last=True)

    def _step(self, ids: Sequence[int], *, every: bool, last: bool) -> np.ndarray:
        """Logits, which are overwritten by the next step; (rows, vocabulary)."""
        count = len(ids)
        self._ids[:count] = ids
        self._positions[:count] = np.arange(self._length, self._length + count)
        self._rated[:count] = every
        if last:
            self._rated[count - 1] = True
        self._batch.n_tokens = count
        if (status := llama_cpp.llama_decode(self._context, self._batch)) != 0:
            raise TheirError(f"llama_decode returned {status}.")
        self._length += count
        rows = count if every else int(last)
        if not rows:
            return np.empty((0, self._vocabulary), np.float32)
        return np.ctypeslib.as_array(llama_cpp.llama_get_logits(self._context), (rows, self._vocabulary))
