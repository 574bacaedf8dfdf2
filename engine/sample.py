"""From logits to a token. Pure: all state (the generator) is the caller's.

The steps, in order: repetition penalty, top-k, top-p, min-p, temperature. The cuts judge the model's own
distribution, so a high temperature varies among likely tokens instead of letting unlikely ones in.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from engine.api import EngineError, Sampling

PENALISED = 64  # the latest tokens, of prompt and reply together, that the repetition penalty looks at
_FIRST_LOOK = (
    256  # candidates top-p sorts first; nearly always enough, and 50 times quicker than sorting them all
)


def generator(seed: int | None) -> torch.Generator:
    """A request's own source of chance; None is a fresh one."""
    chance = torch.Generator()
    if seed is None:
        chance.seed()
    else:
        chance.manual_seed(seed % 2**63)
    return chance


def choose(logits: Tensor, sampling: Sampling, recent: Sequence[int], chance: torch.Generator) -> int:
    """A token for (vocabulary,) logits; `recent` are the sequence's latest tokens."""
    logits = penalise(logits, recent[-PENALISED:], sampling.repetition_penalty)
    if not torch.isfinite(logits.max()):
        raise EngineError("The model's output isn't usable: it rates no next word at all.")
    if sampling.temperature == 0:
        return int(logits.argmax())
    ids, probabilities = candidates(logits, sampling)
    return int(ids[torch.multinomial(probabilities, 1, generator=chance)])


def penalise(logits: Tensor, recent: Sequence[int], penalty: float) -> Tensor:
    """Logits with recent tokens made less likely: divided by the penalty if positive, else multiplied."""
    if penalty == 1 or not recent:
        return logits
    ids = torch.tensor(sorted(set(recent)))
    old = logits[ids]
    return logits.index_copy(0, ids, torch.where(old > 0, old / penalty, old * penalty))


def candidates(logits: Tensor, sampling: Sampling) -> tuple[Tensor, Tensor]:
    """The tokens that may be chosen, and their probabilities (sum 1)."""
    ids, kept = _likeliest(logits, sampling)
    if sampling.min_p > 0:
        enough = kept >= kept.max() + torch.tensor(sampling.min_p).log()
        ids, kept = ids[enough], kept[enough]
    return ids, torch.softmax((kept - kept.max()) / sampling.temperature, 0)


def _likeliest(logits: Tensor, sampling: Sampling) -> tuple[Tensor, Tensor]:
    """Token ids and logits after top-k and top-p."""
    count = logits.shape[0]
    if sampling.top_k and sampling.top_k < count:
        kept, ids = logits.topk(sampling.top_k)
        inside = _nucleus(torch.softmax(kept, 0), sampling.top_p)
        return ids[:inside], kept[:inside]
    if sampling.top_p >= 1:
        return torch.arange(count), logits
    total, look = logits.logsumexp(0), _FIRST_LOOK
    while True:
        kept, ids = logits.topk(min(look, count))
        inside = _nucleus((kept - total).exp(), sampling.top_p)
        if inside < look or look >= count:
            return ids[:inside], kept[:inside]
        look *= 8


def _nucleus(probabilities: Tensor, top_p: float) -> int:
    """How many of the (sorted) likeliest are needed to reach `top_p`, at least one."""
    if top_p >= 1:
        return probabilities.shape[0]
    before = probabilities.cumsum(0) - probabilities
    return max(1, int((before < top_p).sum()))
