import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from engine.cache.kv import BLOCK, Kv, KvShape
from engine.cache.prefix import Prefixes, shared

SHAPE = KvShape(layers=1, heads=1, head_dim=2)
FULL = BLOCK * SHAPE.token_bytes  # what any of the short ones here takes


def cache_of(tokens: list[int]) -> Kv:
    kv = Kv(SHAPE, limit=1_000)
    values = torch.tensor(tokens, dtype=torch.float32).view(-1, 1, 1).expand(-1, 1, 2)
    kv.append(0, values, values)
    kv.advance(len(tokens))
    return kv


def tokens_of(kv: Kv) -> list[int]:
    return kv.read(0, 0, kv.length)[0][0, :, 0].int().tolist()


@pytest.fixture
def prefixes() -> Prefixes:
    return Prefixes(max_bytes=3 * FULL)


def test_the_longest_beginning_is_taken_and_cut(prefixes: Prefixes) -> None:
    prefixes.keep([1, 2, 3, 9], cache_of([1, 2, 3, 9]))
    prefixes.keep([1, 2], cache_of([1, 2]))
    taken = prefixes.take([1, 2, 3, 4, 5])
    assert taken is not None
    assert tokens_of(taken) == [1, 2, 3]
    assert prefixes.bytes == FULL


def test_the_last_token_is_always_left(prefixes: Prefixes) -> None:
    prefixes.keep([1, 2, 3], cache_of([1, 2, 3]))
    taken = prefixes.take([1, 2, 3])
    assert taken is not None
    assert tokens_of(taken) == [1, 2]
    assert prefixes.take([1]) is None


def test_a_side_request_copies_what_it_shares(prefixes: Prefixes) -> None:
    conversation = list(range(100))
    prefixes.keep(conversation, cache_of(conversation))
    taken = prefixes.take([*conversation[:10], 500])
    assert taken is not None
    assert tokens_of(taken) == conversation[:10]
    again = prefixes.take([*conversation, 7])
    assert again is not None
    assert tokens_of(again) == conversation


def test_nothing_in_common_is_nothing(prefixes: Prefixes) -> None:
    prefixes.keep([5, 6], cache_of([5, 6]))
    assert prefixes.take([6, 5, 4]) is None
    assert prefixes.bytes == FULL


def test_the_oldest_make_way(prefixes: Prefixes) -> None:
    for first in range(5):
        prefixes.keep([first, 9], cache_of([first, 9]))
    assert prefixes.bytes == 3 * FULL
    assert [first for first in range(5) if prefixes.take([first, 9, 9])] == [2, 3, 4]


def test_one_beyond_the_bound_or_empty_is_not_kept() -> None:
    small = Prefixes(max_bytes=FULL - 1)
    small.keep([1, 2], cache_of([1, 2]))
    small.keep([], Kv(SHAPE, limit=9))
    assert small.bytes == 0


def test_tokens_without_a_computed_position_do_not_count(prefixes: Prefixes) -> None:
    prefixes.keep([1, 2, 3, 4], cache_of([1, 2, 3]))
    taken = prefixes.take([1, 2, 3, 4, 5])
    assert taken is not None
    assert tokens_of(taken) == [1, 2, 3]


@given(st.lists(st.integers(0, 1)), st.lists(st.integers(0, 1)), st.lists(st.integers(0, 1)))
def test_shared_counts_leading_tokens(start: list[int], one: list[int], other: list[int]) -> None:
    one, other = start + one, start + other
    expected = next(
        (i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )
    assert shared(tuple(one), tuple(other)) == expected >= len(start)
