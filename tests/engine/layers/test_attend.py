"""Attention over caches, at once and part by part, against a plain float64 softmax."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from engine.cache.kv import Kv, KvShape
from engine.cache.storage import BF16, F32, Q8, Storage
from engine.layers import attend as module
from engine.layers.attend import attend
from engine.layers.span import Span

HEADS, KV_HEADS, DIM = 6, 2, 8


def fill(length: int, window: int | None, storage: Storage = F32) -> Kv:
    """A cache of one layer; the last 20 positions are what the tokens have just appended."""
    shape = KvShape(1, KV_HEADS, DIM, window, (window is not None,))
    kv = Kv(shape, 10_000, storage, spare=32)
    rows = torch.randn(2, length, KV_HEADS, DIM, generator=torch.Generator().manual_seed(length))
    for start in [*range(0, length - 20, 20), length - 20]:
        kv.append(0, *rows[:, start : start + 20])
        if start < length - 20:
            kv.advance(min(20, length - 20 - start))
    return kv


def plain(query: Tensor, kv: Kv, span: Span, window: int | None, scale: float) -> Tensor:
    first = span.first(window)
    keys, values = (part.double() for part in kv.read(0, first, span.end))
    out = torch.empty(query.shape, dtype=torch.float64)
    for row, position in enumerate(range(span.start, span.end)):
        low = first if window is None else max(first, position - window + 1)
        for head in range(HEADS):
            at = slice(low - first, position + 1 - first)
            shared = head // (HEADS // KV_HEADS)
            scores = keys[shared, at] @ query[row, head].double() * scale
            out[row, head] = scores.softmax(0) @ values[shared, at]
    return out.flatten(1)


@pytest.fixture(params=[False, True], ids=["at once", "in parts"])
def parts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many times positions were read, and the sizes."""
    sizes: list[int] = []
    read = Kv.read

    def count(kv: Kv, layer: int, first: int, end: int) -> tuple[Tensor, Tensor]:
        sizes.append(end - first)
        return read(kv, layer, first, end)

    monkeypatch.setattr(Kv, "read", count)
    if request.param:
        monkeypatch.setattr(module, "MASKED", 20 * 24)
        monkeypatch.setattr(module, "CONVERTED", 24)
        monkeypatch.setattr(module, "LEAST", 1)
    return sizes


@pytest.mark.parametrize("storage", [F32, BF16, Q8], ids=lambda storage: storage.name)
@pytest.mark.parametrize("window", [None, 5, 70])
@pytest.mark.parametrize("count", [1, 20])
def test_what_is_found_is_the_mean_that_scores_weigh(
    parts: list[int], storage: Storage, window: int | None, count: int
) -> None:
    length = 200
    kv, span = fill(length, window, storage), Span(length - 20, 20)
    if count == 1:
        kv.advance(19)
        span = Span(length - 1, 1)
    query = 3 * torch.randn(count, HEADS, DIM)
    found = attend(query, kv, 0, span, window, 0.4)
    sizes = list(parts)
    assert sum(sizes) == span.end - span.first(window)
    assert (found - plain(query, kv, span, window, 0.4)).abs().max() < 1e-5
    if storage is not F32 and window is None and module.LEAST == 1:
        assert max(sizes) <= 24


def test_a_long_cache_of_few_bits_is_never_converted_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    unpack: Callable[..., Tensor] = Storage.unpack

    def count(storage: Storage, stored: list[Tensor]) -> Tensor:
        sizes.append(stored[0].shape[2])
        return unpack(storage, stored)

    monkeypatch.setattr(Storage, "unpack", count)
    kv = Kv(KvShape(1, KV_HEADS, DIM), 40_000, BF16)
    kv.append(0, *torch.randn(2, 20_000, KV_HEADS, DIM))
    attend(torch.randn(1, HEADS, DIM), kv, 0, Span(19_999, 1), None, None)
    assert sum(sizes) == 20_000
    assert max(sizes) <= module.CONVERTED
