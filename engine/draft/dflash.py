"""Proposals by a DFlash drafter: its own view of each sequence, and blocks of candidates."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from engine.cache.kv import ROLLBACK, Kv
from engine.cache.storage import F32, Storage
from engine.models.dflash import DraftModel

WAITING = 64  # tokens that wait to be taken in together while nobody asks for a proposal


class DFlash:
    """A drafter in memory. `limit`: the longest sequence, in tokens; `storage`: of its keys and values."""

    def __init__(self, model: DraftModel, limit: int, storage: Storage = F32) -> None:
        self.model, self._limit, self._storage = model, limit, storage
        self.layers = model.config.targets
        self.most = min(model.config.block, ROLLBACK) - 1  # the model's local layers can't take back more

    def begin(self, at: int) -> Draft:
        """A draft for a sequence whose first `at` tokens it won't hear of: it needs none of them to go on."""
        return Draft(self.model, Kv(self.model.cache, self._limit, self._storage), at)


class Draft:
    """The view of one sequence, from position `start` on."""

    def __init__(self, model: DraftModel, kv: Kv, start: int) -> None:
        self._model, self._kv, self._start = model, kv, start
        self._waiting: list[Sequence[Tensor]] = []

    @property
    def length(self) -> int:
        """Tokens taken in, or skipped at the start."""
        return self._start + self._kv.length + self._count

    @property
    def bytes(self) -> int:
        """Bytes held."""
        waiting = sum(state.nbytes for states in self._waiting for state in states)
        return self._kv.bytes + waiting

    def note(self, states: Sequence[Tensor]) -> None:
        """Take in the next tokens: the model's states after each of the target layers."""
        self._waiting.append(states)
        if self._count >= WAITING:
            self._take_in()

    @torch.inference_mode()
    def propose(self, token: int, count: int) -> list[int]:
        """`count` tokens that may follow `token`, which follows all that was taken in."""
        self._take_in()
        return self._model.propose(token, count, self.length, self._kv)

    def truncate(self, length: int) -> None:
        """Forget the tokens from `length` on. If that is too far back for local layers, begin anew there."""
        if length >= self.length:
            return
        self._take_in()
        kept = length - self._start
        if kept > 0 and self._kv.reach(kept) == kept:
            self._kv.truncate(kept)
        else:
            self._kv, self._start = self._empty(), length

    def copy(self, length: int) -> Draft:
        """A second one; it may have to begin anew at `length`."""
        self._take_in()
        kept = min(length, self.length) - self._start
        if kept > 0 and self._kv.reach(kept) == kept:
            return Draft(self._model, self._kv.copy(kept), self._start)
        return Draft(self._model, self._empty(), length)

    @property
    def _count(self) -> int:
        return sum(len(states[0]) for states in self._waiting)

    def _empty(self) -> Kv:
        return Kv(self._model.cache, self._kv.limit, self._kv.storage)

    @torch.inference_mode()
    def _take_in(self) -> None:
        """What waited joins the cache; all layers' states of a few steps at once."""
        if self._waiting:
            states = [torch.cat(layer) for layer in zip(*self._waiting, strict=True)]
            start = self._start + self._kv.length
            self._waiting.clear()
            self._model.note(states, start, self._kv)
