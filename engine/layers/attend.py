"""What tokens find in a cache: softmax of their scores, times the values."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn import functional as F

from engine.cache.kv import Kv
from engine.layers.span import Span

CONVERTED = 4_096  # positions that are turned to float32 at a time, where the cache keeps them in fewer bits
MASKED = 1 << 22  # scores that are masked at a time
LEAST = 256

Part = tuple[Tensor, Tensor, Tensor | None]  # keys and values, (kv heads, seen, dim) each, and the mask


def attend(
    query: Tensor, cache: Kv, layer: int, span: Span, window: int | None, scale: float | None
) -> Tensor:
    """(n, heads, dim), whose keys and values the cache has -> (n, heads * dim).

    What is large is read part by part: neither (n, n) masks nor a copy of a long cache is ever made.
    """
    n, heads, dim = query.shape
    first, kv = span.first(window), cache.shape.heads
    query = query.view(n, kv, heads // kv, dim).permute(1, 2, 0, 3)
    step = step_of(span.count, cache.limit, cache.storage.is_plain)
    if span.end - first <= step:
        keys, values = cache.read(layer, first, span.end)
        found = _at_once(query, keys, values, span.mask(window), scale)
    else:
        parts = _parts(cache, layer, span, window, step)
        found = _in_parts(query, parts, dim**-0.5 if scale is None else scale)
    return found.permute(2, 0, 1, 3).reshape(n, -1)


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


def _at_once(query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, scale: float | None) -> Tensor:
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
    """The same, with what was found so far scaled down whenever a greater score comes."""
    kv, groups, n, dim = query.shape
    query = (query * scale).reshape(kv, groups * n, dim)
    most = torch.full((kv, groups * n, 1), float("-inf"))
    total, found = torch.zeros_like(most), torch.zeros_like(query)
    for keys, values, mask in parts:
        scores = query @ keys.mT  # (kv heads, groups * n, positions)
        if mask is not None:
            scores.view(kv, groups, n, -1).add_(mask)
        greatest = torch.maximum(most, scores.amax(-1, keepdim=True))
        shares, fading = scores.sub_(greatest).exp_(), (most - greatest).exp_()
        total = total * fading + shares.sum(-1, keepdim=True)
        found = found * fading + shares @ values
        most = greatest
    return (found / total).view(kv, groups, n, dim)
