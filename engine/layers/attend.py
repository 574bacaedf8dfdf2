"""What tokens find in a cache: softmax of their scores, times the values."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn import functional as F

from engine.cache.kv import Kv
from engine.layers.linear import FEW
from engine.layers.span import Span

CONVERTED = 4_096  # positions that are turned to float32 at a time, where the cache keeps them in fewer bits
MASKED = 1 << 22  # scores that are masked at a time
LEAST = 256

Part = tuple[Tensor, Tensor, Tensor | None]  # keys and values, (kv heads, seen, dim) each, and the mask


def attend(
    query: Tensor, cache: Kv, layer: int, span: Span, window: int | None, scale: float | None
) -> Tensor:
    """(n, heads, dim), whose keys and values the cache has -> (n, heads * dim).

    What is large is read part by part: neither (n, n) masks nor a copy of a long cache is ever made. Up to
    `FEW` tokens look each by itself, so that what one finds is the same, to the bit, as if it were alone.
    """
    n, heads, dim = query.shape
    kv = cache.shape.heads
    query = query.view(n, kv, heads // kv, dim).permute(1, 2, 0, 3)
    scale = dim**-0.5 if scale is None else scale
    if 1 < n <= FEW:
        found = _one_by_one(query, cache, layer, span, window, scale)
    else:
        found = _together(query, cache, layer, span, window, scale)
    return found.permute(2, 0, 1, 3).reshape(n, -1)


def _together(query: Tensor, cache: Kv, layer: int, span: Span, window: int | None, scale: float) -> Tensor:
    """(kv heads, groups, n, dim) -> the same."""
    first, step = span.first(window), step_of(span.count, cache.limit, cache.storage.is_plain)
    if span.end - first <= step:
        return at_once(query, *cache.read(layer, first, span.end), span.mask(window), scale)
    return _in_parts(query, _parts(cache, layer, span, window, step), scale)


def _one_by_one(query: Tensor, cache: Kv, layer: int, span: Span, window: int | None, scale: float) -> Tensor:
    """The same; every token goes its own way, but what several of them see is read once."""
    tokens = [(query[:, :, at : at + 1], Span(span.start + at, 1)) for at in range(span.count)]
    first, step = span.first(window), step_of(1, cache.limit, cache.storage.is_plain)
    if span.end - first <= step:
        keys, values = cache.read(layer, first, span.end)
        cuts = [slice(one.first(window) - first, one.end - first) for _, one in tokens]
        found = [
            at_once(each, keys[:, cut], values[:, cut], None, scale)
            for (each, _), cut in zip(tokens, cuts, strict=True)
        ]
    elif window is not None or span.start < step:  # not in the same parts, or some at once
        found = [_together(each, cache, layer, one, window, scale) for each, one in tokens]
    else:
        found = _in_shared_parts(tokens, cache, layer, step, scale)
    return torch.cat(found, 2)


def _in_shared_parts(
    tokens: list[tuple[Tensor, Span]], cache: Kv, layer: int, step: int, scale: float
) -> list[Tensor]:
    """What each token finds in the same parts as it would alone; it sees everything before it."""
    looks = [_Look(query, scale) for query, _ in tokens]
    end = tokens[-1][1].end
    for first in range(0, end, step):
        keys, values = cache.read(layer, first, min(first + step, end))
        for look, (_, one) in zip(looks, tokens, strict=True):
            seen = one.end - first
            if seen > 0:
                look.at(keys[:, :seen], values[:, :seen], None)
    return [look.found for look in looks]


def step_of(count: int, limit: int, is_plain: bool) -> int:
    """Positions to read at a time: as many as there are tokens, at least, so each sees one of the first.

    `limit`: the most tokens that the cache will hold. `is_plain`: it holds them in float32.
    """
    step = limit + count if count == 1 else MASKED // count
    if not is_plain:
        step = min(step, CONVERTED)
    return max(step, count, LEAST)


def _parts(cache: Kv, layer: int, span: Span, window: int | None, step: int) -> Iterator[Part]:
    for first in range(span.first(window), span.end, step):
        end = min(first + step, span.end)
        yield *cache.read(layer, first, end), span.mask(window, first, end)


def at_once(query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, scale: float) -> Tensor:
    """(kv heads, groups, n, dim) -> the same."""
    shape = (*query.shape[:2], *keys.shape[1:])
    return F.scaled_dot_product_attention(
        query,
        keys[:, None].expand(shape),  # stride 0: a group reads its head's keys without a copy of them
        values[:, None].expand(shape),
        attn_mask=mask,
        scale=scale,
    )


def _in_parts(query: Tensor, parts: Iterator[Part], scale: float) -> Tensor:
    """The same, part by part."""
    look = _Look(query, scale)
    for keys, values, mask in parts:
        look.at(keys, values, mask)
    return look.found


class _Look:
    """What (kv heads, groups, n, dim) queries find, part by part; scaled down when a greater score comes."""

    def __init__(self, query: Tensor, scale: float) -> None:
        kv, self._groups, self._count, _ = query.shape
        self._query = (query * scale).reshape(kv, self._groups * self._count, -1)
        self._most = self._query.new_full((*self._query.shape[:2], 1), float("-inf"))
        self._total, self._sum = torch.zeros_like(self._most), torch.zeros_like(self._query)

    def at(self, keys: Tensor, values: Tensor, mask: Tensor | None) -> None:
        """Look at (kv heads, seen, dim) keys and values."""
        scores = self._query @ keys.mT  # (kv heads, groups * n, seen)
        if mask is not None:
            scores.view(len(scores), self._groups, self._count, -1).add_(mask)
        most = torch.maximum(self._most, scores.amax(-1, keepdim=True))
        shares, fading = scores.sub_(most).exp_(), (self._most - most).exp_()
        self._total = self._total * fading + shares.sum(-1, keepdim=True)
        self._sum = self._sum * fading + shares @ values
        self._most = most

    @property
    def found(self) -> Tensor:
        """(kv heads, groups, n, dim)."""
        found = self._sum / self._total
        return found.view(len(found), self._groups, self._count, -1)
