"""The compiled kernels against plain numpy, and that nothing depends on who computes what with whom."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch

from engine import kernels
from engine.kernels import reference
from engine.kernels.layouts import PACKED, can_pack, packed_bytes
from engine.layers.packed import Packed, Raw, Table, pack
from engine.quant import format_of
from engine.quant._random import random_blocks

pytestmark = pytest.mark.skipif(not kernels.can_run(), reason="needs a processor with AVX2")

SHAPES = [(8, 1), (16, 2), (24, 3), (72, 5), (256, 9)]  # rows, blocks


def stored(kind: str, rows: int, columns: int, seed: int = 0) -> Raw:
    blocks = rows * columns // format_of(kind).block
    raw = random_blocks(kind, blocks, 0.05, np.random.default_rng(seed))
    return Raw(kind, (rows, columns), np.ascontiguousarray(raw).reshape(-1))


def activations(rows: int, columns: int, seed: int = 1) -> torch.Tensor:
    x = torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed))
    return x * torch.logspace(-2, 1, columns)[torch.randperm(columns, generator=torch.Generator())]


def close(found: torch.Tensor, wanted: np.ndarray) -> None:
    assert np.abs(found.numpy() - wanted).max() <= 2e-3 * np.abs(wanted).max()


@pytest.mark.parametrize("kind", PACKED)
@pytest.mark.parametrize(("rows", "blocks"), SHAPES)
def test_products_are_those_of_the_reference(kind: str, rows: int, blocks: int) -> None:
    raw = stored(kind, rows, blocks * PACKED[kind][0])
    matrix = pack([raw], threads=2)
    for count in (1, 2, 3, 4, 5, 64, 130):
        x = activations(count, raw.shape[1])
        close(matrix(x), reference.multiply(kind, raw.bytes.reshape(rows, -1), x.numpy()))


@pytest.mark.parametrize("kind", PACKED)
def test_a_row_is_the_same_to_the_bit_whatever_others_are_there(kind: str) -> None:
    raw = stored(kind, 40, 4 * PACKED[kind][0])
    x = activations(300, raw.shape[1])
    alone = torch.cat([pack([raw], threads=1)(row[None]) for row in x])
    two, three = pack([raw], threads=2), pack([raw], threads=3)
    chance = np.random.default_rng(3)
    assert torch.equal(two(x), alone)
    for _ in range(300):
        start = int(chance.integers(0, 299))
        end = int(chance.integers(start + 1, min(300, start + 20) + 1))
        assert torch.equal((two, three)[start % 2](x[start:end]), alone[start:end])


def test_matrices_stand_one_below_the_other_whatever_their_formats() -> None:
    parts = [
        stored(kind, 24, 512, seed) for seed, kind in enumerate(("Q4_K", "Q6_K", "Q8_0", "Q4_1", "Q6_K"))
    ]
    x = activations(5, 512)
    found = pack(parts, threads=2)(x)
    assert found.shape == (5, 120)
    assert torch.equal(found, torch.cat([pack([part], threads=2)(x) for part in parts], 1))


def test_zeros_and_extremes() -> None:
    raw = stored("Q8_0", 8, 64)
    matrix = pack([raw], threads=1)
    assert torch.equal(matrix(torch.zeros(2, 64)), torch.zeros(2, 8))
    x = torch.full((1, 64), 1e4)
    close(matrix(x), reference.multiply("Q8_0", raw.bytes.reshape(8, -1), x.numpy()))


def test_the_smallest_stored_number_is_no_accident() -> None:
    """-128 has no counterpart in eight bits."""
    raw = stored("Q8_0", 8, 32)
    raw.bytes.reshape(8, 34)[:, 2:] = 128
    x = activations(3, 32)
    close(pack([raw], threads=1)(x), reference.multiply("Q8_0", raw.bytes.reshape(8, -1), x.numpy()))


@pytest.mark.parametrize("scale", [0.0, 6e-8, 3e-5, 6.2e-5, 1.0, 8_000.0])
def test_scales_of_every_size_become_minima(scale: float) -> None:
    raw = stored("Q4_0", 8, 32)
    raw.bytes.reshape(8, 18)[:, :2] = np.frombuffer(np.float16(scale).tobytes(), np.uint8)
    x = activations(2, 32)
    close(pack([raw], threads=1)(x), reference.multiply("Q4_0", raw.bytes.reshape(8, -1), x.numpy()))


def test_a_tables_rows_are_those_of_the_matrix() -> None:
    raw = stored("Q6_K", 16, 512)
    ids = torch.tensor([3, 3, 15, 0])
    wanted = format_of("Q6_K").decode(raw.bytes).reshape(16, 512)[ids.numpy()]
    assert torch.equal(Table(raw).rows(ids), torch.from_numpy(wanted))


def test_other_shapes_and_formats_are_left_alone() -> None:
    assert can_pack("Q4_K", (8, 256)) and not can_pack("Q4_K", (8, 128))
    assert not can_pack("Q8_0", (7, 32)) and not can_pack("F16", (8, 32)) and not can_pack("Q8_0", (32,))


@pytest.mark.parametrize("kind", PACKED)
def test_bytes_are_foretold(kind: str) -> None:
    raw = stored(kind, 16, 512)
    assert sum(part.nbytes for part in pack([raw], threads=1).parts) == packed_bytes(kind, raw.shape)


def test_many_threads_may_ask_at_once() -> None:
    """More threads than the machine has cores, all busy: nobody waits for a helper that doesn't come."""
    raw = stored("Q4_1", 256, 512)
    matrix, x = pack([raw], threads=8), activations(7, 512)
    wanted, wrong = pack([raw], threads=1)(x), []

    def ask(matrix: Packed) -> None:
        wrong.extend(index for index in range(200) if not torch.equal(matrix(x), wanted))

    askers = [threading.Thread(target=ask, args=(matrix,)) for _ in range(4)]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join(60)
        assert not asker.is_alive()
    assert wrong == []


def test_helpers_rest_when_nobody_asks() -> None:
    import time

    import psutil

    raw = stored("Q4_1", 256, 512)
    matrix, x = pack([raw], threads=2), activations(1, 512)
    matrix(x)
    time.sleep(0.5)
    before = psutil.Process().cpu_times()
    time.sleep(1)
    after = psutil.Process().cpu_times()
    assert after.user + after.system - before.user - before.system < 0.3
    assert torch.isfinite(matrix(x)).all()  # and they come back
