"""Local layers: their window, what can be rolled back, and where a sequence can be taken up again."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.cache.kv import ROLLBACK, Kv, KvShape
from engine.cache.storage import BF16, F16, F32, Q8, STORAGES, Storage

WINDOW, SPARE, HEADS, DIM = 20, 32, 2, 4
SHAPE = KvShape(layers=3, heads=HEADS, head_dim=DIM, window=WINDOW, local=(True, False, True))


def truth(position: int, generation: int = 0) -> torch.Tensor:
    """What stands at a position: (layers, 2, heads, head dim)."""
    seed = torch.Generator().manual_seed(1_000_003 * generation + position)
    return torch.randn(SHAPE.layers, 2, HEADS, DIM, generator=seed)


class Written:
    """A cache, and beside it what it should hold."""

    def __init__(self, storage: Storage = F32, **options: int) -> None:
        self.kv = Kv(SHAPE, 100_000, storage, **{"spare": SPARE, **options})
        self.expected: list[torch.Tensor] = []
        self.generation = 0

    def add(self, count: int) -> None:
        new = torch.stack([truth(len(self.expected) + i, self.generation) for i in range(count)], dim=2)
        for layer in range(SHAPE.layers):
            self.kv.append(layer, new[layer, 0], new[layer, 1])
            self.check_layer(layer, [*self.expected, *new.unbind(2)], count)
        self.kv.advance(count)
        self.expected += new.unbind(2)

    def truncate(self, length: int) -> None:
        self.kv.truncate(length)
        self.expected = self.expected[:length]
        self.generation += 1

    def check_layer(self, layer: int, expected: list[torch.Tensor], count: int = 1) -> None:
        """What the last `count` positions of a layer see."""
        end = len(expected)
        first = max(0, end - count - WINDOW + 1) if SHAPE.is_local(layer) else 0
        found = torch.stack(self.kv.read(layer, first, end))
        wanted = torch.stack([each[layer] for each in expected[first:]], dim=2)
        assert torch.equal(found, wanted)


def test_a_window_moves_on_and_old_positions_are_gone() -> None:
    written = Written()
    for _ in range(400):
        written.add(1)
    assert written.kv.bytes < SHAPE.bytes(512, spare=SPARE) + 1
    with pytest.raises(ValueError, match="position 300 of a local layer is gone"):
        written.kv.read(0, 300, 400)
    assert written.kv.read(1, 0, 400)[0].shape[1] == 400


@pytest.mark.parametrize("chunk", [1, 7, SPARE, 3 * SPARE])
def test_chunks_of_any_size_see_their_window(chunk: int) -> None:
    written = Written()
    for _ in range(5 * WINDOW // chunk + 3):
        written.add(chunk)


@pytest.mark.parametrize("start", range(WINDOW, WINDOW + 3 * SPARE, 5))
def test_a_proposed_block_is_rolled_back_wherever_the_window_stands(start: int) -> None:
    written = Written()
    for _ in range(start):
        written.add(1)
    for kept in (1, 5, ROLLBACK, 2, 1):
        length = len(written.expected)
        written.add(ROLLBACK)
        written.truncate(length + kept)
        written.add(1)


def test_what_is_written_last_can_be_taken_back_to_the_token() -> None:
    written = Written()
    for _ in range(200):
        written.add(3)
        assert written.kv.reach(len(written.expected) - 3) == len(written.expected) - 3
        back = len(written.expected) - ROLLBACK
        assert written.kv.reach(back) == max(back, 0)
    assert any(written.kv.reach(length) != length for length in range(600))


def test_what_was_written_after_going_back_is_what_is_held_from_then_on() -> None:
    written = Written()
    written.kv.mark([100, 130, 300])
    for _ in range(3):
        while len(written.expected) < 500:
            written.add(5)
        written.truncate(130)
    while len(written.expected) < 500:
        written.add(7)
    for mark in (300, 130, 100):
        written.truncate(mark)
        written.add(1)
        written.truncate(mark)


def test_going_further_back_is_refused() -> None:
    written = Written()
    written.add(20)
    for _ in range(200):
        written.add(1)
    with pytest.raises(ValueError, match="local layers can't go back to 50; the nearest is 0"):
        written.kv.truncate(50)
    assert written.kv.length == 220
    written.truncate(0)
    written.add(3)


def test_marks_are_places_to_go_back_to() -> None:
    written = Written()
    written.kv.mark([100, 350, 360])
    while len(written.expected) < 600:
        written.add(5)
    assert [written.kv.reach(mark) for mark in (100, 350, 360)] == [100, 350, 360]
    assert written.kv.reach(349) == 100 or written.kv.reach(349) == 349
    assert written.kv.reach(300) <= 120
    assert written.kv.reach(99) in (0, 99)
    written.truncate(360)
    written.add(40)
    written.truncate(350)
    written.add(100)
    written.truncate(100)
    assert written.kv.reach(350) == 100
    for _ in range(200):
        written.add(3)


def test_close_marks_keep_all_between_them() -> None:
    written = Written()
    written.kv.mark(range(0, 500, WINDOW - 1))
    for _ in range(500):
        written.add(1)
    assert all(written.kv.reach(length) == length for length in range(500))
    one_layer = SHAPE.row_bytes(F32)
    assert written.kv.bytes <= 3 * 512 * one_layer + 2 * (WINDOW + ROLLBACK + SPARE) * one_layer


def test_marks_of_a_bounded_past_go_but_for_the_first_and_the_latest() -> None:
    budget = 2 * 6 * WINDOW * SHAPE.row_bytes(F32)
    written = Written(past_bytes=budget)
    written.kv.mark(range(100, 2_000, 100))
    plain = Written()
    for _ in range(2_000 // 4):
        written.add(4)
        plain.add(4)
    assert 0 < written.kv.bytes - plain.kv.bytes <= budget
    reached = [mark for mark in range(100, 2_000, 100) if written.kv.reach(mark) == mark]
    assert reached[0] == 100
    assert 3 <= len(reached) < 10
    assert reached[1:] == list(range(reached[1], 2_000, 100))
    written.truncate(100)
    written.add(30)


def test_a_copy_of_a_beginning_is_its_own() -> None:
    written = Written()
    written.kv.mark([100])
    for _ in range(300):
        written.add(1)
    other = Written()
    other.kv, other.expected, other.generation = written.kv.copy(100), written.expected[:100], 9
    for _ in range(80):
        other.add(1)
    for _ in range(80):
        written.add(1)


steps = st.lists(
    st.tuples(st.sampled_from(["add", "back", "far", "mark", "copy"]), st.integers(0, 60)), max_size=25
)


@settings(max_examples=60, deadline=None)
@given(steps, st.integers(1, 40))
def test_any_history_reads_as_it_was_written(history: list[tuple[str, int]], spare: int) -> None:
    written = Written(spare=spare, past_bytes=30 * WINDOW * SHAPE.row_bytes(F32))
    for act, size in history:
        if act == "add" and size:
            written.add(size)
        elif act == "back":
            written.truncate(written.kv.reach(max(0, len(written.expected) - size % ROLLBACK)))
        elif act == "far":
            written.truncate(written.kv.reach(len(written.expected) * size // 60))
        elif act == "mark":
            written.kv.mark(range(0, 2_000, size + 1))
        elif act == "copy":
            length = written.kv.reach(len(written.expected) * size // 60)
            written.kv, written.expected = written.kv.copy(length), written.expected[:length]
    written.add(1)


@pytest.mark.parametrize("name", STORAGES)
def test_bytes_are_exact_and_foretold(name: str) -> None:
    storage = STORAGES[name]
    kv = Kv(SHAPE, 5_000, storage)
    kv.reserve(2_000)
    expected = sum(part.nbytes for lane in kv._lanes for part in lane._parts)
    assert kv.bytes == SHAPE.bytes(2_000, storage) == expected
    per_row = {"F32": 4 * DIM, "F16": 2 * DIM, "BF16": 2 * DIM, "Q8": DIM + 2}[name] * 2 * HEADS
    assert kv.bytes == per_row * (2_048 + 2 * (WINDOW - 1 + ROLLBACK + 256))


@pytest.mark.parametrize(("storage", "bound"), [(F32, 0.0), (BF16, 2**-8), (Q8, 1 / 254)])
def test_what_is_kept_in_fewer_bits_is_off_by_no_more_than_they_allow(storage: Storage, bound: float) -> None:
    shape = KvShape(layers=1, heads=4, head_dim=64)
    kv = Kv(shape, 1_000, storage)
    scales = torch.logspace(-6, 6, 300)[:, None, None]
    keys, values = torch.randn(300, 4, 64) * scales, torch.randn(300, 4, 64) / scales
    values[7] = 0
    kv.append(0, keys, values)
    for found, wanted in zip(kv.read(0, 0, 300), (keys, values), strict=True):
        wanted = wanted.transpose(0, 1)
        error = (found - wanted).abs()
        assert (error <= bound * 1.005 * wanted.abs().amax(-1, keepdim=True)).all()
    assert (kv.read(0, 7, 8)[1] == 0).all()


def test_half_floats_are_off_by_no_more_than_they_allow_within_their_range() -> None:
    kv = Kv(KvShape(layers=1, heads=4, head_dim=64), 1_000, F16)
    keys, values = torch.randn(300, 4, 64) * 30, torch.randn(300, 4, 64) * 0.3
    kv.append(0, keys, values)
    for found, wanted in zip(kv.read(0, 0, 300), (keys, values), strict=True):
        wanted = wanted.transpose(0, 1)
        assert ((found - wanted).abs() <= 2**-11 * wanted.abs() + 2**-24).all()


def test_fewer_bits_move_and_come_back_with_their_scales() -> None:
    kv = Kv(KvShape(2, 2, 8, window=WINDOW, local=(True, True)), 10_000, Q8, spare=SPARE)
    kv.mark([90])
    rows = torch.randn(300, 2, 8)
    for at, end in pairwise(range(0, 301, 6)):
        for layer in range(2):
            kv.append(layer, rows[at:end], -rows[at:end])
        kv.advance(6)
    kv.truncate(90)
    keys, values = kv.read(1, 90 - WINDOW + 1, 90)
    assert torch.equal(keys, -values)
    assert (keys - rows[90 - WINDOW + 1 : 90].transpose(0, 1)).abs().max() < 4 / 127
