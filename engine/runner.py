"""One forward pass after another over a model, in chunks that leave room to cancel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import cast

import torch
from torch import Tensor

from engine.cache.kv import Kv
from engine.cache.storage import F32, Storage
from engine.draft.adapt import Costs
from engine.draft.drafter import Drafter, Proposer
from engine.draft.lookup import Lookup
from engine.layers.decoder import Decoder, Insert
from engine.weights.config import Config

CHUNK = 256  # tokens
# More than `FEW`, which torch computes one by one. By kernels, 16 are almost as quick, each, as 64.
SMALLEST_CHUNK, SMALLEST_FUSED = 32, 16
CHUNK_OPERATIONS, FUSED_OPERATIONS = 15e9, 30e9  # about a tenth of a second on two cores
CHUNK_SECONDS = 0.15  # longer than this, and the chunk is halved


def smallest_chunk(is_fused: bool) -> int:
    """The fewest tokens that one pass over a long text takes; `is_fused`: by kernels."""
    return SMALLEST_FUSED if is_fused else SMALLEST_CHUNK


def chunk_of(parameters: int, is_fused: bool) -> int:
    """The most tokens that one pass takes, for a model with so many weights that every token passes.

    By the model's size, not by a measurement: the same chunks, so the same rounding, on every start.
    """
    affordable = int((FUSED_OPERATIONS if is_fused else CHUNK_OPERATIONS) / (2 * max(parameters, 1)))
    return max(smallest_chunk(is_fused), min(CHUNK, 1 << max(affordable, 1).bit_length() - 1))


def looked_up(config: Config) -> int:
    """Weights that not every token passes: the embedding, and the head that only the last one needs."""
    return config.vocab_size * config.width * (1 if config.tied else 2)


@dataclass(frozen=True, slots=True, eq=False)
class Checked:
    """A token and proposed ones after it, taken in: (n, vocabulary) logits after each, and their states."""

    rows: Tensor
    states: list[Tensor]


class Runner:
    """Runs a model on one thread. `chunk` is how many tokens one pass takes at most now, `most` ever.

    `parameters` are the weights that every token passes. `costs`: what steps with proposals have taken.
    `lookup`: whether what stands in the context is proposed when it begins again, where that can pay.
    """

    def __init__(
        self,
        model: Decoder,
        context: int,
        parameters: int,
        storage: Storage = F32,
        drafter: Drafter | None = None,
        lookup: bool = True,
    ) -> None:
        self.model, self.context, self.storage = model, context, storage
        self.drafter, self.costs = drafter, Costs()
        self._lookup, self._lookup_costs = lookup, Costs()
        is_fused = model.fused is not None
        self._least, self.most = smallest_chunk(is_fused), chunk_of(parameters, is_fused)
        self.chunk = self.most

    def new_cache(self) -> Kv:
        """An empty cache for one sequence."""
        return Kv(self.model.cache, self.context, self.storage)

    @torch.inference_mode()
    def forward(
        self, ids: Sequence[int], cache: Kv, *, rate: bool = True, inserts: Sequence[Insert] = ()
    ) -> Tensor | None:
        """Take in tokens, at most a chunk; (vocabulary,) logits after the last, if it is to be rated.

        `inserts` may lie anywhere in the sequence; what of them lies in the chunk takes its tokens' place.
        """
        started, proposer = perf_counter(), self.proposer(cache)
        hidden, states = self.model.states(torch.tensor(ids), cache, self._layers, inserts)
        logits = self.model.rate(hidden[-1]) if rate else None
        if len(ids) == self.chunk:
            self._adapt(perf_counter() - started)
        if proposer is not None:
            proposer.note(states)
        return logits

    def proposer(self, cache: Kv) -> Proposer | None:
        """Who proposes how the cache's sequence goes on, if there is a drafter."""
        if self.drafter is None:
            return None
        if cache.aside is None or cache.aside.length != cache.length:
            cache.aside = self.drafter.begin(cache.length)
        return cast(Proposer, cache.aside)

    def lookup(self, cache: Kv) -> Lookup | None:
        """Who proposes a sequence's own words to it; only with kernels: more rows cost little there."""
        fused = self.model.fused
        can_pay = fused is not None and fused.takes(cache)
        return Lookup(self._lookup_costs) if self._lookup and can_pay else None

    @torch.inference_mode()
    def check(self, ids: Sequence[int], cache: Kv) -> Checked:
        """Take in a token and those proposed after it; then `keep` has to say which of them stay."""
        hidden, states = self.model.states(torch.tensor(ids), cache, self._layers)
        return Checked(self.model.rate(hidden), states)

    def keep(self, checked: Checked, count: int, cache: Kv) -> None:
        """The first `count` of what was checked stay; the others leave no trace."""
        start = cache.length - len(checked.rows)
        cache.truncate(start + count)
        if cache.aside is not None:
            cast(Proposer, cache.aside).note([state[:count] for state in checked.states])

    @property
    def _layers(self) -> tuple[int, ...]:
        return () if self.drafter is None else self.drafter.layers

    def _adapt(self, seconds: float) -> None:
        """Keep to the time a chunk may take, on a machine that is slow or busy for a while."""
        if seconds > CHUNK_SECONDS:
            self.chunk = max(self._least, self.chunk // 2)
        elif seconds < CHUNK_SECONDS / 3:
            self.chunk = min(self.most, self.chunk * 2)

    @torch.inference_mode()
    def logits(self, ids: Sequence[int]) -> Tensor:
        """Logits after every one of the tokens, (n, vocabulary): for measuring, not for talking."""
        cache, parts = self.new_cache(), []
        for start in range(0, len(ids), self.chunk):
            hidden = self.model.hidden(torch.tensor(ids[start : start + self.chunk]), cache)
            parts.append(self.model.rate(hidden))
        return torch.cat(parts)
