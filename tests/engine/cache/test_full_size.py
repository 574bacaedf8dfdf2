"""A cache of the full-size model, really allocated and written (pytest -m slow -s shows the figures)."""

from __future__ import annotations

import ctypes
import gc
import sys
from time import perf_counter

import psutil
import pytest
import torch

from engine.cache.kv import Kv, KvShape
from engine.cache.storage import BF16, Q8, STORAGES
from engine.layers.attend import attend
from engine.layers.span import Span

LAYERS, CONTEXT, GIB = 52, 131_072, 1 << 30
SHAPE = KvShape(LAYERS, 2, 128, 2_048, tuple(layer % 4 < 3 for layer in range(LAYERS)))
HEADS, CHUNK = 32, 64


def test_the_bytes_of_a_whole_context_are_known_beforehand() -> None:
    assert SHAPE.bytes(CONTEXT, BF16) / GIB == pytest.approx(1.7, rel=0.01)
    assert SHAPE.bytes(CONTEXT, Q8) / SHAPE.bytes(CONTEXT, BF16) == pytest.approx(136 / 256)
    for storage in STORAGES.values():
        kv = Kv(SHAPE, CONTEXT, storage)
        kv.reserve(1_000)
        assert kv.bytes == SHAPE.bytes(1_000, storage)


def give_back() -> None:
    """What earlier tests have freed, so that it isn't taken again unseen; some systems need no asking."""
    gc.collect()
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "malloc_trim"):
        libc.malloc_trim(0)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_whole_context_is_allocated_and_written() -> None:
    if psutil.virtual_memory().available < 4 * GIB:
        pytest.skip("needs 4 GiB of free memory")
    give_back()
    before = psutil.Process().memory_info().rss
    kv = Kv(SHAPE, CONTEXT, BF16)
    kv.reserve(CONTEXT)
    assert kv.bytes == SHAPE.bytes(CONTEXT, BF16)
    assert kv.bytes / GIB == pytest.approx(1.7, rel=0.01)
    rows = torch.randn(2, 256, 2, 128)
    for _ in range(0, CONTEXT - CHUNK, 256):
        count = min(256, CONTEXT - CHUNK - kv.length)
        for layer in range(LAYERS):
            kv.append(layer, *rows[:, :count])
        kv.advance(count)
    grown = psutil.Process().memory_info().rss - before
    print(f"\n{kv.bytes / GIB:.3f} GiB, resident {grown / GIB:.3f} GiB")
    assert kv.bytes == SHAPE.bytes(CONTEXT, BF16)
    assert grown == pytest.approx(kv.bytes, rel=0.03)
    span, started = Span(kv.length, CHUNK), perf_counter()
    for layer in (2, 3):  # a local one and one that sees everything
        kv.append(layer, *rows[:, :CHUNK])
        found = attend(
            torch.randn(CHUNK, HEADS, 128), kv, layer, span, 2_048 if SHAPE.is_local(layer) else None, None
        )
        assert found.isfinite().all()
    extra = psutil.Process().memory_info().rss - before - grown
    print(f"a local layer and a global one: {perf_counter() - started:.2f} s, {extra / GIB:.3f} GiB more")
    assert extra < GIB / 4
